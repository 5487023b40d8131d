"""What is protected, and how much of it may be spent."""

import math
from dataclasses import dataclass
from enum import StrEnum

from fedct_flwr.config import PrivacySettings
from fedct_flwr.types import ConfigError


class PrivacyUnit(StrEnum):
    """Whose presence a guarantee hides: two data sets are adjacent if they differ in one unit.

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

    Raises ConfigError where that is no budget.
    """

    epsilon: float
    delta: float
    unit: PrivacyUnit = PrivacyUnit.EXAMPLE

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if not 0 <= self.delta < 1:
            raise ConfigError(f"the privacy budget's delta is {self.delta}; set it to a number in [0, 1), such as 1e-5")

    def weakness(self, num_units: int) -> str | None:
        """What is wrong with its delta, where each of ``num_units`` is protected; None if nothing is."""
        return weak_delta(self.delta, num_units, self.unit)


def weak_delta(delta: float, num_units: int, unit: PrivacyUnit) -> str | None:
    """What is wrong with a delta of at least 1 / ``num_units``: publishing one unit at random would be private."""
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
    """What ``[privacy]`` lets be spent, per record, or per patient where records are ``grouped``."""
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
