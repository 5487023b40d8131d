"""One column of one table as the checks see it: numbers with NaN, or words by number; and a column in all tables."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedct_flwr.datasets.dates import is_dated
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.tables import is_number, is_text, usual
from fedct_flwr.types import Features, SiloName

_PLAIN: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_COMMA: Final = r"^\s*[+-]?(\d*,\d+([eE][+-]?\d+)?|\d{1,3}([., '\x{2019}]\d{3})+([.,]\d+)?)\s*$"
_DIGITS: Final = r"[\d\x{FF10}-\x{FF19}]+([.,]\d+)?"
# With signs around, as bounds, currencies, other minus signs and accounts have; with a unit, or a second number.
_BOUND: Final = (
    rf"^\s*([^\d\pL\s.,]{{0,2}}|ca\.?|ab|bis|über|unter)\s*=?\s*{_DIGITS}(\s*/\s*{_DIGITS}|([.,]\d+)+)?"
    r"\s*([^\pL\d\s.,]{1,3}|\s\S{1,12}|[\pL°µμ]{2,6}(/[\pL\d]{1,6})?)?\s*$"
)
_MISSING: Final = (
    r"(?i)^\s*[\[(<]?(\?+|-+|–+|\.+|\*+|x+|n\.?/?\s?a\.?|nan|null|none|nil|unk|missing( values?)?|miss|n\.?\s?d\.?|"
    r"n\.?\s?b\.?|k\.?\s?a\.?|unknown(\s?/\s?not reported)?|unbekannt|fehlt|fehlend|inconnu|desconocido|no consta|"
    r"non renseigné|keine angaben?|nicht (bekannt|erhoben|gemessen|angegeben)|don['\x{2019}]?t know|nask|asku|blank|"
    r"(no|keine) (data|information|answer|values?|daten)|lost to follow[ -]?up|not (done|known|available|measured|"
    r"applicable|assessed|recorded|reported|completed|collected|stated|specified|evaluated|tested|determined)|pending|"
    r"to be determined|tba|tbd|#.*|error|err|inf|-inf)[\])>]?\s*$"
)
MISSING_CODES: Final = (
    *(7, 8, 9, 66, 77, 88, 97, 98, 99, 99.9, 99.99, 555, 666, 777, 888, 996, 997, 998, 999, 999.9, 8888, 9996, 9997),
    *(9998, 9999, 99997, 99998, 99999, 999999, 9999999, 99999999, 999999999),
    *(88.88, 888.88, 999.99, 5555, 6666, 7777, 8888.88, 9999.99, 77777, 88888),
    *(32767, 32768, 65535, 2147483647, 2147483648),
)
"""Numbers that stand for a missing value, positive or negative; in a column of features 0 and -1 do, too."""
_MONTH: Final = r"(?:jan|feb|m[aä]r|mrz|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])\pL*"
_DATE: Final = (
    r"(?i)^\s*(\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2})|\d{4}[./-]\d{1,2}[./-]\d{1,2}|(19|20)\d{2}[/-](0[1-9]|1[0-2])|"
    rf"\d{{1,2}}[. -]*{_MONTH}[., -]*\d{{2,4}}|{_MONTH}[., -]*\d{{1,2}}[., -]+\d{{4}}|"
    rf"{_MONTH}[., -]*(19|20)\d{{2}}|\d{{1,3}}:[0-5]\d(:[0-5]\d)?)([ T,]+\d{{1,2}}:\d{{2}}.*)?\s*$"
)


class Looks(NamedTuple):
    """Form of each distinct value ``(values,)``, as masks; each value has one form at most.

    ``plain``: a number as programs write it; ``comma``: with a decimal comma or with marks between thousands;
    ``bound``: with a sign such as ``<``, a unit or a second number; ``missing``: a word for a missing value.
    """

    plain: NDArray[np.bool_]
    comma: NDArray[np.bool_]
    bound: NDArray[np.bool_]
    missing: NDArray[np.bool_]

    @property
    def number(self) -> NDArray[np.bool_]:
        """Which values hold a number in any of the three forms."""
        return self.plain | self.comma | self.bound


def looks_of(words: Collection[str]) -> Looks:
    """Forms of these texts."""
    # To a regular expression, a blank that does not break is none.
    values = pc.replace_substring_regex(pa.array([*words], pa.string()), r"[\x{A0}\x{2007}\x{2009}\x{202F}]", " ")
    plain, comma, missing, bound = (_match(values, pattern) for pattern in (_PLAIN, _COMMA, _MISSING, _BOUND))
    comma &= ~plain
    missing &= ~(plain | comma)
    return Looks(plain, comma, bound & ~(plain | comma | missing), missing)


def _match(values: pa.Array, pattern: str) -> NDArray[np.bool_]:
    """Which texts match; none where no text has a digit, as in most columns, as compiling a pattern takes its time."""
    if not pc.any(pc.match_substring_regex(values, r"\d")).as_py():
        return np.zeros(len(values), dtype=bool)
    return np.asarray(pc.match_substring_regex(values, pattern).to_numpy(zero_copy_only=False).astype(bool))


def are_missing(values: Collection[str]) -> NDArray[np.bool_]:
    """Which of the texts are words for a missing value; not signs such as ``-`` and ``x``, which may be classes."""
    found = pc.match_substring_regex(pa.array([*values], pa.string()), _MISSING).to_numpy(zero_copy_only=False)
    signs = [not value.strip(" -–+*xX[]()<>") for value in values]
    return np.asarray(found.astype(bool) & ~np.array(signs, dtype=bool))


def are_dates(values: Collection[str]) -> NDArray[np.bool_]:
    """Which of the texts are dates."""
    return _match(pa.array([*values], pa.string()), _DATE)


FEWEST: Final = 20
"""Least number of cells with a value for a finding."""
TESTED: Final = ".test"
"""End of a test table's name."""
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


class CellKind(StrEnum):
    """Kind of a column's cells; empty where no cell has a value."""

    NUMBERS = "numbers"
    TEXT = "text"
    DATES = "dates"
    TIMES = "times of day"
    NOTHING = "nothing"
    OTHER = "something else"


_SENTENCE: Final = 4
_SOME: Final = 200


@dataclass(frozen=True, eq=False)
class Cells:
    """All cells of a column in one table.

    ``numbers`` ``(records,)`` are floats with NaN where a value is missing; of text, positions in ``words``, or -1.
    """

    kind: CellKind
    numbers: Floats | Ints
    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> "Cells":
        """A column of a table. Text of blanks alone is missing."""
        column, nothing = usual(column), np.full(len(column), np.nan)
        if column.null_count == len(column):
            return cls(CellKind.NOTHING, nothing)
        if is_number(column.type):
            values = column.cast(pa.float64(), safe=False).to_numpy().astype(np.float64, copy=True)
            values[np.isinf(values)] = np.nan
            return cls.of_numbers(values)
        if not is_text(column.type):
            other = CellKind.TIMES if pa.types.is_time(column.type) else CellKind.OTHER
            return cls(CellKind.DATES if is_dated(column.type) else other, nothing)
        encoded = pa.concat_arrays(column.cast(pa.string()).chunks).dictionary_encode()
        codes = encoded.indices.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64, copy=True)
        words = encoded.dictionary.to_pylist()
        codes[np.isin(codes, [at for at, word in enumerate(words) if not word.strip()])] = np.nan
        return cls.of_numbers(codes, tuple(words))

    @classmethod
    def of_numbers(cls, values: Floats, words: tuple[str, ...] = ()) -> "Cells":
        """Numbers, or numbers of ``words``, with NaN where a value is missing."""
        if words and not np.isnan(values).all():
            return cls(CellKind.TEXT, np.where(np.isnan(values), -1, values).astype(np.int64), words)
        return cls(CellKind.NOTHING if np.isnan(values).all() else CellKind.NUMBERS, values)

    @property
    def sentences(self) -> bool:
        """Whether text is longer than names are: four words or more in the middle."""
        return bool(self.words) and float(np.median([len(word.split()) for word in self.words[:_SOME]])) >= _SENTENCE

    @property
    def records(self) -> int:
        """Cells, those without a value too."""
        return len(self.numbers)

    @cached_property
    def valid(self) -> int:
        """Cells with a value."""
        return int(np.count_nonzero(self.numbers >= 0)) if self.words else len(self.ordered)

    @cached_property
    def ordered(self) -> Floats:
        """The numbers of a column of numbers, sorted, without missing ones."""
        return np.sort(self.numbers[~np.isnan(self.numbers)]).astype(np.float64)

    @cached_property
    def tally(self) -> tuple[Floats, Ints]:
        """The distinct numbers, sorted, and in how many cells each is."""
        return np.unique(self.ordered, return_counts=True)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of cells of each word, or of each number as a word."""
        if self.words:
            found = np.bincount(self.numbers[self.numbers >= 0].astype(np.int64), minlength=len(self.words)).tolist()
            return {word: number for word, number in zip(self.words, found, strict=True) if number}
        return dict(zip([f"{value:.15g}" for value in self.tally[0]], self.tally[1].tolist(), strict=True))

    @property
    def distinct(self) -> int:
        """Distinct values."""
        return len(self.counts) if self.words else len(self.tally[0])

    @cached_property
    def looks(self) -> Looks:
        """Forms of the words, in the order of ``counts``."""
        return looks_of(self.counts)

    def first(self, words: Sequence[str]) -> tuple[int, str]:
        """The first record, counted from 1, with one of these words, and the word."""
        number = {word: position for position, word in enumerate(self.words)}
        row = int(np.isin(self.numbers, [number[word] for word in words]).argmax())
        return row + 1, self.words[int(self.numbers[row])]


@dataclass(frozen=True, eq=False)
class Inspected:
    """One column in all tables; ``public`` is None where the public set does not have it, as the label."""

    name: str
    public: Cells | None
    silos: Mapping[SiloName, Cells]

    @cached_property
    def tables(self) -> dict[SiloName, Cells]:
        """All tables; the public set's name is empty."""
        return ({} if self.public is None else {"": self.public}) | {**self.silos}

    @property
    def of_numbers(self) -> bool:
        """Whether all tables hold numbers, or nothing."""
        kinds = {cells.kind for cells in self.tables.values()}
        return CellKind.NUMBERS in kinds and kinds <= {CellKind.NUMBERS, CellKind.NOTHING}

    @property
    def trained(self) -> "Inspected":
        """The same without the silos' test tables."""
        own = {name: cells for name, cells in self.silos.items() if not name.endswith(TESTED)}
        return Inspected(self.name, self.public, own)

    @cached_property
    def tables_with(self) -> Counter[float]:
        """How many tables hold each number."""
        return Counter(value for cells in self.tables.values() for value in cells.tally[0].tolist())

    @cached_property
    def _ends_of_others(self) -> dict[SiloName, "Ends"]:
        found = {name: cells.ordered for name, cells in self.trained.tables.items() if cells.valid}
        ends = np.array([[each[0], each[len(each) // 2], each[-1], len(each)] for each in found.values()])
        ends = ends.reshape(-1, 4)
        records, least = ends[:, 3], np.array([_least(self.tables[name].tally[0]) for name in found])
        others = [
            records.sum() - np.append(records, 0),
            _least_of_others(ends[:, 0]),
            _least_of_others(ends[:, 1]),
            -_least_of_others(-ends[:, 2]),
            _least_of_others(np.where(records >= FEWEST, least, np.inf)),
        ]
        return dict(zip([*found, _NOT_TRAINED], map(Ends._make, np.stack(others, axis=1).tolist()), strict=True))

    def ends_of_others(self, silo: SiloName) -> "Ends":
        """Where the numbers of all other tables end, without test tables."""
        return self._ends_of_others.get(silo, self._ends_of_others[_NOT_TRAINED])


class Ends(NamedTuple):
    """Where numbers of some tables end: infinite where there are none."""

    records: float
    smallest: float
    middle: float
    """The smallest median of a table."""
    largest: float
    smallest_of_many: float
    """The smallest number of the tables with at least ``FEWEST`` of them, without negative codes."""


_NOT_TRAINED: Final = "\0"
"""Name for a table without training records."""


def _least(values: Floats) -> float:
    """The smallest of sorted numbers that is no negative code, nor a -1 next to one."""
    if -values[0] not in MISSING_CODES:
        return float(values[0])
    return next((float(value) for value in values if value != -1 and -value not in MISSING_CODES), np.inf)


def _least_of_others(values: Floats) -> Floats:
    """For each of the values the smallest of all others, and at last the smallest of all ``(n + 1,)``."""
    found = np.full(len(values) + 1, values.min(initial=np.inf))
    if len(values):
        found[values.argmin()] = np.delete(values, values.argmin()).min(initial=np.inf)
    return found


def columns_of_tables(public: pa.Table, silos: Mapping[SiloName, pa.Table]) -> Iterator[Inspected]:
    """The public table's columns one by one, so that memory is that of one column."""
    # A table looks a name up among all of its names.
    there = {silo: dict(zip(table.column_names, table.columns, strict=True)) for silo, table in silos.items()}
    for name, column in zip(public.column_names, public.columns, strict=True):
        own = {silo: Cells.of(table[name]) for silo, table in there.items() if name in table}
        yield Inspected(name, Cells.of(column), own)


def columns_of_arrays(public: Features, silos: Mapping[SiloName, Features], schema: Schema) -> Iterator[Inspected]:
    """The same for encoded tables ``(records, columns)``, without columns of text."""
    for at, column in enumerate(schema.columns):
        if not column.text:
            # A value that the public set lacks has the last number.
            words = () if column.categories is None else (*column.categories, "(unknown)")
            own = {silo: Cells.of_numbers(X[:, at].astype(np.float64), words) for silo, X in silos.items()}
            yield Inspected(column.name, Cells.of_numbers(public[:, at].astype(np.float64), words), own)
