"""All votes of a round side by side, for a consensus that looks at them more than once and knows its silos."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.consensus.counting import Ballot, State
from fedct_flwr.types import LABEL_DTYPE, SiloName

_BYTE: Final = 255
_SILOS: Final = "silos"


class LabelMatrix(NamedTuple):
    """``votes`` ``(silos, examples)``: a class in 0..C-1, or C where the silo abstains; ``silos`` names the rows."""

    silos: list[SiloName]
    votes: NDArray[Any]
    num_classes: int


def label_matrix(ballots: Iterable[Ballot], num_examples: int, num_classes: int) -> LabelMatrix:
    """The ballots of a round. Memory is one byte for each silo and example; two beyond 254 classes.

    Rows are in an order that depends on the votes, so that sums over silos are the same to the last bit in whatever
    order they came and whatever they are called: a rounding error could else break a tie.

    >>> label_matrix([("b", np.int16([1, -1])), ("a", np.int16([0, 1]))], num_examples=2, num_classes=2).votes.tolist()
    [[1, 2], [0, 1]]
    """
    dtype = np.uint8 if num_classes < _BYTE else LABEL_DTYPE
    rows = []
    for silo, vote in ballots:
        row = np.where(vote < 0, num_classes, vote).astype(dtype)
        rows.append((hashlib.sha256(row.tobytes()).digest(), silo, row))
    rows.sort(key=lambda row: row[:2])
    # Filled row by row, and each row dropped: stacked, the votes would be there twice.
    votes = np.empty((len(rows), num_examples), dtype)
    silos = [silo for _, silo, _ in rows]
    for number in reversed(range(len(rows))):
        votes[number] = rows.pop()[2]
    return LabelMatrix(silos, votes, num_classes)


def unanimous(matrix: LabelMatrix) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Where all votes cast agree, or there are none ``(examples,)``; and there, the vote, or C ``(examples,)``."""
    lowest = matrix.votes.min(axis=0)
    agreed = np.ones(len(lowest), dtype=np.bool_)
    for row in matrix.votes:
        agreed &= (row == lowest) | (row == matrix.num_classes)
    return agreed, lowest


def no_rows(name: str, *shape: int) -> State:
    """The state before the first round: an array ``name`` of this shape for each silo, of none so far."""
    return {_SILOS: np.empty(0, dtype=np.str_), name: np.empty((0, *shape))}


def rows_of(state: State, name: str) -> dict[SiloName, NDArray[np.float64]]:
    """Each silo's array ``name``."""
    return dict(zip(state[_SILOS].tolist(), state[name], strict=True)) if state else {}


def with_rows(state: State, name: str, silos: Sequence[SiloName], rows: NDArray[np.float64]) -> State:
    """The state with new arrays for these silos. A silo that is not there now keeps its own."""
    known = rows_of(state, name) | dict(zip(silos, rows, strict=True))
    names = sorted(known)
    return {
        _SILOS: np.array(names, dtype=np.str_),
        name: np.stack([known[silo] for silo in names]) if names else rows,
    }
