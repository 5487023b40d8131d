"""What a run notes of each round: the lines of ``rounds.jsonl``."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from fedct_flwr.types import SiloName

IN_WRONG_SUM: Final = "it is in a secure sum that honest silos cannot have made"
"""Why no silo of such a sum counts: one of them does not follow the protocol, and the sum cannot tell which."""


@dataclass(frozen=True)
class SiloRecord:
    """What one silo sent in a round: payload bytes, seconds until its reply, and ``facts`` of its kind of answer.

    ``quality`` is what the consensus thinks of the silo, from the votes alone, if its rule asks.
    """

    bytes_sent: int
    seconds: float
    facts: Mapping[str, Any]
    scores: dict[str, float] | None = None
    quality: dict[str, Any] | None = None

    def line(self) -> dict[str, Any]:
        """Its columns, as they stand in the round log."""
        sent = {"bytes_sent": self.bytes_sent, "seconds": self.seconds}
        return {**sent, **self.facts, "scores": self.scores, "quality": self.quality}


@dataclass(frozen=True)
class RoundRecord:
    """One line of ``rounds.jsonl``. Counts are of public examples.

    ``instruction_bytes`` went to each silo, ``bytes_sent`` came from all of them together (payloads, without Flower's
    envelope). ``absent`` says why a silo did not count. ``facts`` and ``younger`` are columns that the kind of answer
    has (``kinds/base.py``); younger ones came later, and stand at the end.
    """

    round: int
    seconds: float
    queried: int
    facts: Mapping[str, Any]
    instruction_bytes: int
    bytes_sent: int
    silos: Mapping[SiloName, SiloRecord]
    absent: Mapping[str, str] = field(default_factory=dict)
    fixed_point: bool = False
    younger: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> dict[str, Any]:
        """Its columns, as they stand in the round log."""
        return {
            "round": self.round,
            "seconds": self.seconds,
            "queried": self.queried,
            **self.facts,
            "instruction_bytes": self.instruction_bytes,
            "bytes_sent": self.bytes_sent,
            "silos": {silo: sent.line() for silo, sent in self.silos.items()},
            "absent": dict(self.absent),
            "fixed_point": self.fixed_point,
            **self.younger,
        }


@dataclass(frozen=True)
class WeightsSent:
    """What one silo sent in a round of a baseline that shares weights: bytes of its arrays, seconds until its reply."""

    bytes_sent: int
    seconds: float


@dataclass(frozen=True)
class WeightsRecord:
    """One line of ``rounds.jsonl`` where silos share weights; ``scores`` are those of the global model.

    ``instruction_bytes`` went to each silo, ``bytes_sent`` came from all of them together (arrays, without Flower's
    envelope). ``absent`` says why a silo did not count.
    """

    round: int
    seconds: float
    instruction_bytes: int
    bytes_sent: int
    silos: dict[SiloName, WeightsSent]
    absent: dict[str, str] = field(default_factory=dict)
    scores: dict[str, float] | None = None

    def line(self) -> dict[str, Any]:
        """Its columns, as they stand in the round log."""
        return asdict(self)
