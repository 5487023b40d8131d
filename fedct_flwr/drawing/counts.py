"""Counts with noise in shares: of patients, as people read them, and of columns' values, from which a table is drawn.

Within a class, columns are drawn independently: what they have in common is above all what tells the classes apart.
Counts of a class cost no more than counts of all records, as a record is in one class.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.config.study import StudyConfig, StudyCount, StudyDraw, StudySums
from fedct_flwr.datasets.dictionary import Dictionary
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.drawing.cells import FEWEST, MOST, Domain, Form
from fedct_flwr.privacy.noise_shares import NoiseShares, least_multiplier, may_be_noise
from fedct_flwr.privacy.randomness import SimulatedNoise
from fedct_flwr.types import ConfigError, Features

GRID: Final = 1 << 30
"""Units of one record in a sum: so fine that shares of noise are as good as one Gaussian."""
_SET_ASIDE: Final = 2.0**-10
"""The part of delta that pays for noise that is not exactly Gaussian."""
_MOST_PATIENTS: Final = 1 << 21
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
    def of(cls, agreed: StudyCount, sums: StudySums, numbers: int) -> Self:
        """The plan for noisy secure sums of ``numbers`` counts of each silo, as ``[count]`` or ``[scores]`` says."""
        return cls(numbers, agreed.epsilon, agreed.delta, sums.min_summands - sums.may_collude)

    @property
    def noise(self) -> NoiseShares:
        """Noise of these counts, see ``noise_of``. Raises ConfigError."""
        return noise_of(self.epsilon, self.delta, 1, self.numbers, self.honest)

    def wrong(self, opened: NDArray[np.int64], silos: int) -> str:
        """Why no counts and noise of ``silos`` silos add up to this sum, see ``wrong_sum``; empty if some do."""
        return wrong_sum(opened, self.noise, silos, _MOST_PATIENTS)

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


def check_counts(study: StudyConfig) -> None:
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


_RARE: Final = 0.02
"""Probability of all values together that noise may hide."""
_FEW: Final = 5.0
"""Records in all, in standard deviations of the noise in one count: with fewer, counts are noise."""
_ROUGHLY: Final = 2
"""Times as many records as were announced are still believed."""
_CLEARLY: Final = 15.0
"""Standard deviations of noise in one count that an average class holds where classes are counted apart."""
_STANDS_OUT: Final = 3.0
"""Standard deviations of noise that an average interval holds, and neighbouring ones that are merged."""


class Histogram(NamedTuple):
    """One column's cells, neighbours merged where noise hides them, and their probabilities ``(classes, cells + 1)``.

    The last cell is for missing values.
    """

    cells: Domain
    probabilities: NDArray[np.float64]

    @classmethod
    def of(cls, cells: Domain, counts: NDArray[np.float64], records: NDArray[np.float64], noise: float) -> Self:
        """Estimate from noisy counts ``(classes, cells + 1)`` of ``records`` ``(classes,)``.

        ``noise`` is its standard deviation in one count. Probabilities of a class are shrunk towards those of all
        records by what noise adds to their distance: James and Stein, "Estimation with quadratic loss", 1961, Sec. 2.
        """
        together, deviation = counts.sum(axis=0), noise * math.sqrt(len(counts))
        starts = _starts(together[:-1], deviation) if cells.ordered else np.arange(len(together) - 1)
        every = np.append(starts, len(together) - 1)
        of_all = _simplex(np.add.reduceat(together, every), float(records.sum()))
        # Rare values do not vanish where noise may hide them.
        rare = np.append(np.full(len(starts), 1 / len(starts)), 0.0)
        found = []
        for sums, total in zip(np.add.reduceat(counts, every, axis=1), records, strict=True):
            apart = sums - total * of_all
            certain = max(0.0, 1 - noise**2 * counts.shape[1] / max(float(apart @ apart), 1e-9))
            p = np.maximum(_simplex(total * of_all + certain * apart, total), min(noise / total, _RARE) * rare)
            found.append(p / p.sum())
        return cls(cells.merged(starts), np.stack(found))

    def draw(self, classes: NDArray[np.intp], rng: Generator) -> NDArray[np.float64]:
        """Values ``(rows,)`` for rows of these ``classes`` ``(rows,)``."""
        upper = self.probabilities.cumsum(axis=1)[classes]
        place = (rng.random((len(classes), 1)) >= upper[:, :-1]).sum(axis=1)
        return self.cells.value(place, rng)


def _starts(counts: NDArray[np.float64], noise: float) -> NDArray[np.intp]:
    """The first of each group of neighbouring cells that together stand out of the noise, or of one that does alone."""
    starts, held, width = [0], 0.0, 0
    for place, count in enumerate(counts):
        enough = held >= _STANDS_OUT * noise * math.sqrt(width)
        if width and (enough or count >= _STANDS_OUT * noise):
            starts.append(place)
            held, width = 0.0, 0
        held, width = held + count, width + 1
    return np.array(starts)


def _simplex(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """The nearest probabilities: Duchi et al., "Efficient projections onto the l1-ball", ICML 2008, Fig. 1."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    found: NDArray[np.float64] = np.maximum(values - excess[ordered > excess][-1], 0)
    found /= found.sum()
    return found


@dataclass(frozen=True)
class DrawingPlan:
    """Counts under ``epsilon`` and ``delta`` in total: each column's values in each of ``classes``.

    ``honest``: how many silos' shares of the noise are counted, see ``noise_shares.surely_honest``. All records count
    as one class where the outcome is a quantity, or noise would hide the classes.
    """

    form: Form
    epsilon: float
    delta: float
    classes: int = 1
    honest: int = 1
    records: int = 1
    """Approximate number of records at all silos together, as announced."""

    @classmethod
    def of(cls, dictionary: Dictionary, schema: Schema, agreed: StudyDraw, honest: int = 1) -> Self:
        """Plan for silos with about as many records as ``agreed`` says. Raises ConfigError.

        No guarantee depends on how many records there are.
        """
        noise = least_multiplier(agreed.epsilon, agreed.delta) * math.sqrt(len(schema.columns))
        classes = 1 if schema.outcome.number else len(schema.classes)
        if agreed.records < _CLEARLY * noise * classes:
            classes = 1
        intervals = int(np.clip(agreed.records / (_STANDS_OUT * noise * math.sqrt(classes)), FEWEST, MOST))
        form = Form(dictionary, schema.columns, intervals)
        return cls(form, agreed.epsilon, agreed.delta, classes, honest, agreed.records)

    def counts(self, cells: NDArray[np.intp], y: NDArray[np.number]) -> NDArray[np.int64]:
        """Records of each class in each cell of each column, in units of ``GRID`` ``(numbers,)``.

        ``cells``: ``(records, columns)``; ``y``: ``(records,)``. One column stands after the other.
        """
        of = y.astype(np.intp) if self.classes > 1 else np.zeros(len(y), dtype=np.intp)
        columns = zip(cells.T, self.form.sizes, strict=True)
        found = [np.bincount(of * size + column, minlength=self.classes * size) for column, size in columns]
        return np.concatenate(found) * GRID

    @property
    def noise(self) -> NoiseShares:
        """Noise of these counts. Raises ConfigError where no noise keeps the budget.

        Formal guarantees:
            Those of ``noise_of``: one record changes as many counts as there are columns, whatever its class and
            values are.
        """
        sizes = self.form.sizes
        return noise_of(self.epsilon, self.delta, len(sizes), self.classes * sum(sizes), self.honest)

    def wrong(self, opened: NDArray[np.int64], silos: int) -> str:
        """Why no counts of about ``records``, and noise of ``silos`` silos, add up to this sum; empty if some do."""
        return wrong_sum(opened, self.noise, silos, _ROUGHLY * self.records)


def draw(plan: DrawingPlan, opened: NDArray[np.int64], rows: int, rng: Generator) -> tuple[Features, str]:
    """Examples ``(rows, columns)``, and a sentence where noise hides what the records say.

    ``opened`` is the sum over all silos of their ``plan.counts`` and shares of ``plan.noise``: all else is
    post-processing. Raises DataError for a rule that no example keeps.
    """
    form, sizes, deviation = plan.form, np.array(plan.form.sizes), plan.noise.scale / GRID
    parts = np.split(opened / GRID, np.cumsum(plan.classes * sizes)[:-1])
    counts = [part.reshape(plan.classes, -1) for part in parts]
    # Columns with fewer cells have less noise in their sum.
    totals = np.average([part.sum(axis=1) for part in counts], axis=0, weights=1 / sizes)
    records = np.maximum(totals, deviation)
    columns = [Histogram.of(cells, part, records, deviation) for cells, part in zip(form.cells, counts, strict=True)]

    def examples() -> Features:
        classes = rng.choice(plan.classes, rows, p=records / records.sum())
        return np.stack([column.draw(classes, rng) for column in columns], axis=1)

    note = ""
    if totals.sum() < deviation * _FEW:
        note = (
            f"the drawn set follows the data dictionary rather than the records, as noise of {deviation:.0f} records "
            "hides nearly all of them in each count: raise draw-epsilon, or draw from the dictionary alone, with 0"
        )
    return form.kept(rows, examples), note
