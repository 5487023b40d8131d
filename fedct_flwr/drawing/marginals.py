"""A table drawn from noisy counts of its columns' values: independent columns, or a tree of pairs.

One-way: each column's histogram. Pairs: McKenna, Miklau, Sheldon, "Winning the NIST contest" (MST), JPC 2021, with all
pairs counted under one noise instead of a private selection: estimation and sampling are those of its authors' ``mbi``.
"""

import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree

from fedct_flwr.config import StudyDraw
from fedct_flwr.datasets.dictionary import Dictionary
from fedct_flwr.datasets.schema import Column
from fedct_flwr.drawing.cells import FEWEST, MOST, Cells, Form
from fedct_flwr.privacy.noise_shares import NoiseShares, least_multiplier, may_be_noise
from fedct_flwr.types import ConfigError, Features

GRID: Final = 1 << 30
"""Units of one record in a sum: so fine that shares of noise are as good as one Gaussian."""
ONE_WAY: Final = 0.5
"""Share of the budget for histograms where pairs are counted too."""
GROUPS: Final = 2
"""Of a column's values in counts of pairs, and one more for missing ones."""
MOST_GROUPS: Final = GROUPS + 1
_RARE: Final = 0.02
"""Probability of all values together that noise may hide."""
_FEW: Final = 5.0
"""Records in all, in standard deviations of the noise in one count: with fewer, counts are noise."""
_SET_ASIDE: Final = 2.0**-11
"""The part of delta that pays for noise that is not exactly Gaussian, in each of two sums."""
_CLEARLY: Final = 15.0
"""Standard deviations of noise that an average count of a pair of groups holds where pairs are worth their share."""
_LEAST: Final = 1e-12
_ROUGHLY: Final = 2
"""Times as many records as were announced are still believed."""
_CLEAR: Final = 3.0
"""Standard deviations above what noise alone gives, from which on two columns count as dependent."""
_SURE: Final = 3.0
"""Standard deviations of noise that an average interval holds, and neighbouring ones that are merged."""


Groups: TypeAlias = Sequence[NDArray[np.integer[Any]]]
"""For each column the group of each of its cells."""


def _sizes(groups: Groups) -> list[int]:
    return [int(group.max()) + 1 for group in groups]


class Histogram(NamedTuple):
    """One column's cells, neighbours merged where noise hides them, and their probabilities ``(cells + 1,)``.

    ``merged`` ``(cells + 1,)`` leads from the cells that were counted to these; the last ones are for missing values.
    """

    cells: Cells
    probabilities: NDArray[np.float64]
    merged: NDArray[np.intp]

    @classmethod
    def of(cls, cells: Cells, counts: NDArray[np.float64], noise: float) -> Self:
        """From noisy counts ``(cells + 1,)``, and the standard deviation of their noise."""
        starts = _starts(counts[:-1], noise) if cells.ordered else np.arange(len(counts) - 1)
        sums = np.r_[np.add.reduceat(counts[:-1], starts), counts[-1]]
        total = max(float(counts.sum()), 1.0)
        found = _simplex(sums, total)
        # Rare values do not vanish where noise may hide them.
        floor = np.r_[np.full(len(starts), min(noise / total, _RARE) / len(starts)), 0.0]
        found = np.maximum(found, floor)
        merged = np.r_[np.searchsorted(starts, np.arange(len(counts) - 1), side="right") - 1, len(starts)]
        return cls(cells.merged(starts), found / found.sum(), merged)

    def groups(self) -> NDArray[np.intp]:
        """Few groups ``(cells + 1,)`` of cells for counts of pairs: about equally likely, missing values apart."""
        p = self.probabilities[:-1]
        order = np.arange(len(p)) if self.cells.ordered else np.argsort(-p)
        middle = np.cumsum(p[order]) - p[order] / 2
        place = np.minimum((middle / max(p.sum(), 1e-9) * GROUPS).astype(np.intp), GROUPS - 1)
        found = np.empty(len(p) + 1, dtype=np.intp)
        found[order] = place
        found[-1] = GROUPS if self.probabilities[-1] > _RARE else 0
        return np.unique(found, return_inverse=True)[1]

    def draw(self, rows: int, rng: Generator) -> NDArray[np.float64]:
        """Values ``(rows,)``."""
        return self.cells.value(rng.choice(len(self.probabilities), rows, p=self.probabilities), rng)


def _starts(counts: NDArray[np.float64], noise: float) -> NDArray[np.intp]:
    """The first of each group of neighbouring cells that together stand out of the noise, or of one that does alone."""
    starts, held, width = [0], 0.0, 0
    for place, count in enumerate(counts):
        enough = held >= _SURE * noise * math.sqrt(width)
        if width and (enough or count >= _SURE * noise):
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


def intervals_for(records: int, columns: int, epsilon: float, delta: float) -> int:
    """Into how many intervals to divide numbers, where all silos have about ``records``: no guarantee depends on it."""
    deviation = least_multiplier(epsilon, delta) * math.sqrt(columns)
    return int(np.clip(records / (_SURE * deviation), FEWEST, MOST))


def pays(records: int, columns: int, epsilon: float, delta: float) -> bool:
    """Whether counts of pairs say more than they cost, where all silos have about ``records``."""
    every = columns * (columns - 1) // 2
    deviation = least_multiplier(epsilon, delta) * math.sqrt(every / (1 - ONE_WAY))
    return every > 0 and records / GROUPS**2 >= _CLEARLY * deviation


@dataclass(frozen=True)
class Plan:
    """What is counted under ``epsilon`` and ``delta`` in total: histograms, and with ``pairs`` also pairs of columns.

    ``honest``: how many silos' shares of the noise are counted, see ``noise_shares.surely_honest``.
    """

    form: Form
    epsilon: float
    delta: float
    pairs: bool = False
    honest: int = 1
    records: int = 1
    """Of all silos together, roughly, as they announced it."""

    @classmethod
    def of(cls, dictionary: Dictionary, columns: Sequence[Column], agreed: StudyDraw, honest: int = 1) -> Self:
        """What silos with about as many records as was ``agreed`` count. Raises ConfigError.

        No guarantee depends on how many records there are.
        """
        facts = agreed.records, len(columns), agreed.epsilon, agreed.delta
        form = Form(dictionary, columns, intervals_for(*facts))
        counted = pays(*facts) if agreed.pairs == "auto" else agreed.pairs == "yes"
        return cls(form, agreed.epsilon, agreed.delta, counted, honest, agreed.records)

    def counts(self, cells: NDArray[np.intp], groups: Groups | None) -> NDArray[np.int64]:
        """Records in each cell of each column, or in each pair of ``groups``, in units of ``GRID`` ``(numbers,)``.

        ``cells``: ``(records, columns)``. One column, or pair of columns, stands after the other.
        """
        if groups is None:
            found = [np.bincount(column, minlength=size) for column, size in zip(cells.T, self.form.sizes, strict=True)]
        else:
            coarse = [group[place].astype(np.intp) for group, place in zip(groups, cells.T, strict=True)]
            columns = itertools.combinations(zip(coarse, _sizes(groups), strict=True), 2)
            found = [np.bincount(a * n + b, minlength=m * n) for (a, m), (b, n) in columns]
        return np.concatenate(found) * GRID

    def noise(self, groups: Groups | None) -> NoiseShares:
        """Of the counts of each column's cells, or of each pair of ``groups``.

        Formal guarantees:
            One record added or removed changes as many counts by one as there are columns, or pairs of them: by that
            number's square root in Euclidean length, whatever the groups are. Noise whose multiplier is that of the
            whole budget divided by the square root of a share costs that share of the budget as zCDP, and the shares
            of the two sums add up to one, so they cost (``epsilon``, ``delta``) together. ``NoiseShares`` has the rest.

        Raises ConfigError where no noise keeps the budget.
        """
        sizes, share = self.form.sizes, ONE_WAY if self.pairs else 1.0
        changed, numbers = len(sizes), sum(sizes)
        if groups is not None:
            tables = [a * b for a, b in itertools.combinations(_sizes(groups), 2)]
            changed, numbers, share = len(tables), sum(tables), 1 - ONE_WAY
        multiplier = least_multiplier(self.epsilon, self.delta) / math.sqrt(share)
        found = NoiseShares(multiplier, GRID * math.sqrt(changed), 1, numbers, self.honest)
        if found.slack(self.epsilon) > self.delta * _SET_ASIDE:
            raise ConfigError(f"epsilon {self.epsilon:g} is too large for counts with noise: lower it")
        return found

    def wrong(self, opened: NDArray[np.int64], noise: NoiseShares, silos: int) -> str:
        """Why no counts of about ``records``, and noise of ``silos`` silos, add up to this sum; empty if some do.

        Of honest silos it is refused with a probability of at most ``noise_shares.UNLIKELY``.
        """
        counts, most = opened / GRID, _ROUGHLY * self.records
        rest = np.maximum(np.maximum(counts - most, -counts), 0)
        if may_be_noise(rest, noise.share_scale * math.sqrt(silos) / GRID):
            return ""
        return f"that no counts add up to: a silo breaks the protocol, or all have more than {most:,} records together"


Ask: TypeAlias = Callable[[Groups | None, NoiseShares], NDArray[np.int64]]
"""The sum over all silos of ``Plan.counts`` of their records, and of their shares of noise, in units of ``GRID``."""


def draw(plan: Plan, ask: Ask, rows: int, rng: Generator) -> tuple[Features, str]:
    """Examples ``(rows, columns)``, and a sentence where noise hides what the records say.

    All randomness of ``rng`` is post-processing. Raises ConfigError.
    """
    form, sizes, noise = plan.form, plan.form.sizes, plan.noise(None)
    opened = ask(None, noise) / GRID
    deviation = noise.scale / GRID
    parts = np.split(opened, np.cumsum(sizes)[:-1])
    columns = [Histogram.of(cells, part, deviation) for cells, part in zip(form.cells, parts, strict=True)]
    records = float(opened.sum()) / len(sizes)
    note = ""
    if records < deviation * _FEW:
        note = (
            f"the drawn set follows the data dictionary rather than the records, as noise of {deviation:.0f} records "
            "hides nearly all of them in each count: raise draw-epsilon, or draw from the dictionary alone, with 0"
        )
    if plan.pairs:
        return _of_pairs(plan, ask, columns, records, rows, rng), note
    return form.kept(rows, lambda: np.stack([column.draw(rows, rng) for column in columns], axis=1)), note


def _of_pairs(
    plan: Plan, ask: Ask, columns: Sequence[Histogram], records: float, rows: int, rng: Generator
) -> Features:
    """Groups of values by a tree of pairs, and each value from its group by the column's histogram."""
    groups = [column.groups() for column in columns]
    of_cell = [group[column.merged] for group, column in zip(groups, columns, strict=True)]
    sizes, every = _sizes(groups), list(itertools.combinations(range(len(groups)), 2))
    ends = np.cumsum([sizes[i] * sizes[j] for i, j in every])
    noise = plan.noise(of_cell)
    deviation = noise.scale / GRID
    parts = np.split(ask(of_cell, noise) / GRID, ends[:-1])
    single = [np.bincount(group, column.probabilities) for group, column in zip(groups, columns, strict=True)]
    strength = np.zeros((len(sizes), len(sizes)))
    for (i, j), part in zip(every, parts, strict=True):
        apart = part - records * np.outer(single[i], single[j]).ravel()
        # Of noise alone, a chi-square number in standard deviations from its mean.
        score = ((apart / deviation) ** 2).sum() - part.size
        strength[i, j] = score if score > _CLEAR * math.sqrt(2 * part.size) else 0
    # The strongest forest: no edge is where there is a zero.
    forest = minimum_spanning_tree(-strength).toarray() < 0
    known = {pair: part for pair, part in zip(every, parts, strict=True) if forest[pair]}
    drawn_groups = _estimated(sizes, [p * records for p in single], known, deviation)

    def draw() -> Features:
        values = []
        for column, group, place in zip(columns, groups, drawn_groups(rows, rng), strict=True):
            found = np.empty(rows)
            for each in np.unique(place):
                p = np.where(group == each, column.probabilities + _LEAST, 0)
                here = place == each
                found[here] = column.cells.value(rng.choice(len(p), int(here.sum()), p=p / p.sum()), rng)
            values.append(found)
        return np.stack(values, axis=1)

    return plan.form.kept(rows, draw)


def _estimated(
    sizes: Sequence[int],
    single: Sequence[NDArray[np.floating[Any]]],
    tables: Mapping[tuple[int, int], NDArray[np.float64]],
    deviation: float,
) -> Callable[[int, Generator], list[NDArray[np.intp]]]:
    """What draws rows, column by column, from the model that fits all counts best. Raises ConfigError without mbi."""
    try:
        import jax

        update: Any = jax.config.update
        update("jax_enable_x64", True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import mbi
    except ImportError:
        raise ConfigError("draw-pairs needs mbi: pip install -c constraints.txt -e '.[drawn]'") from None
    measured = [mbi.LinearMeasurement(count, (i,), deviation) for i, count in enumerate(single)]
    measured += [mbi.LinearMeasurement(table, pair, deviation) for pair, table in tables.items()]
    model = mbi.estimation.MirrorDescent().estimate(mbi.Domain(range(len(sizes)), sizes), measured)

    def draw(rows: int, rng: Generator) -> list[NDArray[np.intp]]:
        # It draws from NumPy's global generator.
        before = np.random.get_state()
        np.random.seed(int(rng.integers(2**32)))
        try:
            found = model.synthetic_data(rows).to_dict()
        finally:
            np.random.set_state(before)
        return [np.asarray(found[i]) for i in range(len(sizes))]

    return draw
