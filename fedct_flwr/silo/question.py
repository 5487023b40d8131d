"""A coordinator's question, as a silo reads it."""

import hashlib
from typing import TYPE_CHECKING, NamedTuple, Self

from fedct_flwr.silo.site import SiloContext
from fedct_flwr.wire.codec import decode_instruction
from fedct_flwr.wire.kinds import Kind, kind_of

if TYPE_CHECKING:
    from fedct_flwr.wire.content import Instruction


class Question(NamedTuple):
    """A coordinator's question: its bytes, what they say, the kind of answer, and the ``digest`` (32 bytes)."""

    payload: bytes
    instruction: "Instruction"
    kind: Kind
    digest: bytes
    """SHA-256 of the bytes and of the noise's size."""

    @classmethod
    def asked(cls, payload: bytes, context: SiloContext) -> Self:
        """Read a question. Raises Refused for one that is not of the silo's terms, or ConfigError."""
        instruction = decode_instruction(payload, context.site.terms)
        named = payload
        if instruction.noise and context.noise_adder_of:
            named += b" for %d honest silos" % context.noise_adder_of().honest
        return cls(payload, instruction, kind_of(instruction, context.site.terms), hashlib.sha256(named).digest())

    @property
    def teaches(self) -> bool:
        """Whether it has targets for the silo's own model."""
        return self.kind.teaches(self.instruction)

    @property
    def subject(self) -> bytes:
        """Name of a sum of the answers: SHA-256 of the bytes alone."""
        return hashlib.sha256(self.payload).digest()
