"""Limits of a silo's policy: a record each, next to the setting that holds the limit.

The setting has the name, the range, the default and the explanation. The record says what is counted and how people
read it. The gate, the approval page, ``fedct silo status``, the template of ``silo.toml`` and the privacy sheet ask the
record.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel

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
    """What is counted of a ``hospital.books.Spent``."""


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
