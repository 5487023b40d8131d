"""Cells of a table's columns: into which cell each value falls, and values drawn from cells.

The cells of a column follow from the data dictionary alone, so they tell nothing of records. Each category is a cell.
Numbers have intervals of one width, and each end of the range a cell of its own, as values pile up there: zeros, and
what was clipped. The last cell of each column is for missing values.
"""

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.config.tables import ColumnForm
from fedct_flwr.datasets.dictionary import Dictionary
from fedct_flwr.datasets.schema import Column
from fedct_flwr.text.printable import count, listed, quoted
from fedct_flwr.types import ConfigError, DataError, Features

FEWEST: Final = 8
MOST: Final = 100
"""Intervals of a column of numbers."""
_DIGITS: Final = 3
"""Decimals of a file's numbers, relative to the size of their range."""
_MOST_TRIES: Final = 50
"""Times as many rows as are asked for, of which each must break a rule before the rule is refused."""


@dataclass(frozen=True, eq=False)
class Domain:
    """Cells of one column: ``low`` and ``high`` ``(cells,)`` values of each, ascending; equal for a single value.

    ``missing`` is the share that the dictionary allows.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    whole: bool
    ordered: bool
    missing: float

    @classmethod
    def of(cls, form: ColumnForm, column: Column, intervals: int) -> Self:
        """Cells of a column of the schema, with ``intervals`` of a number's range.

        Raises ConfigError where the dictionary says something else.
        """
        if form.kind == "category":
            values = form.codes if column.categories is None else _positions(form, column)
            if values is None:
                raise ConfigError(f"the data dictionary has names for {quoted(column.name)}, and the tables numbers")
            return cls(values, values, whole=False, ordered=False, missing=form.missing)
        if column.spelled or form.range is None:
            raise ConfigError(f"the data dictionary has a {form.kind} {quoted(column.name)}, and the tables text")
        least, most = form.range
        whole = form.kind != "number"
        inner = np.linspace(least + 1, most, intervals + 1) if whole else np.linspace(least, most, intervals + 1)
        inner = np.unique(np.ceil(inner)) if whole else np.r_[np.nextafter(least, most), inner[1:]]
        low = np.r_[least, inner]
        high = np.r_[low[1:] - 1 if whole else low[1:], most]
        high[0] = least
        return cls(low, high, whole, ordered=True, missing=form.missing)

    @property
    def size(self) -> int:
        """Cells, with the one for missing values, which is the last."""
        return len(self.low) + 1

    def place(self, values: NDArray[np.float64]) -> tuple[NDArray[np.intp], int]:
        """The cell of each value ``(records,)``, and how many lie outside of the dictionary.

        Numbers outside are clipped; categories that the dictionary lacks count as missing.
        """
        there = ~np.isnan(values)
        known = np.where(there, values, self.low[0])
        found = np.clip(np.searchsorted(self.low, known, side="right") - 1, 0, len(self.low) - 1)
        if self.ordered:
            outside = (known < self.low[0]) | (self.floored(known) > self.high[-1])
        else:
            outside = self.low[found] != known
            there &= ~outside
        return np.where(there, found, len(self.low)), int(outside.sum())

    def floored(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Whole numbers and days: a date may have a time of day."""
        return np.floor(values) if self.whole else values

    def value(self, cells: NDArray[np.intp], rng: Generator) -> NDArray[np.float64]:
        """A value drawn from each of these cells ``(rows,)``, evenly; NaN for missing ones."""
        place = np.minimum(cells, len(self.low) - 1)
        low, high = self.low[place], self.high[place]
        drawn = rng.integers(low.astype(np.int64), high.astype(np.int64) + 1) if self.whole else rng.uniform(low, high)
        return np.where(cells == len(self.low), np.nan, drawn)

    def merged(self, starts: NDArray[np.intp]) -> Self:
        """With neighbouring cells as one; ``starts`` are the first of each."""
        last = np.r_[starts[1:] - 1, len(self.low) - 1]
        return type(self)(self.low[starts], self.high[last], self.whole, self.ordered, self.missing)

    def uniform(self, rows: int, rng: Generator) -> NDArray[np.float64]:
        """Values ``(rows,)`` that are evenly spread over the range or the categories, some of them missing."""
        if self.ordered:
            whole = type(self)(self.low[:1], self.high[-1:], self.whole, self.ordered, self.missing)
            found = whole.value(np.zeros(rows, dtype=np.intp), rng)
        else:
            found = rng.choice(self.low, rows)
        found[rng.random(rows) < self.missing] = np.nan
        return found


def _positions(form: ColumnForm, column: Column) -> NDArray[np.float64]:
    known = column.categories or ()
    if unknown := [name for name in form.categories if name not in known]:
        raise ConfigError(
            f"the data dictionary has values of {quoted(column.name)} that no table has: {listed(unknown)}; take "
            "them out, or add an example with each to the public set"
        )
    return np.array(sorted(known.index(name) for name in form.categories), dtype=np.float64)


def columns_of(dictionary: Dictionary) -> tuple[Column, ...]:
    """The columns as tables with exactly these values would have them."""
    return tuple(
        Column(name, tuple(sorted(form.categories)) if form.categories and form.codes is None else None)
        for name, form in dictionary.columns.items()
    )


class Form:
    """All columns of a table by the data dictionary: its cells, and its rules.

    Raises ConfigError for a column that the dictionary lacks, or has as another kind.
    """

    def __init__(self, dictionary: Dictionary, columns: Sequence[Column], intervals: int = MOST) -> None:
        if missing := [column.name for column in columns if column.name not in dictionary.columns]:
            raise ConfigError(f"the data dictionary has no column {listed(missing)}: add it, or leave the column out")
        self._forms = forms = [dictionary.columns[column.name] for column in columns]
        names = [column.name for column in columns]
        self.columns = tuple(columns)
        self.cells = [Domain.of(form, column, intervals) for form, column in zip(forms, columns, strict=True)]
        self.rules = [(i, names.index(form.at_most)) for i, form in enumerate(forms) if form.at_most in names]

    @property
    def sizes(self) -> list[int]:
        """Cells of each column."""
        return [cells.size for cells in self.cells]

    def place(self, X: Features) -> tuple[NDArray[np.intp], str]:
        """The cells ``(records, columns)``, and how many values lie outside of the dictionary: empty, or in words."""
        pairs = [cells.place(values.astype(np.float64)) for cells, values in zip(self.cells, X.T, strict=True)]
        outside = {column.name: found for column, (_, found) in zip(self.columns, pairs, strict=True) if found}
        words = (
            f"{count(sum(outside.values()), 'value')} outside of the data dictionary, in "
            f"{', '.join(f'{quoted(name)} ({found})' for name, found in outside.items())}: they count as the nearest "
            "end of the range, or as missing"
        )
        return np.stack([cells for cells, _ in pairs], axis=1), words if outside else ""

    def uniform(self, rows: int, rng: Generator) -> Features:
        """Examples ``(rows, columns)`` that are spread evenly. Raises DataError for a rule that no example keeps."""
        return self.kept(rows, lambda: np.stack([cells.uniform(rows, rng) for cells in self.cells], axis=1))

    def table(self, X: Features) -> pa.Table:
        """Examples as a table that files hold: categories by name, whole numbers, dates as dates."""
        found = {}
        for form, column, values in zip(self._forms, self.columns, X.T, strict=True):
            missing = np.isnan(values)
            known = np.where(missing, 0, values)
            if column.categories is not None:
                found[column.name] = pa.array(np.array(column.categories)[known.astype(np.intp)].tolist(), mask=missing)
            elif form.range is None or form.kind == "integer":
                whole = bool((known % 1 == 0).all())
                found[column.name] = pa.array(known.astype(np.int64) if whole else known, mask=missing)
            elif form.kind == "date":
                found[column.name] = pa.array(known.astype(np.int32), pa.date32(), mask=missing)
            else:
                digits = _DIGITS - math.floor(math.log10(form.range[1] - form.range[0]))
                found[column.name] = pa.array(known.round(max(digits, 0)), mask=missing)
        return pa.table(found)

    def csv(self, X: Features) -> bytes:
        """Examples as a CSV file."""
        written = io.BytesIO()
        pyarrow.csv.write_csv(self.table(X), written)
        return written.getvalue()

    def kept(self, rows: int, draw: Callable[[], Features]) -> Features:
        """The first ``rows`` examples of all that ``draw`` gives that keep the rules. Raises DataError if none do."""
        found = np.empty((0, len(self.cells)))
        for _ in range(_MOST_TRIES):
            X = draw()
            broken = [X[:, low] > X[:, high] for low, high in self.rules]
            found = np.concatenate([found, X[~np.any(broken, axis=0)] if broken else X])
            if len(found) >= rows:
                return found[:rows]
        names = listed([self.columns[low].name for low, _ in self.rules])
        raise DataError(f"hardly any example keeps the data dictionary's rules at-most of {names}: correct the ranges")
