"""Kinds of answer that leave only in secure sums, and the questions for them.

A silo keeps such an answer and says that it is ready; ``secure_sum`` adds it to those of other silos.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from fedct_flwr.types import HardLabels, Refusal, Refused, Votes
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.content import LONGEST_CONDITION, Histograms, Instruction, Joint, Query, Soft, Terms
from fedct_flwr.wire.kinds import COUNTS, HARD, NOTHING, Cost, Kind

_MOST_STEPS: Final = 1000


class OnlyReady(Kind):
    """Answers that stay at the silo, to be added in a secure sum: its reply only says that they are ready."""

    policy = "sum"
    field = "ready"
    added = True

    def longest(self, count: int, votes: int, terms: Terms) -> Votes:
        return NOTHING

    def put(self, votes: Votes, message: labels_pb2.Reply, terms: Terms) -> None:
        message.ready.SetInParent()

    def take(self, message: labels_pb2.Reply, instruction: Instruction, terms: Terms) -> Votes:
        return NOTHING


class Summed(OnlyReady):
    """One vote of each silo for each example, in a sum ``(examples, classes)``; a silo that abstains adds zeros.

    ``inner`` is the kind whose answers are added; it is trained for and asked as that kind is. With ``noisy``, silos
    add shares of noise, and the sum is in units of a grid.
    """

    inner: Kind

    def __init__(self, inner: Kind, name: str, policy: str, *, noisy: bool) -> None:
        self.inner, self.noisy = inner, noisy
        self.name = name + " with noise" * noisy
        self.policy = policy
        self.of, self.own_model, self.learns_labels = inner.of, inner.own_model, inner.learns_labels

    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        return Cost(instruction.query.size * terms.width)

    def question(self, number: int, query: Query, targets: HardLabels, votes: int, learning: Soft) -> Instruction:
        return replace(self.inner.question(number, query, targets, votes, learning), summed=True)

    def can_answer(self, votes: int, terms: Terms) -> bool:
        return self.inner.can_answer(votes, terms)


def _sums(*, noisy: bool) -> dict[str, Summed]:
    """Sums of labels; and of students' votes: one of a silo where all agree, as in FedKT's consistent voting."""
    of_labels = Summed(HARD, "sums of labels", "sum", noisy=noisy)
    return {HARD.name: of_labels, COUNTS.name: Summed(COUNTS, "sums of students' votes", "count-sum", noisy=noisy)}


SUMS: Final = _sums(noisy=False)
"""Kinds of sums, by the name of the kind whose answers are added."""
SUMS_WITH_NOISE: Final = _sums(noisy=True)


class RecordSum(OnlyReady):
    """Summands with shares of noise that protect records."""

    def question(self, number: int, query: Query, targets: HardLabels, votes: int, learning: Soft) -> Instruction:
        """Raise Refused (QUERY): ``Joint`` and ``Histograms`` need more than these arguments."""
        raise Refused(Refusal.QUERY)


class Gradients(RecordSum):
    """Gradients with a share of noise ``(size, classes)``, in a sum; or nothing, where silos learn the labels."""

    name = "sums of noisy gradients"
    policy = "joint"

    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        joint = instruction.joint
        return Cost(0 if joint is None or joint.weights is None else joint.weights.size)

    def put_question(self, instruction: Instruction, message: labels_pb2.Instruction, terms: Terms) -> None:
        if instruction.joint is None:
            return
        *plan, weights = instruction.joint
        for name, value in zip(Joint._fields, plan, strict=False):
            setattr(message.joint, name, value)
        if weights is not None:
            message.joint.weights = weights.astype("<f8").tobytes()


class HistogramCounts(RecordSum):
    """Counts with a share of noise, in a sum: of columns' values, of patients who meet a condition, or for scores.

    The silo's own model has no part in it.
    """

    def __init__(self, name: str, policy: str) -> None:
        self.name, self.policy = name, policy

    def fits(self, quantity: str) -> bool:
        return not quantity or self.policy == "count"

    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        return Cost(instruction.histograms.numbers if instruction.histograms else 0)

    def put_question(self, instruction: Instruction, message: labels_pb2.Instruction, terms: Terms) -> None:
        if instruction.histograms:
            message.histograms.CopyFrom(labels_pb2.Histograms(**instruction.histograms._asdict()))


GRADIENTS: Final = Gradients()
HISTOGRAMS: Final = HistogramCounts("sums of noisy histograms", "draw")
PATIENTS: Final = HistogramCounts("sums of noisy counts of patients", "count")
SCORES: Final = HistogramCounts("sums of noisy confusion matrices", "scores")

SUMMED: Final[tuple[Kind, ...]] = (*SUMS.values(), GRADIENTS, HISTOGRAMS, PATIENTS, SCORES)
ADDED: Final = frozenset(kind.policy for kind in SUMMED)
"""Policy names of the kinds that leave in secure sums alone."""


def kind_of_counts(asks: Histograms) -> Kind:
    """The kind of an answer to a question for counts with noise."""
    return SCORES if asks.scores else PATIENTS if asks.where else HISTOGRAMS


def in_sums(kind: Kind, *, noisy: bool = False) -> Summed:
    """The kind with which a secure sum takes the place of a kind's answers. Raises Refused where there is none.

    ``noisy``: whether silos add shares of noise.
    """
    sums: Mapping[str, Summed] = SUMS_WITH_NOISE if noisy else SUMS
    if kind.name not in sums:
        raise Refused(Refusal.QUERY)
    return sums[kind.name]


def take_histograms(message: labels_pb2.Instruction) -> Histograms:
    """Take a question for counts out of a message. Raises Refused (MALFORMED) where it asks for something else too."""
    asked = message.histograms
    otherwise = message.votes or message.summed or message.answer or any(map(message.HasField, ("soft", "joint")))
    too_long = max(len(asked.where.encode()), len(asked.by.encode())) > LONGEST_CONDITION
    # Only scores are of a model that learns targets.
    wrong = message.HasField("targets") != asked.scores or (asked.scores and asked.where)
    if otherwise or too_long or wrong or not asked.numbers or (asked.by and not asked.where):
        raise Refused(Refusal.MALFORMED)
    return Histograms(asked.study, asked.numbers, asked.where, asked.by, asked.scores)


def take_joint(message: labels_pb2.Instruction, terms: Terms) -> Joint:
    """Take a step out of a message. Raises Refused (MALFORMED) for one that no silo can take."""
    joint = message.joint
    fits = 1 <= joint.steps <= _MOST_STEPS and joint.records and joint.honest
    keeps = 0 < joint.epsilon < math.inf and 0 < joint.delta < 1
    asks_otherwise = message.votes or message.summed or message.answer or message.HasField("soft")
    if not (fits and keeps and terms.num_classes) or asks_otherwise:
        raise Refused(Refusal.MALFORMED)
    weights = None
    if joint.weights:
        if len(joint.weights) % (8 * terms.num_classes) or message.round > joint.steps:
            raise Refused(Refusal.MALFORMED)
        weights = np.frombuffer(joint.weights, dtype="<f8").astype(np.float64).reshape(-1, terms.num_classes)
        if not np.isfinite(weights).all():
            raise Refused(Refusal.MALFORMED)
    plan = joint.records, joint.steps, joint.epsilon, joint.delta, joint.honest, joint.columns, joint.seed
    return Joint(*plan, weights)
