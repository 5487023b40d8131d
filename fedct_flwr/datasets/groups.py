"""Groups of records that belong together, such as one patient's, from a column of a table.

They are kept on one side of every split: a model that has seen one record of a patient knows the patient, and its score
on the others is over-optimistic.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedct_flwr.datasets.inspection.cells import are_missing
from fedct_flwr.datasets.table_files import as_names, no_column
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import DataError, Groups

_PADDED: Final = r"^0+(\d+)$"
_UUID: Final = r"^\{?([\da-f]{8})-?([\da-f]{4})-?([\da-f]{4})-?([\da-f]{4})-?([\da-f]{12})\}?$"


def column_of_groups(table: pa.Table, name: str, where: object) -> pa.ChunkedArray:
    """The column ``name`` as text in small letters without blanks around it, null where a record has no group.

    Whole numbers are spelled alike however a table holds them: groups that differ in spelling alone would be on both
    sides of a split. Each record without a group counts as one of its own. Raises DataError, which quotes no record,
    for a column in which these, and words for a missing value, are the majority.
    """
    if name not in table.column_names:
        raise no_column(where, name, table.column_names, "group column")
    what = f"group column {quoted(name)} of {where}"
    text = pc.utf8_normalize(as_names(table.column(name), what), "NFKC")
    text = pc.replace_substring_regex(pc.utf8_lower(pc.utf8_trim_whitespace(text)), _UUID, r"\1-\2-\3-\4-\5")
    # Spreadsheets take zeros in front away.
    text = pc.replace_substring_regex(text, _PADDED, r"\1")
    text = pc.if_else(pc.equal(text, ""), None, text)
    # A word for no value stays one group, whose records are kept together.
    words = pc.unique(text).drop_null()
    unknown = pc.is_in(text, value_set=words.filter(pa.array(are_missing(words.to_pylist()))))
    if text.null_count + (pc.sum(unknown).as_py() or 0) > len(text) / 2:
        fix = "fill it in, or name another group column"
        raise DataError(f"{what} is empty in most records, so one patient's would be on both sides of a split: {fix}")
    return text


def numbered(columns: Sequence[pa.ChunkedArray]) -> list[Groups]:
    """Numbers for the groups of several tables, the same for the same text; below 0 that of a record without one."""
    sizes = [len(column) for column in columns]
    chunks = [chunk for column in columns for chunk in column.chunks]
    found = pa.chunked_array(chunks, pa.string()).combine_chunks().dictionary_encode().indices
    numbers = np.array(found.cast(pa.float64()))
    alone = np.isnan(numbers)
    numbers[alone] = -1 - np.arange(np.count_nonzero(alone))
    return np.split(numbers.astype(np.int64), np.cumsum(sizes)[:-1])
