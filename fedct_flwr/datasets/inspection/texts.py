"""Columns of text to be read: cells without any, and one text that many records share.

A record without a text teaches a model on texts nothing of its label, and a text that is the same in many records, such
as "see report", little more.
"""

from collections.abc import Collection, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_FEWEST: Final = 20
_EMPTY: Final = 0.1
_SHARED: Final = 0.2
_MANY: Final = 20
"""Different texts, at least, in a column whose records should not share one."""


def of_texts(table: pa.Table, columns: Collection[str], silo: SiloName, say: Words) -> Iterator[Finding]:
    """What is wrong with the columns of text of a silo's table, or with the public set's if ``silo`` is empty."""
    for column in columns:
        if column not in table.column_names or table.num_rows < _FEWEST:
            continue
        texts = pc.utf8_trim_whitespace(table.column(column).cast(pa.string()))
        empty = pc.fill_null(pc.equal(texts, ""), True)
        number = int(pc.sum(empty).as_py() or 0)
        if number > _EMPTY * table.num_rows:
            said = f"{say.column(column, silo)} has no text in {say.share(number, table.num_rows, 'record')}"
            fix = "look whether they got lost, or take these records out; nothing, if that is so"
            yield Finding("empty-texts", Severity.SAID, said, fix, column, silo)
        counts = pc.value_counts(texts.filter(pc.invert(empty)).combine_chunks())
        most = int(pc.max(counts.field("counts")).as_py() or 0)
        if len(counts) >= _MANY and most > _SHARED * table.num_rows:
            said = (
                f"{say.column(column, silo)} has one and the same text in {say.share(most, table.num_rows, 'record')}"
            )
            fix = "look whether it stands for a text that is missing; nothing, if that is so"
            yield Finding("repeated-text", Severity.SAID, said, fix, column, silo)
