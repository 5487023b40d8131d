"""The question of how many patients meet a condition, and a silo's answer without noise."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.config.tables import EPOCH, ColumnForm
from fedct_flwr.datasets.condition import Condition, columns_for, position, values_at
from fedct_flwr.datasets.federated import unit_of_each
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.drawing.cells import Domain
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import Answers, ConfigError, Features, Groups

_INTERVALS: Final = 5
"""Of the range of a number or date, without its lowest and highest values, which have cells of their own."""


@dataclass(frozen=True, eq=False)
class PatientCount:
    """The question of how many patients match ``where``: all, or for each cell of a column.

    ``form`` is what that column may hold, None where all patients are counted together; ``at`` is its position.
    """

    where: Condition
    form: ColumnForm | None
    column: Column
    at: int

    @classmethod
    def of(cls, where: str, by: str, schema: Schema, dictionary: Mapping[str, ColumnForm]) -> Self:
        """Read a question about a study's columns; ``by`` is empty, or one of them. Raises ConfigError.

        The study's ``dictionary`` says what numbers and dates are, and has their cells.
        """
        condition, columns = Condition.of(where, schema, dictionary), columns_for(schema)
        if not by:
            return cls(condition, None, columns[0], 0)
        column = columns[at := position(by, columns)]
        if column.categories is not None:
            form = ColumnForm(kind="category", categories=column.categories)
        elif by in dictionary and not column.text:
            form = dictionary[by]
        else:
            raise ConfigError(
                f"{quoted(by)} has no categories to count by: name another column, or add what it may hold under "
                "[columns] in study.toml"
            )
        return cls(condition, form, column, at)

    @cached_property
    def _places(self) -> Domain:
        assert self.form is not None  # noqa: S101 - asked for where there is a column
        return Domain.of(self.form, self.column, _INTERVALS)

    @cached_property
    def cells(self) -> tuple[str, ...]:
        """Names of the counts; patients without a known value have the last one. Raises ConfigError."""
        if self.form is None:
            return ("",)
        ends = zip(self._places.low.tolist(), self._places.high.tolist(), strict=True)
        names = [
            self._named(low) if low == high else f"{self._named(low)} to {self._named(high)}" for low, high in ends
        ]
        return (*names, "missing or another value")

    def _named(self, value: float) -> str:
        if self.column.categories is not None:
            return self.column.categories[int(value)]
        dated = self.form is not None and self.form.kind == "date"
        # Next to the lowest value, an interval begins at the least number above it: 5e-324 for 0.
        return str(EPOCH + timedelta(days=value)) if dated else f"{round(value, 9):.12g}"

    def counts(self, X: Features, y: Answers, groups: Groups | None) -> NDArray[np.int64]:
        """Patients in each cell ``(cells,)``. Each counts once, in the cell of the first record that matches."""
        found = np.flatnonzero(self.where.holds(X, y).true)
        first = found[np.unique(unit_of_each(len(X), groups)[found], return_index=True)[1]]
        if self.form is None:
            return np.array([len(first)], dtype=np.int64)
        values, ends = values_at(X, y, self.at)[first], self._places
        # A code such as 999 is no largest value.
        values[(values < ends.low[0]) | (values > ends.high[-1])] = np.nan
        places, _ = ends.place(values)
        return np.bincount(places, minlength=len(self.cells)).astype(np.int64)
