"""Limits of a silo's policy, and of its records over all studies: a record each, next to the setting with the limit.

The setting has the name, the range, the default and the explanation. The record says what is counted and how people
read it. The gate, the approval page, ``fedct silo status``, the template of ``silo.toml`` and the privacy sheet ask the
record.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from pydantic import BaseModel, Field, model_validator

from fedct_flwr.config.settings import MAX_INT, OptionalRelativePath, Settings


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


C = TypeVar("C", bound="Cap")


@dataclass(frozen=True, kw_only=True)
class Cap:
    """A limit, under its short ``name`` in documents and in what the gate counts."""

    name: str
    younger: bool = True
    """Whether approvals of before it stay valid as long as it has its default. A default may then be lowered later, and
    never be raised."""


@dataclass(frozen=True, kw_only=True)
class Total(Cap):
    """A limit of all that ever left for a study and its public set, whatever was approved in between."""

    title: str
    """What is counted, at the beginning of a line."""
    of: Callable[[Any], int]
    """What is counted of a ``hospital.log_entry.Spent``."""


@dataclass(frozen=True, kw_only=True)
class AtOnce(Cap):
    """A limit of each question; texts take the ``limit``, and what is asked for as ``of``."""

    asked: Callable[[Any], float]
    """How much a question asks for, of its ``kinds.base.Cost``."""
    approval: str
    """A line of the approval page."""
    short: str
    """The same in a few words."""
    may: str
    """The same as what a question may do."""
    numbers: bool = False
    """Whether only questions for numbers ask for it, such as probabilities."""


@dataclass(frozen=True, kw_only=True)
class AtLeast(Cap):
    """What a secure sum must protect, at least."""


def caps_of(policy: type[BaseModel], kind: type[C]) -> dict[str, C]:
    """The records of this kind by field of the policy."""
    return {
        name: record
        for name, field in policy.model_fields.items()
        for record in field.metadata
        if isinstance(record, kind)
    }
