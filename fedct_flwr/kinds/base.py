"""Interface of a kind of answer.

All that depends on the kind stands in the kind's own file: how it travels, how a silo trains for it and answers, what
it counts towards the limits, and the words for people.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.config import LearnerSettings, Policy
from fedct_flwr.consensus.label_matrix import agreed
from fedct_flwr.datasets.federated import PublicSet, Query
from fedct_flwr.learners.base import Learner
from fedct_flwr.learners.safeguard import Safeguard, SoftSafeguard
from fedct_flwr.scoring import both_accuracies
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Answers, Examples, HardLabels, SiloName, Votes
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.content import Fit, Instruction, Scores, Soft, SoftTargets, Terms


class Decided(NamedTuple):
    """Words for the consensus; ``agreement``, ``churn`` and ``balance`` name what these figures are shares of.

    ``still`` names the part that does not change at a fixed point.
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
    """Measure of a silo's distance to the consensus: the column of the round log, a table's head, and a format.

    ``form`` is one of Python's format specifications.
    """

    column: str
    head: str
    form: str


AGREEMENT: Final = Near("agreement", "agreement", ".1%")
DISTANCE: Final = Near("distance", "off the consensus", ".4g")


class Decision(NamedTuple):
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
    decision: Decision,
    terms: Terms,
) -> Facts:
    """Numbers of changed and missing labels, and the silos' agreement with the labels; None where it is unknown.

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


def facts_of_values(votes: Mapping[SiloName, Votes], decision: Decision) -> Facts:
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


class Cost(NamedTuple):
    """Cost of a question for a silo: the number of ``labels`` in its answer, and the training before it.

    Others' answers weigh ``weight`` where its own records weigh 1. 0: the coordinator has no say.
    """

    labels: int
    weight: float = 0.0


def as_kind(kind: Callable[[Any], "Kind"], method: str) -> Any:
    """A method that does what the ``method`` of another kind does; ``kind`` finds that kind for the object."""
    return lambda self, *arguments: getattr(kind(self), method)(*arguments)


class SiloTools(Protocol):
    """A silo's tools for answering a question."""

    @property
    def learner(self) -> Learner:
        """The personal model."""

    @property
    def private(self) -> Examples:
        """The silo's own records."""

    @property
    def public(self) -> PublicSet:
        """Its copy of the public set."""

    @property
    def safeguard(self) -> Safeguard | None:
        """Decides the weight of other silos' labels; None where the weight is set."""

    @property
    def soft_safeguard(self) -> SoftSafeguard | None:
        """Decides the weight of others' probabilities or values; None where it is set, or where they have no weight."""

    @property
    def settings(self) -> LearnerSettings:
        """Settings of the personal model's training."""

    @property
    def terms(self) -> Terms:
        """The terms that the silo has agreed to."""


class Kind(Protocol):
    """One kind of answer. Kinds have no state: the registry holds one object of each."""

    name: ClassVar[str]
    """The name in the registry."""
    policy: ClassVar[str]
    """Name in a silo's policy and its egress log."""
    field: ClassVar[str]
    """The field of a reply that holds it."""
    of: ClassVar[str] = "labels"
    """The question's subject, in a word."""
    for_numbers: ClassVar[bool] = False
    """Whether the limits on questions for numbers apply."""
    scores: ClassVar[type[Scores] | type[Fit]] = Scores
    """The test scores that travel with it, where any may."""
    by_name: ClassVar[bool] = False
    """Whether an instruction's ``answer`` asks for it, by its name, and nothing else does."""
    with_soft: ClassVar[bool] = False
    """Whether an instruction that asks for it by its name may have ``soft``."""
    own_model: ClassVar[bool] = True
    """Whether the silo's own model learns and answers; otherwise its students do, taught for each question."""
    one_label: ClassVar[bool] = False
    """Whether a silo's answer is one label for each example, by which silos can be compared."""
    labels: ClassVar[bool] = True
    """Whether the consensus is labels, which a global model can learn."""
    learns_labels: ClassVar[bool] = True
    """Whether the silo's own model learns the labels in an instruction's ``targets``."""
    own_targets: ClassVar[bool] = False
    """Whether each silo has targets of its own; otherwise all learn the table of the consensus."""
    decided: ClassVar[Decided] = LABELS
    """A report's words for the consensus."""
    near: ClassVar[Near] = AGREEMENT
    """Measure of the silos' distance to it."""
    shared: ClassVar[str]
    """Data that leave, in the words of tables and reports."""
    unprotected: ClassVar[str] = ""
    """Source of a global model's labels without a protection, in the words of its card."""
    leaves: ClassVar[str]
    """Data that leave, in the words of an approval."""
    in_short: ClassVar[str]
    """The same in a few words, for a status."""
    beware: ClassVar[str] = ""
    """Warning to a silo before it lets this kind out; empty without one."""

    @abstractmethod
    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        """A question's share of a silo's limits."""

    @abstractmethod
    def longest(self, count: int, votes: int, terms: Terms) -> Votes:
        """Answers on ``count`` examples of which none take more bytes."""

    @abstractmethod
    def put(self, votes: Votes, message: labels_pb2.Reply, terms: Terms) -> None:
        """Put answers into a reply, in their one encoding. Raises Refused for answers of another kind."""

    @abstractmethod
    def take(self, message: labels_pb2.Reply, instruction: Instruction, terms: Terms) -> Votes:
        """Take them out of a reply to the instruction. Raises Refused for anything that does not answer it."""

    @abstractmethod
    def cotrain(self, tools: SiloTools, instruction: Instruction) -> Votes:
        """Train the silo's own model for a round, and answer with it. Raises TrainingError or ConfigError."""

    @abstractmethod
    def question(self, number: int, query: Query, targets: HardLabels, votes: int, learning: Soft) -> Instruction:
        """The instruction for round ``number``; arguments that the kind does not need are ignored."""

    def fits(self, quantity: str) -> bool:
        """Whether a study that predicts this quantity (empty: classes) can ask for it: most kinds need classes."""
        return not quantity

    def can_answer(self, votes: int, terms: Terms) -> bool:
        """Whether there are replies to such a question."""
        return True

    def check_learner(self, learner: Learner) -> None:
        """Raise ConfigError for a learner that cannot give such answers, or cannot learn from them."""
        return

    def put_learning(self, instruction: Instruction, message: labels_pb2.Instruction, terms: Terms) -> None:
        """Put the coordinator's settings for training into a message, if there are any. Raises Refused."""
        return

    def take_learning(self, message: labels_pb2.Instruction, terms: Terms) -> Soft | None:
        """Read the settings that ``put_learning`` wrote. Raises Refused."""
        return None

    def soft_targets(self, instruction: Instruction) -> SoftTargets | None:
        """Soft targets of an instruction; None without any."""
        return None

    def teaches(self, instruction: Instruction) -> bool:
        """Whether an instruction has targets for the silo's own model."""
        return bool((instruction.targets != ABSTAIN).any())

    def safeguard_of(self, tools: SiloTools) -> Safeguard | SoftSafeguard | None:
        """Decides the weight of the targets; None where it is set, or where targets have no weight."""
        return tools.safeguard

    def score(self, learner: Learner, own: Examples, pooled: Examples) -> Scores | Fit:
        """Scores of a model on a silo's own and on the pooled test set."""
        return Scores(*both_accuracies(learner, own), *both_accuracies(learner, pooled))

    def facts(
        self,
        votes: Mapping[SiloName, Votes],
        scores: Iterable[Scores | Fit | None],
        decision: Decision,
        terms: Terms,
    ) -> Facts:
        """The round log's entry for these votes and scores."""
        of_silos = {silo: {"agreement": self.agreed(cast, decision.decided)} for silo, cast in votes.items()}
        return facts_of_labels(fmean(one["agreement"] for one in of_silos.values()), of_silos, scores, decision, terms)

    def agreed(self, votes: Votes, decided: HardLabels) -> float:
        """Share of a silo's votes that equal the consensus, among examples with a label; 0 if none has one."""
        return agreed(votes, decided)

    def empty_table(self, num_public: int) -> Answers:
        """The shared table before the first round, ``(num_public,)``: no label."""
        return np.full(num_public, ABSTAIN, dtype=LABEL_DTYPE)

    def predicted(self, terms: Terms) -> str:
        """The prediction's subject, in a word or two."""
        return f"{terms.num_classes} classes"

    def check_protection(self, protection: str) -> None:
        """Raise ConfigError where a silo's protection (not 'none') does not cover this kind."""
        return

    def limits(self, policy: Policy) -> Mapping[str, Sequence[str]]:
        """Limits of a policy that hold for each question of this kind: titles, and sentences below them."""
        if not self.for_numbers:
            return {}
        message = (
            f"Others' {self.of} count at most {policy.max_consensus_weight:g} against 1 for the silo's records, when "
            "its model learns from both"
        )
        return {f"Limits of each question for {self.of}": [message]}
