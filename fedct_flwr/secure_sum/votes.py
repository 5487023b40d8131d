"""Votes in a secure sum: a silo's summand, and the sum's shape.

How much noise silos add to it says ``privacy/noise_shares.py``; how a silo adds it, ``silo/noisy_sum.py``; and what may
come out of it, ``coordinator/summing.py``.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.consensus.counting import tally, unanimous
from fedct_flwr.secure_sum.terms import Shape
from fedct_flwr.types import Refusal, Refused, Votes
from fedct_flwr.wire.content import NO_TERMS, Instruction, Terms
from fedct_flwr.wire.sums import NoisySum, Summed

BITS_OF_VOTES: Final = 8
"""Bits of each number, enough for a sum of 100 silos."""
BITS: Final = 32
"""Bits of each number with noise: signed, in two's complement. No permitted noise comes near 2^31."""
_BITS_OF_RECORDS: Final = 64
"""Bits of each number of records with noise."""


def shape_of_votes(kind: Summed, instruction: Instruction, terms: Terms, subject: bytes) -> Shape:
    """Shape of the sum that answers an instruction; ``subject`` (32 bytes) is the digest of the question."""
    numbers = instruction.query.size * terms.width
    return Shape(numbers, BITS, subject) if kind.noisy else Shape(numbers, BITS_OF_VOTES, subject, 1)


def shape_of_records(kind: NoisySum, instruction: Instruction, subject: bytes) -> Shape:
    """Shape of the opened sum; ``subject``: 32 bytes. Raises Refused (MALFORMED) where there is nothing to add."""
    if not instruction.adds_noise:
        raise Refused(Refusal.MALFORMED)
    return Shape(kind.cost(instruction, NO_TERMS).labels, _BITS_OF_RECORDS, subject)


def summand(votes: Votes, instruction: Instruction, terms: Terms) -> NDArray[np.uint64]:
    """The silo's summand, ``(examples * classes,)``. Raises Refused for answers of another kind.

    A 1 for the class of the silo's label, or for the class that all of its students chose.
    """
    labels = unanimous(votes, instruction.votes) if instruction.votes else votes
    return tally([labels], instruction.query.size, terms.num_classes).astype(np.uint64).ravel()
