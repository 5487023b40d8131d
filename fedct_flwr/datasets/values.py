"""Columns of tables, whatever holds them: numbers, text and names in one form each."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from fedct_flwr.text.printable import listed, normalized, quoted
from fedct_flwr.text.spelling import without_accents
from fedct_flwr.types import DataError

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
