"""A simulated silo's session as bytes, secrets too; real silos keep it in the memory of one process instead."""

from typing import Final

from pydantic import ConfigDict, TypeAdapter

from fedct_flwr.secure_sum.silo import Session, Summand

_MEMORY: Final[TypeAdapter[tuple[set[bytes], Session | None]]] = TypeAdapter(
    tuple[set[bytes], Session | None], config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
)


def to_bytes(summand: Summand) -> bytes:
    """All that a silo remembers between two messages."""
    return _MEMORY.dump_json((summand.subjects, summand.session))


def remind(summand: Summand, kept: bytes) -> None:
    """Let a silo remember what ``to_bytes`` wrote."""
    summand.subjects, summand.session = _MEMORY.validate_json(kept)
