"""Unit of a guarantee, its budget, and the spending by a silo's or the coordinator's noise."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from fedct_flwr.config.privacy import PrivacySettings
from fedct_flwr.types import ConfigError

DATA_SET: Final = "records"
"""A ledger's name for all records that a silo's folder ever held: a digest of the file would grant a new budget for
each record that is added.
"""
WHOLE_SILO: Final = "whole silo"
"""Its name for a silo's whole data, in accounts whose unit is the silo; records have another account."""


class PrivacyUnit(StrEnum):
    """Unit whose presence a guarantee hides: two data sets are adjacent if they differ in one unit.

    A guarantee for a silo is one for each of its examples; the reverse is not true.
    """

    EXAMPLE = "example"
    """One record of a silo, added or removed."""
    PATIENT = "patient"
    """All records of a silo with one value in its group column, added or removed together."""
    SILO = "silo"
    """All records of a silo, whatever they are replaced by."""


class PrivacyWarning(UserWarning):
    """A guarantee that is formally right and says little."""


@dataclass(frozen=True)
class Budget:
    """At most ``epsilon`` at ``delta`` in total, for each ``unit``, over all releases it is spent on.

    ``column`` names a real silo's patients; empty where that is not known. Raises ConfigError where that is no budget.
    """

    epsilon: float
    delta: float
    unit: PrivacyUnit = PrivacyUnit.EXAMPLE
    column: str = ""

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if not 0 <= self.delta < 1:
            raise ConfigError(f"the privacy budget's delta is {self.delta}; set it to a number in [0, 1), such as 1e-5")

    def weakness(self, num_units: int) -> str | None:
        """Explain a delta too large to protect each of ``num_units``; None if it is small enough."""
        return weak_delta(self.delta, num_units, self.unit)


def weak_delta(delta: float, num_units: int, unit: PrivacyUnit) -> str | None:
    """Explain a delta of at least 1 / ``num_units``: publishing one unit at random would be private."""
    if delta * num_units < 1:
        return None
    return (
        f"delta is {delta:g}, which allows a mechanism that publishes one of the {num_units} {unit}s; "
        f"set it well below {1 / num_units:.1g}"
    )


def unit_of(*, grouped: bool) -> PrivacyUnit:
    """Whom a silo's own promise protects: patients where its records have a group column (``grouped``)."""
    return PrivacyUnit.PATIENT if grouped else PrivacyUnit.EXAMPLE


def budget_of(privacy: PrivacySettings, *, grouped: bool = False) -> Budget:
    """Budget that ``[privacy]`` allows, per record, or per patient where records are ``grouped``."""
    return Budget(privacy.epsilon, privacy.delta, unit_of(grouped=grouped))


def check_least(what: str, *numbers: tuple[str, int, int]) -> None:
    """Raise ConfigError for a number of something (its name, it, and the least that it may be) ``what`` has too few of.

    >>> check_least("noise", ("sums", 1, 1))
    """
    for name, value, least in numbers:
        if value < least:
            raise ConfigError(f"the number of {name} of {what} is {value}; set it to {least} or more")


def check_epsilon(epsilon: float, what: str = "the privacy budget's epsilon") -> None:
    """Raise ConfigError unless ``epsilon`` is a positive, finite number."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ConfigError(f"{what} is {epsilon}; set it to a number above 0")


SILOS_TOGETHER: Final = "silos together"
"""Source of noise that comes in shares."""
ALL_SILOS: Final = "all silos"
"""Name of an account where every silo spends the same."""


@dataclass(frozen=True)
class NoiseOnVotes:
    """The noise of a run in which votes are counted, of this ``scale`` in votes, on ``queries`` examples."""

    mechanism: str
    queries: int
    scale: float
    votes: int = 1
    """Votes of a silo on each example, all for one class."""
    honest: int = 0
    """Silos whose shares of the noise are counted, where it comes in shares; 0 where it is added in one place."""
    may_collude: int = 0
    """Silos that may collude, where noise comes in shares."""


@dataclass(frozen=True, kw_only=True)
class Spending:
    """``epsilon`` at ``delta``, in total, for each ``unit`` of ``whom``: of one silo, or of all alike.

    ``budget`` is the epsilon that may be spent, infinite where nothing bounds it. ``accountant`` is the one that gave
    ``epsilon``. From a silo's ledger, ``charges`` is how many events there were, ``others`` how many other studies were
    charged for the same records, and ``together`` what all of them and this one have spent, at that delta; ``draws``
    has the noise of all charges in words, with the numbers that ``epsilon`` follows from. ``asked`` is the epsilon
    spent at the delta of ``silo.toml``, which may not be approved yet. ``bounded`` is a clause on the budget over all
    studies.
    """

    whom: str
    delta: float
    epsilon: float = 0.0
    unit: PrivacyUnit = PrivacyUnit.EXAMPLE
    budget: float = math.inf
    accountant: str = ""
    charges: int = 0
    draws: tuple[str, ...] = ()
    others: int = 0
    together: float = 0.0
    asked: float = 0.0
    bounded: str = "which no budget bounds"
    noise: NoiseOnVotes | None = None
    """The noise on votes, where a run's own result tells of it."""

    @property
    def protects(self) -> str:
        """The unit, as people say it: an example of a silo is one of its records."""
        return "record" if self.unit is PrivacyUnit.EXAMPLE else str(self.unit)

    @property
    def where(self) -> str:
        """Source of the noise: the record's silo; for a whole silo, all silos in shares or the coordinator."""
        if self.unit is not PrivacyUnit.SILO:
            return "silo"
        return SILOS_TOGETHER if self.noise and self.noise.honest else "coordinator"

    @property
    def added_by(self) -> str:
        """The source in words, after "noise"."""
        return "in shares of the silos" if self.where == SILOS_TOGETHER else f"at the {self.where}"

    @property
    def kept(self) -> bool:
        """Whether no more was spent than may be."""
        return self.epsilon <= self.budget * (1 + 1e-9)

    def to_result(self) -> dict[str, Any]:
        """Facts on noise on votes for ``privacy`` in ``result.json``. Raises ValueError without such noise."""
        if self.noise is None:
            raise ValueError("only noise on votes is told in a run's result; ledgers are read where they are")
        noise = self.noise
        return {
            "unit": str(self.unit),
            "where": self.where,
            "mechanism": noise.mechanism,
            "queries": noise.queries,
            "scale": noise.scale,
            "votes": noise.votes,
            "delta": self.delta,
            **({"honest": noise.honest, "may_collude": noise.may_collude} if noise.honest else {}),
            "epsilon": self.epsilon,
            "accountant": self.accountant,
        }

    @classmethod
    def from_result(cls, facts: Mapping[str, Any]) -> Self:
        """Read the facts of ``to_result``. Raises ValueError for anything else."""
        try:
            noise = NoiseOnVotes(
                str(facts["mechanism"]),
                int(facts["queries"]),
                float(facts["scale"]),
                int(facts["votes"]),
                honest=int(facts.get("honest", 0)),
                may_collude=int(facts.get("may_collude", 0)),
            )
            return cls(
                whom=ALL_SILOS,
                unit=PrivacyUnit(facts["unit"]),
                epsilon=float(facts["epsilon"]),
                delta=float(facts["delta"]),
                accountant=str(facts["accountant"]),
                noise=noise,
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"no result of noise on votes: {error!r}") from None
