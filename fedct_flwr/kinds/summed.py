"""Answers that silos only add: no reply holds them, and the coordinator opens their sum alone.

The sum is one of ``fedct_flwr.secure_sum``. A kind of sum takes the place of the kind whose answers are added: it
trains, asks and costs what that kind does. Its reply says that the answers are ready. Silos may add shares of noise:
how much says ``fedct_flwr/privacy/noise_shares.py``; how a silo adds it, ``fedct_flwr/silo/noisy_sum.py``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, cast

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.config import Policy
from fedct_flwr.consensus.counting import tally, unanimous
from fedct_flwr.datasets.federated import Query
from fedct_flwr.kinds.base import Cost, Decision, Facts, Kind, as_kind, facts_of_labels
from fedct_flwr.kinds.hard import COUNTS, HARD
from fedct_flwr.secure_sum.terms import Shape
from fedct_flwr.types import ABSTAIN, HardLabels, SiloName, VoteCounts, Votes
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.content import Fit, Instruction, Scores, Soft, Terms
from fedct_flwr.wire.refusal import Refusal, Refused

_LIARS: Final = "A partner that lies can add more than its one vote, and no sum shows it"
_BITS_OF_VOTES: Final = 8
"""Bits of each number, enough for a sum of 100 silos."""
NOTHING: Final[HardLabels] = np.empty((0, 0, 0), dtype=np.int16)
"""A reply's contents instead of answers."""


class OnlyReady(Kind):
    """Answers that stay at the silo: its reply only says that they are ready."""

    policy: ClassVar[str] = "sum"
    field: ClassVar[str] = "ready"

    def longest(self, count: int, votes: int, terms: Terms) -> Votes:
        return NOTHING

    def put(self, votes: Votes, message: labels_pb2.Reply, terms: Terms) -> None:
        message.ready.SetInParent()

    def take(self, message: labels_pb2.Reply, instruction: Instruction, terms: Terms) -> Votes:
        return NOTHING

    def limits(self, policy: Policy) -> Mapping[str, Sequence[str]]:
        return {
            "Limits of each secure sum": [
                f"The coordinator can open only the sum of at least {policy.min_summands} silos",
                f"The coordinator together with {policy.may_collude} of them learns no other silo's part",
                *_noise(policy),
            ],
            **super().limits(policy),
        }


class Summed(OnlyReady):
    """One vote of each silo for each example, in a sum ``(examples, classes)``; a silo that abstains adds zeros."""

    shared: ClassVar[str] = "sums of votes on public examples, from which a single silo's cannot be read"
    leaves: ClassVar[str] = (
        "masked numbers that look random: one for each class of each public example that is asked about. Only the sum "
        "over the silos that take part can be opened, never a single silo's part of it"
    )
    in_short: ClassVar[str] = "parts of secure sums, each number counted as a label"
    beware: ClassVar[str] = (
        "A sum says something of its parts: where all silos agree, each silo's vote is known. The fewer silos add, the "
        f"more it says. {_LIARS}"
    )
    inner: ClassVar[Kind]
    """The kind whose answers are added."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "inner" in vars(cls):
            for field in ("of", "own_model", "learns_labels", "unprotected"):
                setattr(cls, field, getattr(cls.inner, field))

    def summand(self, votes: Votes, instruction: Instruction, terms: Terms) -> NDArray[np.uint64]:
        """The silo's summand, ``(examples * classes,)``. Raises Refused for answers of another kind.

        A 1 for the class of the silo's label, or for the class that all of its students chose.
        """
        labels = unanimous(votes, instruction.votes) if instruction.votes else votes
        return tally([labels], instruction.query.size, terms.num_classes).astype(np.uint64).ravel()

    def shape(self, instruction: Instruction, terms: Terms, subject: bytes) -> Shape:
        """Shape of the sum that answers an instruction; ``subject`` (32 bytes) is the digest of the question."""
        return Shape(instruction.query.size * terms.width, _BITS_OF_VOTES, subject, 1)

    def opened(
        self, total: NDArray[np.uint64], instruction: Instruction, terms: Terms, num_silos: int, honest: int = 0
    ) -> VoteCounts:
        """The sum ``(examples, classes)`` of ``num_silos``.

        Raises Refused (UNKNOWN_CLASS) where an example has more than one vote of each silo. ``honest``: silos whose
        noise is counted, as ``noise_shares.surely_honest`` has it; 0: all.
        """
        votes = total.astype(np.int32).reshape(instruction.query.size, terms.width)
        if (votes.sum(axis=1) > num_silos).any():
            raise Refused(Refusal.UNKNOWN_CLASS)
        return votes

    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        return Cost(instruction.query.size * terms.width)

    def question(self, number: int, query: Query, targets: HardLabels, votes: int, learning: Soft) -> Instruction:
        return replace(self.inner.question(number, query, targets, votes, learning), summed=True)

    can_answer, cotrain, safeguard_of = (
        as_kind(lambda self: self.inner, method) for method in ("can_answer", "cotrain", "safeguard_of")
    )

    def facts(
        self, votes: Mapping[SiloName, Votes], scores: Iterable[Scores | Fit | None], decision: Decision, terms: Terms
    ) -> Facts:
        """Facts of the round alone: ``votes`` has the opened sum ``(examples, classes)`` for each silo in it."""
        total = next(iter(votes.values()))
        labeled = np.flatnonzero(decision.decided != ABSTAIN)
        agreeing = total[labeled, decision.decided[labeled]].sum()
        agreement = float(agreeing / (len(labeled) * len(votes))) if len(labeled) else 0.0
        return facts_of_labels(agreement, {silo: {} for silo in votes}, scores, decision, terms)


def _noise(policy: Policy) -> list[str]:
    """A silo's limit on sums, in sentences."""
    if not policy.sum_epsilon:
        return []
    return [
        "Opened are only sums with noise, of which each silo adds a share; sums without noise are refused",
        f"All sums together cost epsilon {policy.sum_epsilon:g} at delta {policy.sum_delta:g} at most, for this silo "
        "as a whole. What the budget does not cover is refused",
        "From whom: from everybody, the coordinator too, if no more silos collude with it than the study counts with",
    ]


class SummedLabels(Summed):
    """Sums of labels."""

    name: ClassVar[str] = "sums of labels"
    inner: ClassVar[Kind] = HARD


class SummedCounts(Summed):
    """Sums of students' votes: a silo has one where all of its students agree, as in FedKT's consistent voting."""

    name: ClassVar[str] = "sums of students' votes"
    policy: ClassVar[str] = "count-sum"
    in_short: ClassVar[str] = "parts of secure sums of students' votes, each number counted as a label"
    inner: ClassVar[Kind] = COUNTS


SUMS: Final[dict[str, Summed]] = {kind.inner.name: kind for kind in (SummedLabels(), SummedCounts())}
"""Kinds of sums, by the name of the kind whose answers are added."""


BITS: Final = 32
"""Bits of each number: signed, in two's complement. No permitted noise comes near 2^31."""


class NoisySum(Summed):
    """One vote of each silo for each example in units of a grid, and noise, in a sum ``(examples, classes)``."""

    shared: ClassVar[str] = "sums of votes on public examples with noise, from which a single silo's cannot be read"
    leaves: ClassVar[str] = (
        "masked numbers that look random: one for each class of each public example that is asked about. Only the sum "
        "over the silos that take part can be opened, and the silos together have added noise to it"
    )
    in_short: ClassVar[str] = "parts of secure sums with noise, each number counted as a label"
    beware: ClassVar[str] = _LIARS

    def shape(self, instruction: Instruction, terms: Terms, subject: bytes) -> Shape:
        """Shape of the sum that answers an instruction; ``subject`` (32 bytes) is the digest of the question."""
        return Shape(instruction.query.size * terms.width, BITS, subject)

    def opened(
        self, total: NDArray[np.uint64], instruction: Instruction, terms: Terms, num_silos: int, honest: int = 0
    ) -> VoteCounts:
        """The sum ``(examples, classes)`` in units of the grid; noise makes some of it negative.

        Raises Refused (UNKNOWN_CLASS) for numbers that no votes and noise add up to.
        """
        from fedct_flwr.privacy.noise_shares import VoteShares

        # The rule that decides may multiply them.
        signed = total.astype(np.uint32).view(np.int32).astype(np.int64).reshape(instruction.query.size, terms.width)
        shares = VoteShares(instruction.noise, *signed.shape, honest or num_silos)
        if not shares.could_be(signed, num_silos):
            raise Refused(Refusal.UNKNOWN_CLASS)
        return cast(VoteCounts, signed)

    def facts(
        self, votes: Mapping[SiloName, Votes], scores: Iterable[Scores | Fit | None], decision: Decision, terms: Terms
    ) -> Facts:
        found = facts_of_labels(None, {silo: {} for silo in votes}, scores, decision, terms)
        message = f"{found.of_round['changed']} labels changed, decided on counts with the silos' noise"
        return found._replace(message=message)


class NoisyLabels(NoisySum, SummedLabels):
    """Sums of labels with noise."""

    name: ClassVar[str] = "sums of labels with noise"


class NoisyCounts(NoisySum, SummedCounts):
    """Sums of students' votes with noise."""

    name: ClassVar[str] = "sums of students' votes with noise"
    in_short: ClassVar[str] = "parts of secure sums of students' votes with noise, each number counted as a label"


NOISY_SUMS: Final[dict[str, Summed]] = {kind.inner.name: kind for kind in (NoisyLabels(), NoisyCounts())}
"""Kinds of sums, by the name of the kind whose answers are added."""
