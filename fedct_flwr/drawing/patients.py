"""Patients who meet a condition, such as ``age >= 65 and ward in ('east', 'west')``: how many, without noise.

A comparison has a column on its left, and numbers, dates or categories on its right. ``and``, ``or``, ``not`` and
parentheses join comparisons. The language has nothing else, and no text is run.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.config.tables import EPOCH, ColumnForm
from fedct_flwr.datasets.federated import unit_of_each
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.drawing.cells import Domain
from fedct_flwr.text.printable import normalized, quoted, suggest
from fedct_flwr.types import Answers, ConfigError, Features, Groups
from fedct_flwr.wire.content import LONGEST_CONDITION

LABEL: Final = "label"
"""The label's name in conditions, whatever a silo's own column is called."""
_DEEPEST: Final = 20
"""Parentheses and ``not`` within each other."""
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<date>\d{4}-\d\d-\d\d)(?![\w.-])|(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)(?![\w.-])"
    r"|(?P<name>[^\W\d][\w.-]*)|(?P<text>'[^']*'|\"[^\"]*\")|(?P<sign>[<>=!]=|[<>=(),]))"
)
_WORDS: Final = ("and", "or", "not", "in")
_EXAMPLE: Final = "such as \"age >= 65 and ward in ('east', 'west')\""
_SIGNS: Final[dict[str, Callable[[NDArray[np.float64], float], NDArray[np.bool_]]]] = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


class _Known(NamedTuple):
    """Records ``(n,)`` of which something holds, and of which it does not: neither, where a value is missing."""

    true: NDArray[np.bool_]
    false: NDArray[np.bool_]


_Holds = Callable[[Features, Answers], _Known]


class _Token(NamedTuple):
    kind: str
    text: str

    @property
    def plain(self) -> str:
        """The text without quotes."""
        return self.text[1:-1] if self.kind == "text" else self.text


@dataclass(frozen=True, eq=False)
class Condition:
    """A condition in its one spelling, its test of records, and the columns that it names."""

    text: str
    holds: _Holds
    columns: frozenset[str]

    @classmethod
    def of(cls, text: str, schema: Schema, dictionary: Mapping[str, ColumnForm] = {}) -> Self:
        """Read a condition on a study's columns, whose ``dictionary`` says which hold dates.

        Raises ConfigError in one sentence.
        """
        reader = _Reader(text, columns_for(schema), dictionary)
        return cls(reader.spelled, reader.read(), frozenset(reader.named))


def columns_for(schema: Schema) -> tuple[Column, ...]:
    """The columns that conditions may name: the study's, and the label where it has classes. Raises ConfigError."""
    if not schema.columns:
        raise ConfigError("the study has images, and patients are counted by the columns of tables")
    label = () if schema.outcome.number or LABEL in {each.name for each in schema.columns} else (LABEL,)
    return (*schema.columns, *(Column(name, schema.classes) for name in label))


def values_at(X: Features, y: Answers, at: int) -> NDArray[np.float64]:
    """A column's values ``(n,)``; those of the label follow after the last column."""
    return (X[:, at] if at < X.shape[1] else y).astype(np.float64)


def _as_value(cells: NDArray[np.float64], value: float) -> NDArray[np.float64]:
    """Cells ``(n,)`` of which one counts as the ``value`` if it is that fraction in single precision.

    In such a column 7.4 is 7.4000001. Each cell is for itself: other records change none.
    """
    with np.errstate(over="ignore"):
        single = np.float32(value)
    # A value with more digits than that is meant as it is written.
    if value == np.rint(value) or float(str(single)) != value:
        return cells
    return np.where(cells == np.float64(single), value, cells)


def position(name: str, columns: Sequence[Column]) -> int:
    """The position of a column. Raises ConfigError for a name that none has."""
    names = [column.name for column in columns]
    if name not in names:
        raise ConfigError(f"there is no column {quoted(name)}: {suggest(name, names)}")
    return names.index(name)


class _Reader:
    """Reads a condition by recursive descent. Raises ConfigError."""

    def __init__(self, text: str, columns: Sequence[Column], dictionary: Mapping[str, ColumnForm]) -> None:
        if not isinstance(text, str):
            raise ConfigError(f"the condition is of type {type(text).__name__}: write it as text, {_EXAMPLE}")
        # Tables are read in this form of Unicode.
        self._columns, self._dictionary, self._text = columns, dictionary, normalized("NFC", text).strip()
        self._tokens, at = list[_Token](), 0
        while at < len(self._text):
            found = _TOKEN.match(self._text, at)
            if found is None:
                raise self._wrong(self._text[at:])
            kind = found.lastgroup or ""
            word = found[kind].lower() if kind == "name" else ""
            token = _Token("word", word) if word in _WORDS else _Token(kind, found[kind])
            self._tokens.append(_Token("sign", "==") if token.text == "=" else token)
            at = found.end()
        self._at = self._depth = 0
        self.named = set[str]()
        if len(self.spelled.encode("utf-8", "replace")) > LONGEST_CONDITION:
            raise ConfigError(f"the condition has more than {LONGEST_CONDITION} bytes: ask for less at a time")

    @property
    def spelled(self) -> str:
        """The condition with single blanks: one spelling is one question."""
        return " ".join(token.text for token in self._tokens)

    def read(self) -> _Holds:
        """The whole condition."""
        found = self._either()
        if self._at < len(self._tokens):
            raise self._wrong(self._next.text)
        return found

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _Token("end", "")

    def _take(self, *texts: str) -> str:
        """The next word or sign, if it is one of these; else nothing is taken."""
        token = self._next
        if token.kind not in ("word", "sign") or token.text not in texts:
            return ""
        self._at += 1
        return token.text

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise self._wrong(self._next.text)

    def _wrong(self, where: str) -> ConfigError:
        place = f"at {quoted(where)}" if where else "as it ends too early"
        return ConfigError(f"{quoted(self._text)} is no condition, {place}: write one {_EXAMPLE}")

    def _either(self) -> _Holds:
        return self._joined("or", self._both, np.logical_or, np.logical_and)

    def _both(self) -> _Holds:
        return self._joined("and", self._one, np.logical_and, np.logical_or)

    def _joined(self, word: str, part: Callable[[], _Holds], true: np.ufunc, false: np.ufunc) -> _Holds:
        parts = [part()]
        while self._take(word):
            parts.append(part())

        def holds(X: Features, y: Answers) -> _Known:
            found = [each(X, y) for each in parts]
            return _Known(true.reduce([each.true for each in found]), false.reduce([each.false for each in found]))

        return holds

    def _one(self) -> _Holds:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ConfigError(f"the condition is nested more than {_DEEPEST} deep: write it in a simpler way")
        if self._take("not"):
            negated = self._one()
            found: _Holds = lambda X, y: _Known(*reversed(negated(X, y)))  # noqa: E731
        elif self._take("("):
            found = self._either()
            self._need(")")
        else:
            found = self._comparison()
        self._depth -= 1
        return found

    def _comparison(self) -> _Holds:
        token = self._next
        if token.kind not in ("name", "text"):
            raise self._wrong(token.text)
        self._at += 1
        at = position(token.plain, self._columns)
        column = self._columns[at]
        self.named.add(column.name)
        if column.text:
            raise ConfigError(f"{quoted(column.name)} holds free text, which no condition reads: name another column")
        negated = bool(self._take("not"))
        sign = self._take("in") if negated else self._take(*_SIGNS, "in")
        if not sign:
            raise self._wrong(self._next.text)
        if column.categories is not None and sign not in ("==", "!=", "in"):
            raise ConfigError(f"{quoted(column.name)} has categories, which have no order: compare with ==, != or in")
        first = self._at
        values = self._list(column) if sign == "in" else [self._value(column)]
        kinds = {each.kind for each in self._tokens[first : self._at]}
        dated = column.categories is None and not kinds.isdisjoint(("date", "text"))
        test = _SIGNS["==" if sign == "in" else sign]

        def holds(X: Features, y: Answers) -> _Known:
            cells = values_at(X, y, at)
            # Records may have a time of day.
            cells = np.floor(cells) if dated else cells
            known = ~np.isnan(cells)
            found = np.any([test(_as_value(cells, value), value) for value in values], axis=0)
            either = _Known(found & known, ~found & known)
            return _Known(*reversed(either)) if negated else either

        return holds

    def _list(self, column: Column) -> list[float]:
        self._need("(")
        values = [self._value(column)]
        while self._take(","):
            values.append(self._value(column))
        self._need(")")
        return values

    def _value(self, column: Column) -> float:
        """One value of a column, as records hold it."""
        token, name = self._next, quoted(column.name)
        if token.kind == "name" and column.categories is not None:
            raise ConfigError(f"{quoted(token.text)} stands for a value of {name}: put it in quotes")
        if token.kind not in ("name", "number", "date", "text"):
            raise self._wrong(token.text)
        self._at += 1
        if column.categories is not None:
            if token.plain not in column.categories:
                raise ConfigError(
                    f"{name} has no value {quoted(token.plain)}: {suggest(token.plain, column.categories)}"
                )
            return float(column.categories.index(token.plain))
        form, number = self._dictionary.get(column.name), token.kind == "number"
        if form and number == (form.kind == "date"):
            # As a number, 2024 would be a day of 1975.
            holds, one = ("dates", "2024-12-31") if number else ("numbers", "65")
            raise ConfigError(f"{name} holds {holds}: compare it with one such as {one}")
        try:
            return float(token.text) if number else (datetime.strptime(token.plain, "%Y-%m-%d").date() - EPOCH).days
        except ValueError:
            raise ConfigError(
                f"{name} is a number or a date, and {quoted(token.plain)} is neither: compare it with one such as 65 "
                "or 2024-12-31, without quotes, and truth values with 1 or 0"
            ) from None


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
        values[(values < ends.low[0]) | (ends.floored(values) > ends.high[-1])] = np.nan
        places, _ = ends.place(values)
        return np.bincount(places, minlength=len(self.cells)).astype(np.int64)
