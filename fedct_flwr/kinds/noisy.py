"""Sums of votes to which silos add shares of noise: what is opened protects each silo, from the coordinator too.

How much noise: ``fedct_flwr/privacy/tally_shares.py``; how a silo adds it: ``fedct_flwr/silo/noisy_sum.py``.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, cast

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.kinds.facts import Decision, Facts, facts_of_noisy_sum
from fedct_flwr.kinds.summed import Summed, SummedCounts, SummedLabels, SummedVotes
from fedct_flwr.secure_sum.terms import Shape
from fedct_flwr.types import SiloName, VoteCounts, Votes
from fedct_flwr.wire.content import Fit, Instruction, Scores, Terms
from fedct_flwr.wire.refusal import Refusal, Refused

BITS: Final = 32
"""Of each number: signed, in two's complement. No noise that may be asked for comes near 2^31."""


class NoisySum(SummedVotes):
    """One vote of each silo for each example in units of a grid, and noise, in a sum ``(examples, classes)``."""

    shared: ClassVar[str] = "sums of votes on public examples with noise, in which nobody can read a single silo's"
    leaves: ClassVar[str] = (
        "masked numbers that look random: one for each class of each public example that is asked about. Only the sum "
        "over the silos that take part can be opened, and the silos together have added noise to it"
    )
    in_short: ClassVar[str] = "parts of secure sums with noise, each number counted as a label"
    beware: ClassVar[str] = ""

    def shape(self, instruction: Instruction, terms: Terms, subject: bytes) -> Shape:
        """Of the sum that answers an instruction; ``subject`` (32 bytes) is the digest of the question."""
        return Shape(instruction.query.size * terms.width, BITS, subject)

    def opened(self, total: NDArray[np.uint64], instruction: Instruction, terms: Terms, num_silos: int) -> VoteCounts:
        """The sum ``(examples, classes)`` in units of the grid; noise makes some of it negative.

        Raises Refused (UNKNOWN_CLASS) for numbers that no votes and noise add up to.
        """
        from fedct_flwr.privacy.tally_shares import VoteShares

        # Whoever decides may multiply them.
        signed = total.astype(np.uint32).view(np.int32).astype(np.int64)
        shares = VoteShares(instruction.noise, instruction.query.size, terms.width, num_silos)
        if not shares.could_be(signed):
            raise Refused(Refusal.UNKNOWN_CLASS)
        return cast(VoteCounts, signed.reshape(instruction.query.size, terms.width))

    def facts(
        self, votes: Mapping[SiloName, Votes], scores: Iterable[Scores | Fit | None], decision: Decision, terms: Terms
    ) -> Facts:
        """Of the labels alone: how far silos agree with them, nobody knows."""
        return facts_of_noisy_sum(votes, scores, decision, terms)


class NoisyLabels(NoisySum, SummedLabels):
    """Sums of labels with noise."""

    name: ClassVar[str] = "sums of labels with noise"


class NoisyCounts(NoisySum, SummedCounts):
    """Sums of students' votes with noise."""

    name: ClassVar[str] = "sums of students' votes with noise"
    in_short: ClassVar[str] = "parts of secure sums of students' votes with noise, each number counted as a label"


NOISY_SUMS: Final[dict[str, Summed]] = {kind.inner.name: kind for kind in (NoisyLabels(), NoisyCounts())}
"""By the name of the kind whose answers are added."""
