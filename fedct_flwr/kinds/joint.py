"""Steps of the joint labeler's training: silos add noisy gradients, and in the end learn the labeler's labels."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Final

from fedct_flwr.datasets.public_set import Query
from fedct_flwr.kinds.base import Bench, Cost, Decision, Facts, class_counts
from fedct_flwr.kinds.hard import HARD
from fedct_flwr.kinds.summed import OnlyReady
from fedct_flwr.secure_sum.terms import Shape
from fedct_flwr.types import HardLabels, SiloName, Votes
from fedct_flwr.wire.content import Fit, Instruction, Scores, Soft, Terms
from fedct_flwr.wire.refusal import Refusal, Refused

STEPS: Final = 15
"""Of the labeler's training. In one more round silos learn its labels."""
BITS: Final = 64
"""Of each number in a sum."""


class Gradients(OnlyReady):
    """Gradients with a share of noise ``(size, classes)``, in a sum; or nothing, where silos learn the labels."""

    name: ClassVar[str] = "sums of noisy gradients"
    policy: ClassVar[str] = "joint"
    shared: ClassVar[str] = "sums of gradients with noise, from which a single silo's cannot be read"
    leaves: ClassVar[str] = (
        "masked numbers that look random. Only their sum over the silos that take part can be opened: a step of a "
        "linear model's training, to which the silos together have added noise"
    )
    in_short: ClassVar[str] = "parts of secure sums of gradients with noise"
    beware: ClassVar[str] = (
        "The guarantee counts the noise of other honest silos. It needs partners that add theirs, and keys that are "
        "their own. A partner that lies can spoil the model, and no sum shows it"
    )

    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        joint = instruction.joint
        return Cost(0 if joint is None or joint.weights is None else joint.weights.size)

    def shape(self, instruction: Instruction, subject: bytes) -> Shape:
        """Of the sum that a step opens. Raises Refused (MALFORMED) where silos are not asked to add."""
        if instruction.joint is None or instruction.joint.weights is None:
            raise Refused(Refusal.MALFORMED)
        return Shape(instruction.joint.weights.size, BITS, subject)

    def cotrain(self, bench: Bench, instruction: Instruction) -> Votes:
        return HARD.cotrain(bench, replace(instruction, joint=None))

    def question(self, number: int, query: Query, targets: HardLabels, votes: int, learning: Soft) -> Instruction:
        """Raise Refused (QUERY): a step has more to say, see ``Joint``."""
        raise Refused(Refusal.QUERY)

    def facts(
        self, votes: Mapping[SiloName, Votes], scores: Iterable[Scores | Fit | None], decision: Decision, terms: Terms
    ) -> Facts:
        changed = int((decision.decided != decision.incumbent).sum())
        of_round = {"changed": changed, "abstained": 0, "class_counts": class_counts(decision.targets, terms)}
        return Facts(of_round, {silo: {} for silo in votes}, ("changed",), f"{changed} labels by the joint labeler")


GRADIENTS: Final = Gradients()


def adds_gradient(instruction: Instruction) -> bool:
    """Whether an instruction asks for a step of the joint labeler's training, in which the own model has no part."""
    return instruction.joint is not None and instruction.joint.weights is not None
