"""Facts of a round for its log: how far the silos are from the consensus, and how it changed."""

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr import wire
from fedct_flwr.consensus.label_matrix import agreed, counts_agreed
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Answers, HardLabels, SiloName, Votes
from fedct_flwr.wire.content import Fit, Scores, Terms
from fedct_flwr.wire.kinds import COUNTS, Kind


class RoundConsensus(NamedTuple):
    """Consensus on the queried examples ``(queried,)``, and their previous targets.

    ``targets`` ``(num_public,)`` is the whole table after it.
    """

    decided: Answers
    incumbent: Answers
    targets: Answers


class Facts(NamedTuple):
    """Columns of the round log by name.

    ``of_round`` and ``of_silos`` are the round's and each silo's; ``younger`` are columns of the round that came later,
    which stand at the end of a line. ``metrics`` names those that Flower gets too; ``message`` has them in words.
    """

    of_round: Mapping[str, Any]
    of_silos: Mapping[SiloName, Mapping[str, Any]]
    metrics: tuple[str, ...]
    message: str
    younger: Mapping[str, Any] = {}


def facts_of_labels(
    agreement: float | None,
    of_silos: Mapping[SiloName, Mapping[str, Any]],
    scores: Iterable[Scores | Fit | None],
    decision: RoundConsensus,
    terms: Terms,
) -> Facts:
    """Numbers of changed and missing labels, and the silos' agreement with the labels; None where it is unknown.

    ``changed`` counts labels that are other ones than before, or new; ``churn`` is the share of labels that did not
    stay, of those that the examples asked about had before (None if they had none). ``agreement`` is the mean of the
    shares of votes that equal the consensus, over silos with a vote. ``accuracy_spread`` is the standard deviation of
    the silos' accuracies on the pooled test set, where at least two report one.
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
    message = f"{of_round['changed']} labels changed, {of_round['abstained']} abstained"
    message += "" if agreement is None else f", silos agree with the consensus on {agreement:.1%}"
    younger = {
        "churn": float(differs[had_one].mean()) if had_one.any() else None,
        "accuracy_spread": _spread(scores),
    }
    return Facts(of_round, of_silos, ("changed", "abstained", *agreeing), message, younger)


def class_counts(targets: Answers, terms: Terms) -> dict[str, int]:
    """How many public examples have each class."""
    counts = np.bincount(targets[targets != ABSTAIN], minlength=terms.num_classes).tolist()
    return dict(zip(terms.classes, counts, strict=True))


def facts_of_values(votes: Mapping[SiloName, Votes], decision: RoundConsensus) -> Facts:
    """Distance of the silos from the consensus, and its change, in units of the quantity.

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
    accuracies = (score.pooled_accuracy for score in scores if isinstance(score, Scores))
    known = [accuracy for accuracy in accuracies if not np.isnan(accuracy)]
    return float(np.std(known)) if len(known) > 1 else None


def facts_of(
    kind: Kind,
    votes: Mapping[SiloName, Votes],
    scores: Iterable[Scores | Fit | None],
    decision: RoundConsensus,
    terms: Terms,
) -> Facts:
    """The round log's entry for these votes and scores.

    In a sum without noise, ``votes`` has the opened sum ``(examples, classes)`` for each silo in it.
    """
    if not kind.labels:
        return facts_of_values(votes, decision)
    if kind.added and kind is wire.GRADIENTS:
        return _of_labeler(votes, decision, terms)
    if kind.added and isinstance(kind, wire.Summed):
        agreement = None if kind.noisy else _agreed_in_sum(votes, decision)
        found = facts_of_labels(agreement, {silo: {} for silo in votes}, scores, decision, terms)
        message = f"{found.of_round['changed']} labels changed, decided on counts with the silos' noise"
        return found._replace(message=message) if kind.noisy else found
    of_silos = {silo: {"agreement": _agreed(kind, cast, decision.decided)} for silo, cast in votes.items()}
    voting = [silo for silo, cast in votes.items() if cast.ndim > 1 or (cast != ABSTAIN).any()]
    agreement = fmean(of_silos[silo]["agreement"] for silo in voting) if voting else 0.0
    return facts_of_labels(agreement, of_silos, scores, decision, terms)


def empty_table(kind: Kind, num_public: int) -> Answers:
    """The shared table before the first round, ``(num_public,)``: no label, or NaN for values."""
    if kind.labels:
        return np.full(num_public, ABSTAIN, dtype=LABEL_DTYPE)
    return np.full(num_public, np.nan, dtype=np.float32)


def _agreed(kind: Kind, votes: Votes, decided: HardLabels) -> float:
    """Share of a silo's votes that equal the consensus, among examples with a label; 0 if none has one."""
    if kind is COUNTS:
        return counts_agreed(votes, decided)
    return agreed(votes.argmax(axis=1) if kind.for_numbers else votes, decided)


def _agreed_in_sum(votes: Mapping[SiloName, Votes], decision: RoundConsensus) -> float:
    total = next(iter(votes.values()))
    labeled = np.flatnonzero(decision.decided != ABSTAIN)
    agreeing = total[labeled, decision.decided[labeled]].sum()
    return float(agreeing / (len(labeled) * len(votes))) if len(labeled) else 0.0


def _of_labeler(votes: Mapping[SiloName, Votes], decision: RoundConsensus, terms: Terms) -> Facts:
    changed = int((decision.decided != decision.incumbent).sum())
    of_round = {"changed": changed, "abstained": 0, "class_counts": class_counts(decision.targets, terms)}
    return Facts(of_round, {silo: {} for silo in votes}, ("changed",), f"{changed} labels by the joint labeler")
