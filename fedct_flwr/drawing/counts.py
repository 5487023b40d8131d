"""Counts of patients with noise in shares, of which each patient changes one by one: their plan, and what people read.

The counts of columns' values, of which each patient changes several, are in ``marginals.py``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.privacy.noise_shares import NoiseShares, least_multiplier, may_be_noise
from fedct_flwr.privacy.randomness import SimulatedNoise
from fedct_flwr.types import ConfigError

if TYPE_CHECKING:
    from fedct_flwr.config.study import StudyConfig, StudyCount, StudySums

GRID: Final = 1 << 30
"""Units of one record in a sum: so fine that shares of noise are as good as one Gaussian."""
_SET_ASIDE: Final = 2.0**-10
"""The part of delta that pays for noise that is not exactly Gaussian."""
_MOST: Final = 1 << 21
"""Patients of all silos together, at most."""
SURE: Final = 1.96
"""Standard deviations within which noise is with a chance of 95%."""
FEWEST_SHOWN: Final = 10
"""Patients below which no number is shown, however little noise there is."""


def noise_of(epsilon: float, delta: float, changed: int, numbers: int, honest: int) -> NoiseShares:
    """Noise of ``numbers`` counts, of which a unit changes ``changed`` by one, at most.

    Formal guarantees:
        One unit added or removed changes the counts by the square root of ``changed`` in Euclidean length. So they cost
        (``epsilon``, ``delta``). ``NoiseShares`` has the rest; ``honest`` silos' shares are counted.

    Raises ConfigError where no noise keeps the budget.
    """
    found = NoiseShares(least_multiplier(epsilon, delta), GRID * math.sqrt(changed), 1, numbers, honest)
    if found.slack(epsilon) > delta * _SET_ASIDE:
        raise ConfigError(f"epsilon {epsilon:g} is too large for counts with noise: lower it")
    return found


def wrong_sum(opened: NDArray[np.int64], noise: NoiseShares, silos: int, most: int) -> str:
    """Why no counts up to ``most``, and noise of ``silos`` silos, add up to this sum; empty if some do.

    Of honest silos it is refused with a probability of at most ``noise_shares.UNLIKELY``.
    """
    counts = opened / GRID
    rest = np.maximum(np.maximum(counts - most, -counts), 0)
    if may_be_noise(rest, noise.spread(silos) / GRID):
        return ""
    return f"that no counts add up to: a silo breaks the protocol, or all have more than {most:,} records together"


@dataclass(frozen=True)
class CountPlan:
    """Counts ``(numbers,)`` under ``epsilon`` and ``delta``; each patient is in one of them, at most.

    ``honest``: how many silos' shares of the noise are counted, see ``noise_shares.surely_honest``.
    """

    numbers: int
    epsilon: float
    delta: float
    honest: int = 1

    @classmethod
    def of(cls, agreed: "StudyCount", sums: "StudySums", numbers: int) -> Self:
        """The plan for noisy secure sums of ``numbers`` counts of each silo, as ``[count]`` or ``[scores]`` says."""
        return cls(numbers, agreed.epsilon, agreed.delta, sums.min_summands - sums.may_collude)

    @property
    def noise(self) -> NoiseShares:
        """Noise of these counts, see ``noise_of``. Raises ConfigError."""
        return noise_of(self.epsilon, self.delta, 1, self.numbers, self.honest)

    def wrong(self, opened: NDArray[np.int64], silos: int) -> str:
        """Why no counts and noise of ``silos`` silos add up to this sum, see ``wrong_sum``; empty if some do."""
        return wrong_sum(opened, self.noise, silos, _MOST)

    def summand(self, counts: NDArray[np.int64], rng: Generator) -> NDArray[np.int64]:
        """A simulated silo's summand ``(numbers,)``, whose noise follows from a seed."""
        return counts * GRID + self.noise.share(SimulatedNoise(rng))

    def facts(self, cells: Sequence[str], opened: NDArray[np.int64], silos: int) -> dict[str, Any]:
        """The counts of an opened sum with the noise of ``silos`` silos: ``all`` together, and by the name of a cell.

        See ``noisy_number``.
        """
        deviation = self.noise.spread(silos) / GRID
        counts = (opened / GRID).tolist()
        each = {name: noisy_number(value, deviation) for name, value in zip(cells, counts, strict=True)}
        all_of_them = noisy_number(sum(counts), deviation * math.sqrt(len(counts)))
        return {"all": all_of_them, "cells": each if len(cells) > 1 else {}}


def check_counts(study: "StudyConfig") -> None:
    """Raise ConfigError for ``[count]`` or ``[scores]`` whose epsilon is too large for the grid of sums."""
    for table, agreed, numbers in (("count", study.count, 1), ("scores", study.scores, len(study.classes) ** 2)):
        try:
            if agreed:
                CountPlan.of(agreed, study.sums, numbers).noise  # noqa: B018 - it raises
        except ConfigError as why:
            raise ConfigError(f"[{table}] in study.toml: {why}") from None


def noisy_number(value: float, deviation: float) -> dict[str, int]:
    """A number of patients with noise of this standard ``deviation``, as people may read it.

    ``about`` and its interval of 95%, ``low`` to ``high``. A small number is never shown: the count is below
    ``fewer_than`` with that chance, which is one number for all of these.
    """
    half = SURE * deviation
    least = max(half, FEWEST_SHOWN)
    if value < least:
        return {"fewer_than": math.ceil(least + half)}
    return {"about": round(value), "low": max(0, math.floor(value - half)), "high": math.ceil(value + half)}


def count_in_words(facts: Mapping[str, Any], matching: str = " patients match") -> str:
    """``noisy_number`` in words; ``matching`` follows the number.

    >>> count_in_words({"about": 130, "low": 112, "high": 148})
    'about 130 patients match (between 112 and 148 with 95% chance)'
    >>> count_in_words({"fewer_than": 26}, "")
    'fewer than 26'
    """
    if "fewer_than" in facts:
        return f"fewer than {facts['fewer_than']:,}{matching}"
    return f"about {facts['about']:,}{matching} (between {facts['low']:,} and {facts['high']:,} with 95% chance)"
