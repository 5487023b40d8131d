"""A silo's part in secure sums: the answers that it keeps for them, and its replies to their messages."""

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
from flwr.app import Context, Message
from numpy.typing import NDArray

from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.secure_sum.faults import Fault, SumRefused
from fedct_flwr.secure_sum.silo import Contribution, SumClient, refusal, remind, to_bytes
from fedct_flwr.secure_sum.simulated import simulated_key, simulated_terms
from fedct_flwr.secure_sum.terms import Shape
from fedct_flwr.silo.context import open_silo_context
from fedct_flwr.silo.site import ContextState, LocalState
from fedct_flwr.types import Refused
from fedct_flwr.wire.messages import from_record, to_record

_ANSWERS: Final = "sum-"
_SESSION: Final = "session-of-sums"
_HEADER: Final = struct.Struct("<BQ")  # bits, the largest number and 0 for none


@dataclass(frozen=True)
class Ready:
    """The silo's contribution to sums: what it has kept for the subject that is asked for, and only that."""

    state: LocalState

    def keep(self, vector: NDArray[np.uint64], shape: Shape, kept: int) -> None:
        """Keep what the silo adds to the sum of this shape, and the last ``kept`` others."""
        name = _ANSWERS + shape.subject.hex()
        self.state.put(name, _HEADER.pack(shape.bits, shape.largest or 0) + vector.astype("<u8").tobytes())
        for old in self.state.names(_ANSWERS)[max(1, kept) :]:
            self.state.drop(old)

    def vector(self, shape: Shape) -> NDArray[np.uint64]:
        """The silo's numbers ``(shape.length,)``. Raises SumRefused (SHAPE) where it has none of this shape."""
        kept = self.state.get(_ANSWERS + shape.subject.hex())
        if kept is None or _HEADER.unpack_from(kept) != (shape.bits, shape.largest or 0):
            raise SumRefused(Fault.SHAPE)
        return np.frombuffer(kept, dtype="<u8", offset=_HEADER.size).astype(np.uint64)

    def charge(self, shape: Shape) -> None:
        """Charge nothing: the ledger was charged before the answers were made."""


def answer_sum(message: Message, summand: SumClient, contribution: Contribution) -> Message:
    """The reply to any message of a secure sum. ``summand`` outlives it: it keeps the session's keys in memory."""
    try:
        request = from_record(message.content)
    except Refused:
        request = b""  # refused by the silo like any other bytes that are no request
    return Message(to_record(summand.answer(request, contribution)), reply_to=message)


@dataclass(frozen=True)
class SimulatedSums:
    """A simulated silo's part: it finds in ``memory`` what it has to remember of the session."""

    summand: SumClient
    ready: Ready
    memory: LocalState

    def answer(self, message: Message) -> Message:
        """The reply to a message of sums."""
        if (kept := self.memory.get(_SESSION)) is not None:
            remind(self.summand, kept)
        reply = answer_sum(message, self.summand, self.ready)
        self.memory.put(_SESSION, to_bytes(self.summand))
        return reply


def sums_at(context: Context) -> SimulatedSums:
    """The part of the silo that a message is for. Raises ConfigError or DataError."""
    here = open_silo_context(context)
    config = RunConfig.from_flower(context.run_config)
    silo, names = here.site.silo, config.roster or [silo.name for silo in datasets.load(config).silos]
    summand = SumClient(silo, simulated_key(config, silo), simulated_terms(config, names))
    return SimulatedSums(summand, Ready(here.state), ContextState(context.state))


def refused_sum() -> bytes:
    """The reply of a silo that cannot take part."""
    return refusal(SumRefused(Fault.TERMS))
