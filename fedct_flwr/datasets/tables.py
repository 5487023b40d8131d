"""Columns of tables in one form each, and tables to numbers: the public set alone decides the columns' kinds."""

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from fedct_flwr import survival
from fedct_flwr.config.tables import PLAIN, TableSettings
from fedct_flwr.datasets.dates import WAS_DATES, dated
from fedct_flwr.datasets.schema import Column, Held, check_names
from fedct_flwr.text.printable import count, listed, normalized, quoted, suggest
from fedct_flwr.text.spelling import without_accents
from fedct_flwr.types import LABEL_DTYPE, DataError, Features, HardLabels, Values

_UNNAMED: Final = re.compile(r"\s*|Unnamed: \d+(_level_\d+)?|__index_level_\d+__|\.\.\.\d+")
"""Names that pandas, pyarrow and R's readr give to a column without one."""
_OPTIONAL: Final = " (a study may allow it, by may-be-missing under [columns] in study.toml)"


def columns_of(table: pa.Table, path: object, texts: Collection[str] = ()) -> tuple[Column, ...]:
    """Kind of each column of the public table: numeric, or categorical with the values found in it, sorted.

    Those named in ``texts`` hold text, which stays text. A column without any value counts as numeric. Raises DataError
    for dates, lists and the like, for names or values that hide something, and for a column of text that is not there.
    """
    if missing := next((name for name in texts if name not in table.column_names), None):
        raise DataError(f"{path} has no column of text {quoted(missing)}: {suggest(missing, table.column_names)}")
    columns = []
    for name, values, field in zip(table.column_names, table.columns, table.schema, strict=True):
        if _UNNAMED.fullmatch(name):
            fix = "as row numbers have that a program wrote: name it, or name it under leave-out"
            raise DataError(f"column {quoted(name)} of {path} has no name, {fix}")
        if name in texts:
            columns.append(Column(name, text=True))
        elif is_text(values.type):
            found = sorted(map(str, pc.unique(usual(values).drop_null()).to_pylist()))
            columns.append(Column(name, tuple(found), held=_category(field)))
        elif is_number(values.type):
            columns.append(Column(name, held=Held("days") if field.metadata == WAS_DATES else _held(values)))
        else:
            what = f"column {quoted(name)} of {path} holds {quoted(str(values.type))}"
            raise DataError(f"{what}: turn it into numbers or text")
    check_names(columns, path)
    return tuple(columns)


def held_alike(columns: Sequence[Column], tables: Sequence[pa.Table]) -> tuple[Column, ...]:
    """These columns, where whole numbers and truth values are held as such only if they are in all ``tables``."""
    there = [dict(zip(table.column_names, map(_held, table.columns), strict=True)) for table in tables]
    return tuple(
        replace(column, held=Held())
        if column.held.dtype in ("int64", "bool") and any(each.get(column.name) != column.held for each in there)
        else column
        for column in columns
    )


def _category(field: pa.Field) -> Held:
    """The category of a column of text. A file may hold any metadata: what is none is left aside."""
    try:
        names, values, ordered = json.loads((field.metadata or {})[CATEGORY])
        kinds = {*map(type, values)} <= {str, int, float, bool}
        if kinds and len(names) == len(values) == len(set(names)) == len(set(values)):
            return Held("category", tuple(names), tuple(values), bool(ordered))
    except (KeyError, TypeError, ValueError, RecursionError):
        pass
    return Held()


def _held(values: pa.ChunkedArray) -> Held:
    if values.null_count:
        return Held()
    return Held("bool" if pa.types.is_boolean(values.type) else "int64" if pa.types.is_integer(values.type) else "")


def text_columns(table: pa.Table) -> list[str]:
    """Names of the columns that hold text."""
    return [name for name, column in zip(table.column_names, table.columns, strict=True) if is_text(column.type)]


def encode(table: pa.Table, columns: Sequence[Column], path: object) -> Features:
    """The table as float64 ``(rows, columns)`` in the order of ``columns``, see ``schema.Column``.

    With columns of text it is an array of objects: strings in these, floats in all others. Raises DataError that
    lists every column which is missing or of another kind than in the public set.
    """
    _check_fit(table, columns, path)
    # A table looks a name up among all of its names.
    there = dict(zip(table.column_names, table.columns, strict=True))
    X = np.full((table.num_rows, len(columns)), np.nan)
    for position, column in enumerate(columns):
        if not column.text:
            _fill(X[:, position], there[column.name], column, path)
    infinite = [column.name for position, column in enumerate(columns) if np.isinf(X[:, position]).any()]
    if infinite:
        raise DataError(f"{path} has infinite values in {listed(infinite)}: leave the field empty where none is known")
    if not any(column.text for column in columns):
        return X
    objects: Features = X.astype(np.object_)
    for position, column in enumerate(columns):
        if column.text:
            objects[:, position] = _texts(there[column.name], column.name, path)
    return objects


def _check_fit(table: pa.Table, columns: Sequence[Column], path: object) -> None:
    there, wanted = dict(zip(table.column_names, table.columns, strict=True)), {column.name for column in columns}
    missing = [column.name for column in columns if column.name not in there]
    if len(missing) == len(columns):
        alike = _alike(missing, table.column_names)
        raise DataError(f"{path} shares no column with the public set: it needs {listed(missing)}{alike}")
    extra = [name for name in table.column_names if name not in wanted]
    kinds = [
        f"{quoted(column.name)} must hold {'numbers' if column.categories is None else 'text'}"
        for column in columns
        if column.name in there and not _fits(there[column.name], column)
    ]
    problems = [
        *([f"missing {listed(missing)}{_alike(missing, extra) or _OPTIONAL}"] if missing else []),
        *([f"unknown {listed(extra)}"] if extra else []),
        *kinds,
    ]
    if problems:
        raise DataError(f"the columns of {path} disagree with the public set: {'; '.join(problems)}")


def _alike(missing: Sequence[str], extra: Sequence[str]) -> str:
    """Which of the columns may be one that is missing, in another spelling."""
    spelled = {without_accents(name): name for name in extra}
    pair = next(((name, spelled[key]) for name in missing if (key := without_accents(name)) in spelled), None)
    return f" (rename {quoted(pair[1])} to {quoted(pair[0])})" if pair else ""


def numbers(table: pa.Table, name: str, path: object, form: TableSettings = PLAIN) -> Values:
    """The column that is to be predicted as float64 ``(rows,)``, finite. Raises DataError, which quotes no record.

    ``form`` is what the table was read by, for the error of missing numbers.
    """
    values = table.column(name)
    if not is_number(values.type):
        raise DataError(
            f"column {quoted(name)} of {path} holds {quoted(str(values.type))}, and must hold numbers: rewrite it"
        )
    found = np.empty(len(values), dtype=np.float64)
    _fill(found, values, Column(name), path)
    if missing := int((~np.isfinite(found)).sum()):
        raise DataError(
            f"{path} has {count(missing, 'record')} without a finite {name!r}: fill them in or take them out"
            f"{form.empties_labels}"
        )
    return found


def with_signed_times(table: pa.Table, time: str, event: str, path: object, form: TableSettings = PLAIN) -> pa.Table:
    """The table with signed times (``survival.Times``) instead of times and events. Raises DataError as ``numbers``."""
    if event not in table.column_names:
        raise no_column(path, event, table.column_names, "event column")
    if time in dated(table):
        raise DataError(f"{quoted(time)} of {path} holds dates: subtract the date on which each record's time begins")
    place, held = table.column_names.index(event), table.column(event).type
    if not is_number(held):
        raise DataError(f"{quoted(event)} of {path} holds {quoted(str(held))}: {survival.EVENTS}")
    if pa.types.is_boolean(held):
        table = table.set_column(place, event, table.column(event).cast(pa.int8()))
    columns = [numbers(table, name, path, form).astype(np.float64) for name in (time, event)]
    signed = survival.follow_up(columns[0], columns[1], (time, event), path).signed
    return table.set_column(table.column_names.index(time), time, pa.array(signed)).drop_columns([event])


def _texts(values: pa.ChunkedArray, name: str, path: object) -> list[str]:
    try:
        return [text or "" for text in values.cast(pa.string()).to_pylist()]
    except pa.ArrowException:
        raise DataError(f"column {quoted(name)} of {path} holds {quoted(str(values.type))}: make it text") from None


def _fill(target: Values, values: pa.ChunkedArray, column: Column, path: object) -> None:
    """Write the numbers of a column, piece by piece, as memory may not hold a second copy. Raises DataError."""
    if values.null_count == len(values):
        target[:] = np.nan
        return
    known = pa.array(column.categories or (), pa.string())
    start = 0
    for piece in values.chunks:
        if column.categories is not None and is_text(piece.type):
            positions = pc.index_in(piece.cast(pa.string()), value_set=known)
            unknown = pc.and_(pc.is_null(positions), pc.is_valid(piece))
            piece = pc.if_else(unknown, len(known), positions)
        try:
            target[start : start + len(piece)] = piece.cast(pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            where = f"column {quoted(column.name)} of {path}"
            raise DataError(f"{where} holds whole numbers too long for a float: shorten them") from None
        start += len(piece)


def _fits(values: pa.ChunkedArray, column: Column) -> bool:
    # A column without any value fits both kinds: readers cannot know what it would have held. All can be text.
    if column.text or values.null_count == len(values):
        return True
    return is_number(values.type) if column.categories is None else is_text(values.type)


_WHOLE: Final = re.compile(r"([+-]?)(0|[1-9][0-9]*)(?:\.0*)?")


def class_names(labels: pa.ChunkedArray, label: str, path: object, form: TableSettings = PLAIN) -> list[str]:
    """The class of each record; numbers and truth values are named alike however a file writes them.

    Raises DataError, which quotes no record, for missing labels, a column of another kind, or numbers that are no
    labels: whole ones too large for a float to tell apart, and infinite ones.
    """
    kind = labels.type
    if pa.types.is_nested(kind) or pa.types.is_temporal(kind) or pa.types.is_binary(kind):
        raise DataError(f"column {label!r} of {path} holds {quoted(str(kind))}: labels must be numbers or text")
    labels = usual(labels)
    # Each spelling is looked at once: a million records have a handful.
    spellings = pc.unique(labels)
    values = [None if value != value else value for value in spellings.to_pylist()]
    if any(isinstance(value, float) and abs(value) > LARGEST for value in values):
        raise DataError(
            f"column {label!r} of {path} holds numbers too large to tell apart: check that the label column is the "
            "right one, or write the labels as text"
        )
    # No class is called by blanks alone.
    names = np.array([None if value is None else class_name(_text(value)) or None for value in values], dtype=object)
    places = pc.index_in(labels, value_set=spellings)
    found = [name for piece in places.chunks for name in names[piece.to_numpy()].tolist()]
    if missing := found.count(None):
        raise DataError(
            f"{path} has {count(missing, 'record')} without a label: fill them in or take them out{form.empties_labels}"
        )
    return found


def class_name(text: str) -> str:
    """One name for all spellings: accents, blanks around it, ``1`` and ``1.0``, ``True`` and ``true``.

    Only spellings of one plain whole number are equal. Everything else that looks like a number to a program is text:
    ``1E50``, ``1_0``, ``0x10``, ``nan``, digits of another script. So is a code with zeros in front, such as ``01``.
    """
    text = normalized("NFC", text).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    if whole := _WHOLE.fullmatch(text):
        sign, digits = whole.groups()
        return f"-{digits}" if sign == "-" and digits != "0" else digits
    return text


def _text(value: object) -> str:
    """A label as a CSV file would have it."""
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def all_classes(names: set[str]) -> tuple[str, ...]:
    """All labels found, numbers by value, text by alphabet."""
    if all(NUMBER.fullmatch(name) for name in names):
        return tuple(sorted(names, key=lambda name: (Decimal(name), name)))
    return tuple(sorted(names))


def encode_labels(names: Sequence[str], classes: Sequence[str]) -> HardLabels:
    """The index in ``classes`` of each name, ``(n,)``. Each name must be one of them."""
    code = {name: number for number, name in enumerate(classes)}
    return np.array([code[name] for name in names], dtype=LABEL_DTYPE)


def map_labels(
    names: Sequence[str], mapping: Mapping[str, str] | None, classes: Sequence[str], path: object
) -> HardLabels:
    """The study's class of each name ``(n,)``, by the silo's ``mapping`` unless it is empty; None: there is no silo.

    Raises DataError, which quotes no label of the file, if one is unknown, the mapping leads to no class, or two
    spellings of the same label lead to different ones.
    """
    if wrong := sorted(set((mapping or {}).values()) - set(classes)):
        raise DataError(f"mapping leads to {listed(wrong)}, which is no class of the study: it has {listed(classes)}")
    into = _by_class_name(mapping or {}, "mapping") or _by_class_name({name: name for name in classes}, "the study")
    if unknown := sum(name not in into for name in names):
        what = "in mapping" if mapping else f"a class of the study ({listed(classes)})"
        own = "say under [data.mapping] which class each label means"
        advice = ", and " + ("write its classes as the study does" if mapping is None else own)
        raise DataError(
            f"{path} has {count(unknown, 'record')} whose label is not {what}: check that the label column is the "
            f"right one{advice}"
        )
    return encode_labels([into[name] for name in names], classes)


def _by_class_name(mapping: Mapping[str, str], where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for spelling, meant in mapping.items():
        if found.setdefault(class_name(spelling), meant) != meant:
            raise DataError(f"{where} has {class_name(spelling)!r} in two spellings with different classes: keep one")
    return found


NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
"""A number as a file may have it in a cell."""
EMPTY: Final = tuple(pyarrow.csv.ConvertOptions().null_values)
"""Cells of CSV and Excel files that are always missing: nothing, and words such as NA and null."""
NO_HEADER: Final = "the first line of {} holds {}: write the columns' names there, and take titles above it out"
LEFT_OUT: Final = b"opted-out"
"""In a table's metadata: how many records of its source are left out, as patients have opted out."""
LARGEST: Final = 2.0**53
"""Floats from here on each stand for several whole numbers."""
_ROUNDED: Final = r"^\s*[+-]?[0-9]+([.,][0-9]+)?[eE]\+[0-9]+\s*$"
"""As spreadsheets write long numbers."""
_WITH_ZEROS: Final = r"^([+-]?[0-9]+)[.,]0*$"
_AS_FLOAT: Final = r"^([+-]?[0-9]+)[.,]0?$"
"""As programs write a whole number that was a float; 1.000 may be a thousand."""


def repeated_names(names: list[str]) -> list[str]:
    """Names that occur more than once."""
    return sorted(name for name, times in Counter(names).items() if times > 1)


def without_blanks(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column, where text of blanks alone is a missing value, and letters have their accents in one form (NFC)."""
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return values
    if not pc.all(pc.string_is_ascii(values)).as_py():
        # Each spelling once; Arrow's own function takes minutes for a flood of marks.
        spellings = pc.unique(values)
        words = [text if text is None else normalized("NFC", text) for text in spellings.to_pylist()]
        places = pc.index_in(values, value_set=spellings)
        composed = pa.array(words, values.type)
        values = pa.chunked_array([composed.take(piece) for piece in places.chunks], values.type)
    blank = pc.equal(pc.utf8_trim_whitespace(values), "")
    return pc.if_else(blank, pa.scalar(None, values.type), values) if pc.any(blank).as_py() else values


def usual(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column in the type that pyarrow can compute with, of those that hold the same: dictionaries, halves, views.

    Numbers that a table has as categories are names: text, see ``as_names``.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        # pyarrow has no way from a dictionary of views, which polars makes, to its values.
        held = pa.string() if pa.types.is_string_view(kind.value_type) else kind.value_type
        found = usual(values.cast(pa.dictionary(kind.index_type, held)).cast(held))
        return as_names(found, "a column of categories") if is_number(found.type) else found
    if pa.types.is_float16(kind):
        return values.cast(pa.float32())
    return values.cast(pa.string()) if pa.types.is_string_view(kind) else values


CATEGORY: Final = b"fedct category"
"""In a field's metadata: the names of a category, its values in their order, and whether they are ordered."""


def as_category(name: str, values: pa.ChunkedArray, given: pa.Array, *, ordered: bool = False) -> pa.Field:
    """The field of a column ``values`` of text, which a table held as a category of the values ``given``."""
    held = given.to_pylist()
    if not all(isinstance(value, str | int | float) for value in held):
        return pa.field(name, values.type)
    codes = pa.array(np.arange(len(given), dtype=np.int32))
    names = usual(pa.chunked_array([pa.DictionaryArray.from_arrays(codes, given)]))
    told = json.dumps([without_blanks(names).to_pylist(), held, ordered])
    return pa.field(name, values.type, metadata={CATEGORY: told})


def as_names(values: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """Patients' numbers, codes and other names as text of one form, whatever type holds them; none is rounded.

    Raises DataError for numbers that a float has rounded somewhere, and for a type that holds no names.
    """
    values, kind = usual(values), values.type
    if isinstance(kind, pa.BaseExtensionType):
        values = pa.chunked_array([piece.storage for piece in values.chunks], kind.storage_type)
    try:
        if re.match("(large_|fixed_size_)?binary", str(values.type)):
            raw = values.to_pylist()
            return pa.chunked_array([[None if each is None else str(UUID(bytes=each)) for each in raw]], pa.string())
        if pa.types.is_floating(values.type):
            values = pc.if_else(pc.is_nan(values), None, values)
            # The largest number up to which all whole ones are there.
            held = kind if pa.types.is_floating(kind) else values.type
            rounded = pc.greater_equal(pc.abs(values), 2 / float(np.finfo(held.to_pandas_dtype()).eps))
            whole = pc.cast(values, pa.int64(), safe=False).cast(pa.string())
            text = pc.if_else(pc.equal(pc.floor(values), values), whole, values.cast(pa.string()))
        else:
            text = values.cast(pa.string())
            rounded = pc.match_substring_regex(text, _ROUNDED)
    except (pa.ArrowException, ValueError):
        raise DataError(f"{where} holds {quoted(str(kind))}: it must hold numbers or text") from None
    if pc.any(rounded).as_py():
        raise DataError(f"{where} holds numbers that were rounded as they are too long: write them as text")
    # A column of whole numbers with gaps went through floats somewhere.
    return pc.replace_substring_regex(text, _WITH_ZEROS if is_number(values.type) else _AS_FLOAT, r"\1")


def unrounded(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimals, or such numbers as text, as float64; as text where a patient's number has more digits than a float."""
    floats = numbers.cast(pa.float64())
    if pc.any(pc.greater_equal(pc.abs(floats), LARGEST)).as_py():
        return pc.replace_substring_regex(numbers.cast(pa.string()), _WITH_ZEROS, r"\1")
    return floats


def is_number(kind: pa.DataType) -> bool:
    """Whether a column is numeric by its type; truth values and columns without any value are."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column is text by its type."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_dictionary)
    return any(test(kind) for test in tests)


def no_column(where: object, name: str, names: Sequence[str], what: str = "column") -> DataError:
    """The error that a table lacks a column which it needs, with what may be the reason. ``names`` are those it has."""
    lacking = f"{where} has no {what} {quoted(name)}"
    if not any(other.strip() for other in names):
        return DataError(NO_HEADER.format(where, "nothing"))
    if alike := [other for other in names if without_accents(other) == without_accents(name)]:
        return DataError(f"{lacking}, but {quoted(alike[0])}: give it the same name in all tables, to the letter")
    if len(names) == 1 and name in names[0]:
        remedy = "check the separator, and take quotation marks around whole lines out"
        return DataError(f"{lacking}, but one column whose name holds {quoted(name)}: {remedy}")
    if sum(bool(NUMBER.fullmatch(other.strip())) for other in names) > len(names) / 3:
        return DataError(f"{lacking}: {NO_HEADER.format(where, 'numbers')}")
    return DataError(f"{lacking}: it has {listed(names)}")
