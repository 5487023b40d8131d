"""What the round log says of a round, apart from bytes and seconds."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.types import ABSTAIN, Answers, SiloName, Votes
from fedct_flwr.wire.content import Fit, Scores, Terms


class Decided(NamedTuple):
    """What is decided on, in words; ``agreement``, ``churn`` and ``balance`` say what the figures' shares are of.

    ``still`` is what does not change at a fixed point.
    """

    ones: str
    title_of_churn: str
    title_of_balance: str
    lead_of_balance: str
    agreement: str
    churn: str
    balance: str
    still: str = "no label"


LABELS: Final = Decided(
    "labels",
    "Label churn",
    "Class balance of the pseudo-labels",
    "Pseudo-labels",
    "The share of a silo's votes that equal the label decided upon.",
    "Of the examples asked about that had a label before: the share with another one, or none, after.",
    "Of all public examples that have a label.",
)
CLASSES: Final = Decided(
    "likeliest classes",
    "Churn of the likeliest classes",
    "Class balance of the consensus",
    "Likeliest classes",
    "The share of public examples for which a silo and the mean of all silos' targets find the same class likeliest.",
    "Of the examples asked about before: the share for which the mean of all silos' targets finds another class "
    "likeliest than it did.",
    "Of all public examples asked about so far, by the mean of all silos' targets.",
    still="nothing",
)


class Near(NamedTuple):
    """How near a silo comes to the consensus: the column of the round log, a table's head, and a format.

    ``form`` is one of Python's format specifications.
    """

    column: str
    head: str
    form: str


AGREEMENT: Final = Near("agreement", "agreement", ".1%")
DISTANCE: Final = Near("distance", "off the consensus", ".4g")


class Decision(NamedTuple):
    """What was decided on the queried examples ``(queried,)``, and what they had before.

    ``targets`` ``(num_public,)`` is the whole table after it.
    """

    decided: Answers
    incumbent: Answers
    targets: Answers


class Facts(NamedTuple):
    """Columns of the round log by name.

    ``of_round`` and ``of_silos`` are the round's and each silo's; ``younger`` are columns of the round that came later,
    which stand at the end of a line. ``metrics`` names those that Flower gets too; ``said`` says them in words.
    """

    of_round: Mapping[str, Any]
    of_silos: Mapping[SiloName, Mapping[str, Any]]
    metrics: tuple[str, ...]
    said: str
    younger: Mapping[str, Any] = {}


def facts_of_labels(
    agreement: float | None,
    of_silos: Mapping[SiloName, Mapping[str, Any]],
    scores: Iterable[Scores | Fit | None],
    decision: Decision,
    terms: Terms,
) -> Facts:
    """How many labels changed and abstain, and how far silos agree with them; None where that is unknown.

    ``changed`` counts labels that are other ones than before, or new; ``churn`` is the share of labels that did not
    stay, of those that the examples asked about had before (None if they had none). ``agreement`` is the mean of the
    silos' shares of votes that equal the consensus. ``accuracy_spread`` is the standard deviation of the silos'
    accuracies on the pooled test set, where at least two report one.
    """
    decided, incumbent, targets = decision
    had_one, differs = incumbent != ABSTAIN, decided != incumbent
    agreeing = {} if agreement is None else {"agreement": agreement}
    of_round = {
        "changed": int(differs.sum()),
        "abstained": int((decided == ABSTAIN).sum()),
        **agreeing,
        "class_counts": class_counts(targets, terms),
    }
    said = f"{of_round['changed']} labels changed, {of_round['abstained']} abstained"
    said += "" if agreement is None else f", silos agree with the consensus on {agreement:.1%}"
    younger = {
        "churn": float(differs[had_one].mean()) if had_one.any() else None,
        "accuracy_spread": _spread(scores),
    }
    return Facts(of_round, of_silos, ("changed", "abstained", *agreeing), said, younger)


def class_counts(targets: Answers, terms: Terms) -> dict[str, int]:
    """How many public examples have each class."""
    counts = np.bincount(targets[targets != ABSTAIN], minlength=terms.num_classes).tolist()
    return dict(zip(terms.classes, counts, strict=True))


def facts_of_values(votes: Mapping[SiloName, Votes], decision: Decision) -> Facts:
    """How far silos lie off the consensus, and how far that moved, in units of the quantity.

    ``distance`` is a root mean square over examples, and for the round one over the silos' distances. ``moved`` is how
    far the values of the examples asked about lie from those that they had before (None if they had none).
    """
    decided, incumbent, _ = decision
    distance = {silo: _root_mean_square(cast[:, 0] - decided) for silo, cast in votes.items()}
    had_one = ~np.isnan(incumbent)
    of_round = {
        "distance": _root_mean_square(np.array(list(distance.values()))),
        "moved": _root_mean_square((decided - incumbent)[had_one]) if had_one.any() else None,
    }
    of_silos = {silo: {"distance": value} for silo, value in distance.items()}
    return Facts(of_round, of_silos, ("distance",), f"silos lie {of_round['distance']:.4g} off the consensus")


def _root_mean_square(values: NDArray[np.floating[Any]]) -> float:
    return float(np.sqrt(np.mean(values.astype(np.float64) ** 2)))


def _spread(scores: Iterable[Scores | Fit | None]) -> float | None:
    told = (score.pooled_accuracy for score in scores if isinstance(score, Scores))
    known = [accuracy for accuracy in told if not np.isnan(accuracy)]
    return float(np.std(known)) if len(known) > 1 else None
