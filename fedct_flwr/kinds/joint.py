"""Sums with noise for records: steps of the joint labeler's training, and counts of columns' values."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Final

from fedct_flwr.datasets.federated import Query
from fedct_flwr.kinds.base import Cost, Decision, Facts, SiloTools, class_counts
from fedct_flwr.kinds.hard import HARD
from fedct_flwr.kinds.summed import OnlyReady
from fedct_flwr.secure_sum.terms import Shape
from fedct_flwr.types import HardLabels, SiloName, Votes
from fedct_flwr.wire.content import NO_TERMS, Fit, Instruction, Scores, Soft, Terms
from fedct_flwr.wire.refusal import Refusal, Refused

STEPS: Final = 15
"""Most steps of the labeler's training. In one more round silos learn its labels."""
BITS: Final = 64
"""Bits of each number in a sum."""


_BEWARE: Final = (
    "The guarantee counts the noise of other honest silos. It needs partners that add theirs, and keys that are their "
    "own. A partner that lies can spoil the {}, and no sum shows it"
)


class NoisySum(OnlyReady):
    """Summands with shares of noise that protect records."""

    def question(self, number: int, query: Query, targets: HardLabels, votes: int, learning: Soft) -> Instruction:
        """Raise Refused (QUERY): ``Joint`` and ``Histograms`` need more than these arguments."""
        raise Refused(Refusal.QUERY)

    def shape(self, instruction: Instruction, subject: bytes) -> Shape:
        """Shape of the opened sum; ``subject``: 32 bytes. Raises Refused (MALFORMED) where there is nothing to add."""
        if not instruction.adds_noise:
            raise Refused(Refusal.MALFORMED)
        return Shape(self.cost(instruction, NO_TERMS).labels, BITS, subject)


class Gradients(NoisySum):
    """Gradients with a share of noise ``(size, classes)``, in a sum; or nothing, where silos learn the labels."""

    name: ClassVar[str] = "sums of noisy gradients"
    policy: ClassVar[str] = "joint"
    shared: ClassVar[str] = "sums of gradients with noise, from which a single silo's cannot be read"
    leaves: ClassVar[str] = (
        "masked numbers that look random. Only their sum over the silos that take part can be opened: a step of a "
        "linear model's training, to which the silos together have added noise"
    )
    in_short: ClassVar[str] = "parts of secure sums of gradients with noise"
    beware: ClassVar[str] = _BEWARE.format("model")

    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        joint = instruction.joint
        return Cost(0 if joint is None or joint.weights is None else joint.weights.size)

    def cotrain(self, tools: SiloTools, instruction: Instruction) -> Votes:
        return HARD.cotrain(tools, replace(instruction, joint=None))

    def facts(
        self, votes: Mapping[SiloName, Votes], scores: Iterable[Scores | Fit | None], decision: Decision, terms: Terms
    ) -> Facts:
        changed = int((decision.decided != decision.incumbent).sum())
        of_round = {"changed": changed, "abstained": 0, "class_counts": class_counts(decision.targets, terms)}
        return Facts(of_round, {silo: {} for silo in votes}, ("changed",), f"{changed} labels by the joint labeler")


class HistogramCounts(NoisySum):
    """Counts of each column's values with a share of noise, in a sum; the silo's own model has no part in it."""

    name: ClassVar[str] = "sums of noisy histograms"
    policy: ClassVar[str] = "draw"
    shared: ClassVar[str] = "sums of counts of values with noise, from which a single silo's cannot be read"
    leaves: ClassVar[str] = (
        "masked numbers that look random. Only their sum over the silos that take part can be opened: how many records "
        "of each class have each value of a column, with noise that the silos together have added"
    )
    in_short: ClassVar[str] = "parts of secure sums of counts with noise"
    beware: ClassVar[str] = _BEWARE.format("public set")

    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        return Cost(instruction.histograms.numbers if instruction.histograms else 0)

    def cotrain(self, tools: SiloTools, instruction: Instruction) -> Votes:
        """Raise Refused (QUERY): nothing is learned."""
        raise Refused(Refusal.QUERY)


GRADIENTS: Final = Gradients()
HISTOGRAMS: Final = HistogramCounts()
