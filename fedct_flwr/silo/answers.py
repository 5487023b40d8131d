"""The answers of a silo, so that a repeated question gets the same bytes and is learned once."""

import struct
from typing import Final, NamedTuple, Self

from fedct_flwr.silo.state import LocalState

# Of the request, SHA-256; which model answered; the request's round; the length of the reply.
_HEADER: Final = struct.Struct("<32s32sII")
_RUN: Final = "run-"


class Answered(NamedTuple):
    """The last answer in a run: to which question (``digest``, 32 bytes), under which settings of the model."""

    digest: bytes
    model_digest: bytes
    round: int
    reply: bytes

    @classmethod
    def read(cls, kept: bytes | None) -> Self | None:
        """What ``to_bytes`` wrote."""
        if kept is None:
            return None
        digest, model_digest, number, length = _HEADER.unpack_from(kept)
        return cls(digest, model_digest, number, kept[_HEADER.size : _HEADER.size + length])

    def to_bytes(self) -> bytes:
        """In one piece."""
        return _HEADER.pack(self.digest, self.model_digest, self.round, len(self.reply)) + self.reply


class Answers:
    """The last answers of all of Flower's runs that ever asked this silo. None is forgotten: each is a few bytes."""

    def __init__(self, state: LocalState) -> None:
        self._state = state

    def last(self, run_id: int) -> Answered | None:
        """The last answer in a run."""
        return Answered.read(self._state.get(_name(run_id)))

    def keep(self, run_id: int, answered: Answered) -> None:
        """Make it the last answer of a run. Raises OSError."""
        self._state.put(_name(run_id), answered.to_bytes())

    def is_newest(self, run_id: int) -> bool:
        """Whether no other run has an answer that was kept later."""
        return self._state.names(_RUN)[:1] == [_name(run_id)]

    def elsewhere(self, digest: bytes, model_digest: bytes) -> tuple[int, Answered] | None:
        """The run in which the very same question was the last one, under the same settings, and its answer."""
        for name in self._state.names(_RUN):
            header = self._state.get(name, _HEADER.size)
            if header and len(header) == _HEADER.size and header.startswith(digest + model_digest):
                found = Answered.read(self._state.get(name))
                return (int(name.removeprefix(_RUN)), found) if found else None
        return None


def _name(run_id: int) -> str:
    return f"{_RUN}{run_id}"
