"""CSV files: text whose fields are separated by a sign, in any encoding, with either decimal sign.

pyarrow does the parsing. Files that it would silently misread are refused here: another separator,
another encoding.
"""

import csv
import io
import itertools
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import IO, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from fedct_flwr.config.tables import EVERY, TableSettings
from fedct_flwr.datasets.tables import EMPTY
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import DataError

_SEPARATORS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "upright strokes"}
_SAMPLE: Final = 1_000_000
_LONGEST_HEADER: Final = 1 << 24
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
_MOST_UNPACKED: Final = 1 << 28
_MOST_TIMES: Final = 64
"""Tables of text are packed to a tenth, and hardly ever to a hundredth."""
_MIN_BLOCK: Final = 1 << 20
_MAX_BLOCK: Final = 1 << 28
_LONGEST_LINE: Final = _MIN_BLOCK >> 2
"""Letters, of four bytes at most."""
_ROWS_IN_BLOCK: Final = 1024
"""A record is never longer than a block, and each block costs time for each of its columns."""

# Only this part of the reader's message is shown: the rest quotes the row.
_SAFE: Final = re.compile(r"CSV parse error: (Row #\d+: )?Expected \d+ columns, got \d+")
_NUMBER_OR_NOTHING: Final = re.compile(r"([+-]?\d[\d.,]*([eE][+-]?\d+)?)?")
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')
_END_OF_LINE: Final = re.compile(r"\r\n|\r|\n")
_LINE_ENDS: Final = re.compile(rb"[\r\n]")
MOST_COLUMNS: Final = 1 << 17
"""Columns of a table, each of which takes kilobytes of memory, even without a record."""
TOO_LARGE: Final = "unpacked, it is far larger than a table of its size would be"
"""Advice for any file, for the end of a sentence."""


class FormError(DataError):
    """A file is not a table in the form that the settings name. The message quotes neither a record nor the header."""


class KindError(FormError):
    """No settings make a table of a file: it is of another kind, damaged, or no file at all."""


class Look(NamedTuple):
    """Separator and bytes of the longest line, by the beginning of a file."""

    separator: str
    longest: int


def read_delimited(path: Path, text: Collection[str] | None, tables: TableSettings) -> pa.Table:
    """The table in a CSV file, perhaps packed by gzip; the columns named in ``text`` are text whatever they look like.

    None: all are, and no field is missing. Raises DataError, which quotes no record.
    """
    try:
        look = _look_into(path, tables)
        columns = names_in_delimited(path, tables) if text is None else text
        try:
            with _opened(path) as file:
                table = parse(file, columns, tables, look, to_the_letter=text is None)
        except pa.ArrowInvalid:
            # One thread alone knows the numbers of rows.
            with _opened(path) as file:
                table = parse(file, columns, tables, look, to_the_letter=text is None, threads=False)
        # Names that are no UTF-8 are noticed when they are looked at.
        if any(pa.types.is_binary(column.type) for column in table.columns):
            raise _wrong_encoding(path, tables)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(error, path, tables) from None
    _check_swallowed(table, look.separator, path)
    return table


def read_lines(path: Path, tables: TableSettings) -> pa.Table:
    """The table in a CSV file as text, of those lines that each are a record.

    Formal guarantee: whether a line is one, and of which fields, depends on that line, the header and the settings
    alone, so no field goes over several lines. Raises DataError for a header that is not read.
    """
    try:
        with _opened(path) as file, io.TextIOWrapper(file, _encoding(tables), errors="replace", newline="") as text:
            # Names may go over several lines.
            begin = text.readline()
            separator = _checked_separator([_QUOTED.sub('""', begin)], path, tables)
            names = next(csv.reader(itertools.chain([begin], text), delimiter=separator), [])
            lines = [line.rstrip("\r\n") for line in text if _is_alone(line, separator)]
        csv.writer(header := io.StringIO(), delimiter=separator).writerow(names)
        content = "\n".join([header.getvalue().rstrip("\r\n"), *lines, ""])
        form, look = tables.model_copy(update={"encoding": "utf-8"}), Look(separator, _LONGEST_LINE)
        return parse(io.BytesIO(content.encode()), names, form, look, skip=True)
    except (pa.ArrowException, OSError, ValueError, csv.Error) as error:
        raise _unreadable(error, path, tables) from None


def _is_alone(line: str, separator: str) -> bool:
    """Whether a line is text, with all of its quotation marks closed, and no longer than any record."""
    if len(line) > _LONGEST_LINE or "\0" in line or "\ufffd" in line:
        return False
    try:
        return '"' not in line or len(list(csv.reader([line], delimiter=separator, strict=True))) == 1
    except csv.Error:
        return False


def names_in_delimited(path: Path, tables: TableSettings) -> list[str]:
    """The names in the header of a CSV file. Raises DataError like ``read_delimited``."""
    try:
        look = _look_into(path, tables)
        with _opened(path) as file, io.TextIOWrapper(file, encoding=_encoding(tables), newline="") as text:
            return next(csv.reader(itertools.islice(text, _LINES), delimiter=look.separator), [])
    except (pa.ArrowException, OSError, ValueError, csv.Error) as error:
        raise _unreadable(error, path, tables) from None


def _look_into(path: Path, tables: TableSettings) -> Look:
    """Look at the beginning of a file. Raises DataError where the settings are others than the file's."""
    with _opened(path) as file:
        begin = file.read(_LONGEST_HEADER)
    sample = begin[:_SAMPLE]
    _check_kind(sample, path, tables)
    _check_encoding(sample, path, tables)
    _check_width(_LINE_ENDS.split(begin, 1)[0], path)
    longest = max(map(len, sample.split(b"\n", _LINES)[:_LINES]))
    return Look(_checked_separator(_first_lines(sample, tables.encoding), path, tables), longest)


def _check_width(header: bytes, path: Path) -> None:
    """Raise DataError for a header of more columns than any table has: each takes kilobytes, whatever is in it."""
    if max(header.count(sign.encode()) for sign in _SEPARATORS) >= MOST_COLUMNS:
        raise KindError(
            f"cannot read {path}: its first line has more than {MOST_COLUMNS:,} fields, so export the table "
            "again with a line for each record"
        )


def _check_swallowed(table: pa.Table, separator: str, path: Path) -> None:
    """Raise DataError for a field with whole records in it, after a quotation mark that is not closed."""
    numeric = [pa.types.is_floating(kind) or pa.types.is_integer(kind) for kind in table.schema.types]
    for values in table.columns:
        if not pa.types.is_string(values.type) or not any(numeric):
            continue
        lines, signs = pc.count_substring(values, "\n"), pc.count_substring(values, separator)
        several = pc.and_(pc.greater(lines, 0), pc.greater_equal(signs, len(numeric) - 1))
        for row in pc.indices_nonzero(pc.fill_null(several, False)).to_pylist():
            # The first is a part of a line.
            inner = [line.split(separator) for line in values[row].as_py().split("\n")[1:]]
            records = [list(itertools.compress(fields, numeric)) for fields in inner if len(fields) == len(numeric)]
            if any(map(_is_record, records)):
                raise FormError(
                    f"cannot read {path}: a field of record {row + 1:,} holds whole records, after a quotation mark "
                    "that is never closed: take such marks out"
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
        reason += (
            "; each line needs as many fields as the header, so take titles above it and notes below the table out, "
            "and separators at the end of lines; a number with a decimal comma needs quotation marks"
        )
    return FormError(f"cannot read {path}: {reason}")


def parse(
    file: IO[bytes] | pa.NativeFile,
    text: Iterable[str],
    tables: TableSettings,
    look: Look,
    *,
    to_the_letter: bool = False,
    threads: bool = True,
    skip: bool = False,
) -> pa.Table:
    """The table in a stream of CSV, from which it can be read again. Raises whatever pyarrow does."""
    begin, types = file.tell(), dict.fromkeys(text, pa.string())

    def read(missing: Collection[str], only: Collection[str] = ()) -> pa.Table:
        file.seek(begin)
        return pyarrow.csv.read_csv(
            file,
            read_options=pyarrow.csv.ReadOptions(
                encoding=tables.encoding,
                use_threads=threads,
                block_size=min(max(_MIN_BLOCK, _ROWS_IN_BLOCK * look.longest), _MAX_BLOCK),
            ),
            # Free text has lines of its own.
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=look.separator,
                newlines_in_values=True,
                invalid_row_handler=(lambda row: "skip") if skip else None,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                strings_can_be_null=not to_the_letter,
                null_values=[*EMPTY, *missing],
                decimal_point=tables.decimal,
                column_types=types,
                include_columns=[*only],
            ),
        )

    table = read(tables.missing_in(EVERY))
    # A word makes text of a column of numbers, and pyarrow takes the same words for all columns.
    again: dict[tuple[str, ...], list[str]] = {}
    for name in tables.named.get("missing", ()):
        if name not in types and table.column_names.count(name) == 1 and pa.types.is_string(table[name].type):
            again.setdefault(tables.missing_in(name), []).append(name)
    for missing, names in again.items():
        for name, values in zip(names, read(missing, names).columns, strict=True):
            table = table.set_column(table.column_names.index(name), name, values)
    return table


def safe_reason(error: Exception) -> str:
    """The reader's reason for refusing a CSV file, without the record that it quotes."""
    if "Empty CSV file" in str(error):
        return "it holds no table, so export it again"
    safe = _SAFE.search(str(error))
    return safe[0] if safe else "it is damaged or of another kind, so export the table again as CSV UTF-8"


def most_unpacked(path: Path) -> int:
    """Bytes that a packed file may unpack to: few bytes could otherwise fill all memory."""
    return max(_MOST_UNPACKED, _MOST_TIMES * path.stat().st_size)


def _opened(path: Path) -> pa.NativeFile | io.BytesIO:
    """A file to read. Raises DataError for a packed one that grows beyond what tables do."""
    if not path.name.lower().endswith(".gz"):
        return pa.input_stream(path)
    most = most_unpacked(path)
    with pa.input_stream(path, compression="gzip") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise KindError(f"cannot read {path}: {TOO_LARGE}")
    return io.BytesIO(content)


def _check_kind(sample: bytes, path: Path, tables: TableSettings) -> None:
    """Raise DataError for a file of another kind, and for bytes that no text holds."""
    for mark, what in _OTHERS.items():
        if sample.lstrip().startswith(mark):
            raise KindError(f"cannot read {path}: it is {what}")
    wide = tables.encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32"))
    if b"\x00" in sample and not wide and not sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise KindError(f"cannot read {path}: it holds bytes that are not text, so export it again as CSV UTF-8")


def _check_encoding(sample: bytes, path: Path, tables: TableSettings) -> None:
    """Raise DataError for text that names another encoding, or is UTF-8 against the settings."""
    is_utf_8 = _is_utf_8(tables.encoding)
    for mark, encoding in _MARKS.items():
        # That mark alone makes Python's and pyarrow's utf-16 begin.
        stated = tables.encoding.lower().replace("_", "-")
        if sample.startswith(mark) and not (is_utf_8 if encoding == "utf-8" else stated.startswith("utf-16")):
            raise _wrong_encoding(path, tables, encoding)
    if not is_utf_8 and not sample.isascii() and not sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        # A letter may be cut in two at the end.
        is_text = sample[:-4] if len(sample) == _SAMPLE else sample
        if b"\x00" not in sample and "\ufffd" not in is_text.decode("utf-8", errors="replace"):
            raise _wrong_encoding(path, tables, "utf-8")


def _wrong_encoding(path: Path, tables: TableSettings, found: str = "") -> FormError:
    stated = "UTF-8" if _is_utf_8(tables.encoding) else tables.encoding
    place = tables.place_of("encoding")
    remedy = f"write encoding = {found!r} in {place}" if found else f"correct encoding in {place}"
    if not found and stated == "UTF-8":
        remedy = f"write encoding = 'cp1252' in {place} for a file of Windows ('cp850' of DOS, 'mac_roman' of "
        remedy += "an old Mac), or save it as CSV UTF-8"
    return FormError(f"the text of {path} is not in {stated}: {remedy}")


def _encoding(tables: TableSettings) -> str:
    """Encoding for Python, which would take the mark at the beginning for a letter."""
    return "utf-8-sig" if _is_utf_8(tables.encoding) else tables.encoding


def _is_utf_8(encoding: str) -> bool:
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig")


def _first_lines(sample: bytes, encoding: str) -> list[str]:
    """The first lines with their quoted fields emptied; the last one only if it is the only one, or complete."""
    text = _QUOTED.sub('""', sample.decode(encoding, errors="replace").removeprefix("\ufeff"))
    lines = _END_OF_LINE.split(text, _LINES)
    complete = lines if len(sample) < _SAMPLE else lines[:-1] or lines
    return [line for line in complete if line][:_LINES]


def _checked_separator(lines: list[str], path: Path, tables: TableSettings) -> str:
    """The separator of the settings, or the usual one. Raises DataError where only another splits all lines alike."""
    usual = "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ","
    separator = tables.separator or usual
    here, split = _fields(lines, separator), {sign: _fields(lines, sign) for sign in _SEPARATORS if sign != separator}
    if lines and separator not in lines[0]:
        # Not even the header is split; some line may hold a field too many.
        split |= {sign: 2 for sign in split if sign in lines[0] and not split[sign]}
        here = 0
    found = max(split, key=lambda sign: split[sign])
    if split[found] >= max(here, 2) and (not here or not tables.separator):
        # Where both split all lines alike, only a person who knows the file can tell.
        either = f"{_SEPARATORS[separator]} or " if here else ""
        keys = f"separator = {_written(separator)} or " if here else ""
        raise FormError(
            f"the fields of {path} are separated by {either}{_SEPARATORS[found]}: write {keys}separator = "
            f"{_written(found)} in {tables.place_of('separator')}"
        )
    return separator


def _fields(lines: list[str], separator: str) -> int:
    """How many fields a line has, if all lines have as many; otherwise 0."""
    counts = {line.count(separator) for line in lines}
    return counts.pop() + 1 if len(counts) == 1 else 0


def _written(separator: str) -> str:
    return '"\\t"' if separator == "\t" else quoted(separator)
