"""The answers that a silo keeps for secure sums."""

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr import secure_sum

if TYPE_CHECKING:
    from fedct_flwr.secure_sum.terms import Shape
    from fedct_flwr.silo.site import LocalState

_ANSWERS: Final = "sum-"
_HEADER: Final = struct.Struct("<BQ")  # bits, the largest number and 0 for none


@dataclass(frozen=True)
class Ready:
    """The silo's contribution to sums: what it has kept for the subject that is asked for, and only that."""

    state: "LocalState"

    def keep(self, vector: NDArray[np.uint64], shape: "Shape", kept: int) -> None:
        """Keep what the silo adds to the sum of this shape, and the last ``kept`` others."""
        name = _ANSWERS + shape.subject.hex()
        self.state.put(name, _HEADER.pack(shape.bits, shape.largest or 0) + vector.astype("<u8").tobytes())
        for old in self.state.names(_ANSWERS)[max(1, kept) :]:
            self.state.drop(old)

    def vector(self, shape: "Shape") -> NDArray[np.uint64]:
        """The silo's numbers ``(shape.length,)``. Raises SumRefused (SHAPE) where it has none of this shape."""
        kept = self.state.get(_ANSWERS + shape.subject.hex())
        if kept is None or _HEADER.unpack_from(kept) != (shape.bits, shape.largest or 0):
            raise secure_sum.SumRefused(secure_sum.Fault.SHAPE)
        return np.frombuffer(kept, dtype="<u8", offset=_HEADER.size).astype(np.uint64)

    def charge(self, shape: "Shape") -> None:
        """Charge nothing: the ledger was charged before the answers were made."""
