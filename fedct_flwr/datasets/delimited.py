"""CSV files: text whose fields are separated by a sign, in any encoding, with either decimal sign.

pyarrow does the parsing. Here it is told how, and what it would read wrongly in silence is refused: another separator,
another encoding.
"""

import csv
import io
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.likely_encoding import likely_encoding
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import DataError

_SEPARATORS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "upright strokes"}
_SAMPLE: Final = 1_000_000
_LINES: Final = 50
_MARKS: Final = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_OTHERS: Final = {
    b"PK\x03\x04": "an Excel file or a zip archive: unpack it, or call it .xlsx",
    b"\x1f\x8b": "packed by gzip: call it .csv.gz",
    b"\xd0\xcf\x11\xe0": "an old Excel file (.xls): save it as .xlsx",
    b"PAR1": "a Parquet file: call it .parquet",
    b"%PDF": "a PDF: export the table as CSV",
    b"{\\rtf": "a text document: export the table as CSV",
    b"$FL2": "an SPSS file: export the table as CSV",
    b"[{": "JSON: export the table as CSV",
    b'{"': "JSON: export the table as CSV",
    b"<": "HTML or XML: export the table as CSV",
}
"""How files begin that are no CSV whatever they are called, and what to do about it."""
_BUFFER: Final = 1 << 20
_MOST_UNPACKED: Final = 1 << 28
_MOST_TIMES: Final = 64
"""Tables of text are packed to a tenth, and hardly ever to a hundredth."""
_MIN_BLOCK: Final = 1 << 20
_MAX_BLOCK: Final = 1 << 28
_ROWS_IN_BLOCK: Final = 1024
"""A record is never longer than a block, and each block costs time for each of its columns."""

# What the reader says about a row goes no further than this: the rest of its message quotes the row.
_SAFE: Final = re.compile(r"CSV parse error: (Row #\d+: )?Expected \d+ columns, got \d+")
_NUMBER_OR_NOTHING: Final = re.compile(r"([+-]?\d[\d.,]*([eE][+-]?\d+)?)?")
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')
_SAYS_SEPARATOR: Final = re.compile(r'"?sep=([^"])"?')
"""A line before the header that is meant for Excel, which does not show it."""
_END_OF_LINE: Final = re.compile(r"\r\n|\r|\n")
_LINE_ENDS: Final = re.compile(rb"[\r\n]")
_MANY_COLUMNS: Final = 200
"""From here on, finding out the type of each column takes longer than reading them all."""


MOST_COLUMNS: Final = 1 << 17
"""Columns of a table, each of which takes kilobytes of memory, even without a record."""
TOO_LARGE: Final = "unpacked, it is far larger than a table of its size would be"
"""Of any file, for the end of a sentence."""


class FormError(DataError):
    """A file is no table in the form that is told. The message quotes neither a record nor the header."""


class KindError(FormError):
    """No settings make a table of a file: it is of another kind, damaged, or no file at all."""


class Look(NamedTuple):
    """What the beginning of a file tells: its separator, the bytes of its longest line, lines before the header."""

    separator: str
    longest: int
    skipped: int = 0


def read_delimited(path: Path, text: Collection[str] | None, tables: TableSettings) -> pa.Table:
    """The table in a CSV file, perhaps packed by gzip; the columns named in ``text`` are text whatever they look like.

    None: all are, and no field is missing. Raises DataError, which quotes no record.
    """
    try:
        look = _look_into(path, tables)
        columns = names_in_delimited(path, tables) if text is None else text
        numbers = () if text is None else _fractions(path, tables, look)
        try:
            with _opened(path) as file:
                table = parse(file, columns, tables, look, numbers=numbers, to_the_letter=text is None)
        except pa.ArrowInvalid:
            if not numbers:
                raise
            # Text further down, perhaps: what the reader makes of such a column, it tells by itself.
            with _opened(path) as file:
                table = parse(file, columns, tables, look)
        # Names that are no UTF-8 are noticed when they are looked at.
        if any(pa.types.is_binary(column.type) for column in table.columns):
            raise _wrong_encoding(path, tables)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(error, path, tables) from None
    _check_last_quote(table, path)
    _check_swallowed(table, look.separator, path)
    return table


def names_in_delimited(path: Path, tables: TableSettings) -> list[str]:
    """The names in the header of a CSV file. Raises DataError as ``read_delimited``."""
    try:
        return next(_first_records(path, tables, _look_into(path, tables)), [])
    except (pa.ArrowException, OSError, ValueError, csv.Error) as error:
        raise _unreadable(error, path, tables) from None


def _first_records(path: Path, tables: TableSettings, look: Look) -> Iterator[list[str]]:
    """The fields of the header and of what follows in the first lines. Raises what reading and decoding raise."""
    encoding = "utf-8-sig" if _is_utf_8(tables.encoding) else tables.encoding
    with _opened(path) as file, io.TextIOWrapper(file, encoding=encoding, newline="") as text:
        lines = itertools.islice(text, look.skipped, _LINES)
        yield from csv.reader(lines, delimiter=look.separator)


def _fractions(path: Path, tables: TableSettings, look: Look) -> list[str]:
    """Columns of a wide table whose first cell is a number with decimals: the reader takes them for no other type.

    Unless there is text further down. Told so, it does not try one type after the other on each of thousands of
    columns. None where the beginning of the file is odd: then the reader finds out.
    """
    try:
        records = filter(None, _first_records(path, tables, look))
        header, first = next(records, []), next(records, [])
    except (pa.ArrowException, OSError, ValueError, csv.Error):
        return []
    if len(header) < _MANY_COLUMNS or len(first) != len(header):
        return []
    decimals = re.compile(rf"-?[0-9]+{re.escape(tables.decimal)}[0-9]+([eE][+-]?[0-9]+)?")
    return [name for name, cell in zip(header, first, strict=True) if decimals.fullmatch(cell)]


def _look_into(path: Path, tables: TableSettings) -> Look:
    """Look at the beginning of a file. Raises DataError where the settings are others than the file's."""
    with _opened(path) as file:
        sample = file.read(_SAMPLE)
        _check_kind(sample, path, tables)
        _check_encoding(sample, path, tables)
        _check_width(itertools.chain([sample], iter(lambda: file.read(_SAMPLE), b"")), path)
    longest = max(map(len, sample.split(b"\n", _LINES)[:_LINES]))
    lines = _first_lines(sample, tables.encoding)
    if lines and (said := _SAYS_SEPARATOR.fullmatch(lines[0])):
        return Look(said[1], longest, 1)
    return Look(_checked_separator(lines, path, tables), longest)


def _check_width(blocks: Iterable[bytes], path: Path) -> None:
    """Raise DataError for a header of more columns than any table has: each takes kilobytes, whatever is in it.

    Of the file's ``blocks`` those of its first line are read.
    """
    signs = [sign.encode() for sign in _SEPARATORS]
    found = dict.fromkeys(signs, 0)
    for block in blocks:
        line, *others = _LINE_ENDS.split(block, 1)
        found = {sign: count + line.count(sign) for sign, count in found.items()}
        if max(found.values()) >= MOST_COLUMNS:
            raise KindError(
                f"cannot read {path}: its first line has more than {MOST_COLUMNS:,} fields, so export the table "
                "anew with a line for each record"
            )
        if others:
            return


def _check_last_quote(table: pa.Table, path: Path) -> None:
    """Raise DataError for a quotation mark that nobody closes: all lines after it would be one field of one record."""
    for values in table.columns:
        if pa.types.is_string(values.type) and len(values) and "\n" in (values[-1].as_py() or ""):
            with _opened(path) as file:
                marks = sum(block.count(b'"') for block in iter(lambda: file.read(_SAMPLE), b""))
            if marks % 2:
                raise FormError(f"cannot read {path}: a quotation mark is never closed, somewhere near its end")


def _check_swallowed(table: pa.Table, separator: str, path: Path) -> None:
    """Raise DataError for a field with whole records in it, between two quotation marks that nobody has closed."""
    numeric = [pa.types.is_floating(kind) or pa.types.is_integer(kind) for kind in table.schema.types]
    for values in table.columns:
        if not pa.types.is_string(values.type) or not any(numeric):
            continue
        lines, signs = pc.count_substring(values, "\n"), pc.count_substring(values, separator)
        several = pc.and_(pc.greater(lines, 1), pc.greater_equal(signs, len(numeric) - 1))
        for row in pc.indices_nonzero(pc.fill_null(several, False)).to_pylist():
            # The first and the last are parts of lines.
            inner = [line.split(separator) for line in values[row].as_py().split("\n")[1:-1]]
            records = [list(itertools.compress(fields, numeric)) for fields in inner if len(fields) == len(numeric)]
            if any(map(_is_record, records)):
                raise FormError(
                    f"cannot read {path}: a field of record {row + 1:,} holds whole records, as "
                    "between two quotation marks that are never closed: take these marks out"
                )


def _is_record(numbers: list[str]) -> bool:
    """Whether what stands in the columns of numbers is some."""
    bare = [number.strip() for number in numbers]
    return any(bare) and all(map(_NUMBER_OR_NOTHING.fullmatch, bare))


def _unreadable(error: Exception, path: Path, tables: TableSettings) -> FormError:
    if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in str(error):
        return _wrong_encoding(path, tables)
    reason = safe_reason(error)
    if "columns, got" in reason:
        reason += _remedy_for_rows(path, tables)
    return FormError(f"cannot read {path}: {reason}")


def _remedy_for_rows(path: Path, tables: TableSettings) -> str:
    """Where the first row of another length is, and what to do about such rows. Quotes none."""
    # The number of each, and the fields of the header.
    found: list[tuple[int | None, int]] = []

    def remember(row: pyarrow.csv.InvalidRow) -> str:
        found.append((row.number, row.expected_columns))
        return "skip"

    read = 0
    with suppress(pa.ArrowException, OSError, ValueError), _opened(path) as file:
        read = parse(file, (), tables, _look_into(path, tables), wrong_row=remember).num_rows
    number, fields = found[0] if found else (None, 0)
    where = f" in line {number:,}" if number else ""
    if len(found) > read and fields > 1:
        # Not some of them, but most, and the first line is no title.
        return (
            f"{where}; no line may end with a separator, and a number with a decimal comma needs quotation marks, or "
            "another separator"
        )
    return (
        f"{where}; each line needs as many fields as the header, so take titles above it and notes below the table out"
    )


def parse(
    file: IO[bytes] | pa.NativeFile,
    text: Iterable[str],
    tables: TableSettings,
    look: Look,
    *,
    numbers: Iterable[str] = (),
    to_the_letter: bool = False,
    wrong_row: Callable[[pyarrow.csv.InvalidRow], str] | None = None,
) -> pa.Table:
    """The table in a stream of CSV, whose columns in ``numbers`` hold numbers with decimals.

    ``wrong_row`` is called with each row of another length than the header.

    Raises whatever pyarrow does.
    """
    convert = pyarrow.csv.ConvertOptions(
        strings_can_be_null=not to_the_letter,
        null_values=[*pyarrow.csv.ConvertOptions().null_values, *tables.missing],
        decimal_point=tables.decimal,
        column_types=dict.fromkeys(numbers, pa.float64()) | dict.fromkeys(text, pa.string()),
    )
    return pyarrow.csv.read_csv(
        file,
        read_options=pyarrow.csv.ReadOptions(
            encoding=tables.encoding,
            skip_rows=look.skipped,
            # One thread alone knows the numbers of rows.
            use_threads=wrong_row is None,
            block_size=min(max(_MIN_BLOCK, _ROWS_IN_BLOCK * look.longest), _MAX_BLOCK),
        ),
        # Free text has lines of its own.
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=look.separator, newlines_in_values=True, invalid_row_handler=wrong_row
        ),
        convert_options=convert,
    )


def safe_reason(error: Exception) -> str:
    """What is wrong with a CSV file by its reader's account, as far as that quotes no record."""
    if "Empty CSV file" in str(error):
        return "it holds no table, so export it anew"
    safe = _SAFE.search(str(error))
    return safe[0] if safe else "it is damaged or of another kind, so export the table anew as CSV UTF-8"


class _Unpacked(io.RawIOBase):
    """A packed file as it is read. Raises DataError where it grows beyond what tables do."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = pa.input_stream(path, compression="gzip")
        self._left = most_unpacked(path)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        block: bytes = self._file.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(block)
        if self._left < 0:
            raise KindError(f"cannot read {self._path}: {TOO_LARGE}")
        return block

    def readinto(self, buffer: Any, /) -> int:
        block = self.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._file.close()
        super().close()


def most_unpacked(path: Path) -> int:
    """Bytes that a packed file may unpack to: few bytes could otherwise fill all memory."""
    return max(_MOST_UNPACKED, _MOST_TIMES * path.stat().st_size)


def _opened(path: Path) -> pa.NativeFile | io.BufferedReader:
    return io.BufferedReader(_Unpacked(path), _BUFFER) if path.name.lower().endswith(".gz") else pa.input_stream(path)


def _check_kind(sample: bytes, path: Path, tables: TableSettings) -> None:
    """Raise DataError for a file of another kind, and for bytes that no text holds."""
    for mark, what in _OTHERS.items():
        if sample.lstrip().startswith(mark):
            raise KindError(f"cannot read {path}: it is {what}")
    wide = tables.encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32"))
    if b"\x00" in sample and not wide and not sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        # Of most letters, the one byte of UTF-16 is zero.
        first, second = sample[::2].count(0), sample[1::2].count(0)
        if max(first, second) <= len(sample) // 8:
            raise KindError(f"cannot read {path}: it holds bytes that are no text, so export it anew as CSV UTF-8")
        encoding = "utf-16-le" if second > first else "utf-16-be"
        raise FormError(
            f"cannot read {path}: it holds bytes that are no text; if it is UTF-16, write encoding = {encoding!r} in "
            f"{tables.place}, otherwise export it anew"
        )


def _check_encoding(sample: bytes, path: Path, tables: TableSettings) -> None:
    """Raise DataError for text that says it is in another encoding, or is UTF-8 where that is not what is told."""
    is_utf_8 = _is_utf_8(tables.encoding)
    for mark, encoding in _MARKS.items():
        # That mark alone makes Python's and pyarrow's utf-16 begin.
        told = tables.encoding.lower().replace("_", "-")
        if sample.startswith(mark) and not (is_utf_8 if encoding == "utf-8" else told.startswith("utf-16")):
            raise _wrong_encoding(path, tables, encoding)
    if not is_utf_8 and not sample.isascii() and not sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            # A letter may be cut in two at the end.
            sample[:-4].decode("utf-8") if len(sample) == _SAMPLE else sample.decode("utf-8")
        except UnicodeDecodeError:
            return
        if b"\x00" not in sample:
            raise _wrong_encoding(path, tables, "utf-8")


def _wrong_encoding(path: Path, tables: TableSettings, found: str = "") -> FormError:
    told = "UTF-8" if _is_utf_8(tables.encoding) else tables.encoding
    if found:
        remedy = f"write encoding = {found!r} in {tables.place}"
    elif told == "UTF-8":
        with _opened(path) as file:
            guess = likely_encoding(file.read(_SAMPLE))
        remedy = f"write encoding = {guess.encoding!r} in {tables.place}, for what {guess.written_by}, or save it"
        remedy += " as CSV UTF-8"
    else:
        remedy = f"correct encoding in {tables.place}"
    return FormError(f"the text of {path} is not in {told}: {remedy}")


def _is_utf_8(encoding: str) -> bool:
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig")


def _first_lines(sample: bytes, encoding: str) -> list[str]:
    """The first lines with their quoted fields emptied; the last one only if it is the only one, or complete."""
    text = _QUOTED.sub('""', sample.decode(encoding, errors="replace").removeprefix("\ufeff"))
    lines = _END_OF_LINE.split(text, _LINES)
    complete = lines if len(sample) < _SAMPLE else lines[:-1] or lines
    return [line for line in complete if line][:_LINES]


def _checked_separator(lines: list[str], path: Path, tables: TableSettings) -> str:
    """The separator that is told, or usual. Raises DataError where only another one splits all lines alike."""
    usual = "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ","
    separator = tables.separator or usual
    here, split = _fields(lines, separator), {sign: _fields(lines, sign) for sign in _SEPARATORS if sign != separator}
    if lines and separator not in lines[0]:
        # Not even the header is split; some line may hold a field too many.
        split |= {sign: 2 for sign in split if sign in lines[0] and not split[sign]}
        here = 0
    found = max(split, key=lambda sign: split[sign])
    if split[found] >= max(here, 2) and (not here or not tables.separator):
        # Where both split all lines alike, only somebody who knows the file can tell.
        either = f"{_SEPARATORS[separator]} or " if here else ""
        keys = f"separator = {_written(separator)} or " if here else ""
        raise FormError(
            f"the fields of {path} are separated by {either}{_SEPARATORS[found]}: write {keys}separator = "
            f"{_written(found)} in {tables.place}"
        )
    return separator


def _fields(lines: list[str], separator: str) -> int:
    """How many fields a line has, if all lines have as many; otherwise 0."""
    counts = {line.count(separator) for line in lines}
    return counts.pop() + 1 if len(counts) == 1 else 0


def _written(separator: str) -> str:
    return '"\\t"' if separator == "\t" else quoted(separator)
