"""Limits of a silo's policy, and of its records over all studies.

The setting has the name, the range, the default and the explanation. The tables here say what is counted and how people
read it. The gate, the approval page, ``fedct silo status``, the template of ``silo.toml`` and the privacy sheet ask
them.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self

from pydantic import Field, model_validator

from fedct_flwr.config.settings import MAX_INT, OptionalRelativePath, Settings


class Total(NamedTuple):
    """A limit of all that ever left for a study and its public set, whatever was approved in between."""

    name: str
    """In documents, and in what the gate counts."""
    title: str
    """What is counted, at the beginning of a line."""
    of: Callable[[Any], int]
    """What is counted of a ``hospital.log_entry.Spent``."""


TOTALS: Final[Mapping[str, Total]] = {
    "max_rounds": Total("rounds", "Rounds", attrgetter("rounds")),
    "max_queries": Total("labels", "Labels", attrgetter("queries")),
    "max_bytes": Total("bytes", "Bytes", attrgetter("bytes")),
}
"""By setting of the policy, and of the records."""

AT_LEAST: Final = ("min_summands", "may_collude", "sum_epsilon", "sum_delta")
"""Settings of the policy: what a secure sum must protect, at least."""

YOUNGER: Final = ("max_consensus_weight", *AT_LEAST)
"""Approvals of before these settings stay valid while they have their defaults, which may be lowered, never raised."""


class RecordsSettings(Settings):
    """Limits over all studies about the same records. Each study's ``silo.toml`` names the same folder.

    The folder is on one machine, and all agents that name it run as the same user. Without a folder, no limit holds
    over several studies. The limits count as those under ``[policy]`` do, with all that left before the folder was
    named.
    """

    folder: OptionalRelativePath = None
    """Where the studies write down together what has left about these records."""
    max_rounds: int = Field(default=100, ge=1, le=MAX_INT)
    """In total over all studies: replies with labels."""
    max_queries: int = Field(default=1_000_000, ge=1, le=MAX_INT)
    """In total over all studies: labels of public examples."""
    max_bytes: int = Field(default=10_000_000, ge=1, le=MAX_INT)
    """In total over all studies: bytes of all replies, of refusals too."""

    epsilon: float = Field(default=0.0, ge=0)
    """What all studies together may tell about a record, each of them with a protection; 0: no limit over studies."""
    delta: float = Field(default=1e-5, ge=0, lt=1)
    """The delta of that epsilon."""

    @property
    def decides(self) -> Mapping[str, Any]:
        """What is approved of it, as JSON takes it: the folder too, as another one would count from the beginning."""
        return self.model_dump(mode="json")

    @model_validator(mode="after")
    def _check_folder(self) -> Self:
        if self.folder is None and self.given:
            raise ValueError(f"{self.given[0]} has no effect without a folder: name the one that all studies share")
        return self
