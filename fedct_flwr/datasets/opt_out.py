"""Patients who have opted out: their records are left out wherever a silo's records are read.

Formal guarantee: errors and findings quote no id, and ``said_of_opt_out`` says no number but zero and rounded ones.
Under a promise, ``each_left`` decides for each record by that record and the list alone.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedct_flwr import datasets
from fedct_flwr.config.silo import DataSettings
from fedct_flwr.config.tables import PLAIN, TableSettings
from fedct_flwr.datasets.delimited import FormError
from fedct_flwr.datasets.federated import column_of_groups
from fedct_flwr.datasets.inspection import Finding, Redaction, Severity
from fedct_flwr.datasets.packed_tables import other_sheets
from fedct_flwr.datasets.table_files import column_names, read_table
from fedct_flwr.datasets.tables import LEFT_OUT, without_blanks
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import ConfigError, DataError

_OF_IMAGES: Final = "id"
"""Header of a list for images, whose ids stand in the names of files."""
_STRANGE: Final = b"opted-out-in-another-form"
"""In a table's metadata next to ``LEFT_OUT``: the list has ids in a form that no record's id has."""
_SEVERAL: Final = r"[,;\t\n]"
"""Signs between fields: several ids stand in one."""
_ROUND: Final = r"^\d+\.00+$"
"""One or a thousand."""
_THOUSANDS: Final = r"^\d{1,3}(\.\d{3})+$"
_LONG: Final = r"^\d{4,}$"
_SIGNS: Final = ("", ";", "\t")


def ids_opted_out(data: DataSettings) -> pa.Array:
    """The ids on the list that ``silo.toml`` names, each once, as ``column_of_groups`` spells them.

    Raises ConfigError without a column of ids among the records, and DataError for a list of another form.
    """
    path, name = data.opt_out, data.tables.group or (_OF_IMAGES if data.images.group_pattern else "")
    assert path is not None  # noqa: S101 - asked for only where there is a list
    if not name:
        raise ConfigError(
            "opt-out under [records] in silo.toml needs the patients' ids: name their column, group under "
            "[data.tables], or group-pattern under [data.images]"
        )
    cells = without_blanks(_column(path, name, data.tables)).drop_null()
    found = column_of_groups(pa.table({name: cells}), name, path) if len(cells) else pa.chunked_array([[]], pa.string())
    ids = pc.unique(found).drop_null()
    if _has(ids, _SEVERAL):
        raise _other_form(path, name)
    if _has(ids, _ROUND):
        raise _with_points(path)
    # A word for a missing value is no patient.
    return ids.filter(pc.invert(pa.array(datasets.are_missing(ids.to_pylist()), pa.bool_())))


def _column(path: Path, name: str, tables: TableSettings) -> pa.ChunkedArray:
    """The column of ids, whatever separates fields and however its name is written. Raises DataError."""
    if not path.is_file():
        raise FormError(f"there is no opt-out list {path.name}: put it there, or correct opt-out under [records]")
    if others := other_sheets(path, PLAIN):
        sheets = f"{len(others) + 1} sheets with contents, and only the first would be read"
        raise FormError(f"the opt-out list {path.name} has {sheets}: put all ids into one sheet")
    for encoding in dict.fromkeys((PLAIN.encoding, tables.encoding, "utf-16")):
        for sign in dict.fromkeys((tables.separator, *_SIGNS)):
            form = PLAIN.model_copy(update={"separator": sign, "encoding": encoding})
            try:
                names = column_names(path, form)
                alike = [each for each in names if each.strip().lower() == name.strip().lower()]
                if len(alike) == 1:
                    return read_table(path, names, form).column(alike[0])
            except (DataError, KeyError):
                continue
    raise _other_form(path, name)


def _other_form(path: Path, name: str) -> FormError:
    return FormError(
        f"the opt-out list {path.name} is no table with a column {quoted(name)}: write that name into its first line, "
        "and one id into each line below, as CSV UTF-8"
    )


def _with_points(path: Path) -> FormError:
    which = f"the opt-out list {path.name} or the records have ids as 1.000, thousands or decimals"
    return FormError(f"{which}: write both without the point")


def _has(ids: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(ids, pattern)).as_py())


def records_left(table: pa.Table, data: DataSettings, path: Path) -> pa.Table:
    """The records of those who have not opted out; ``said_of_opt_out`` tells of the others.

    Raises ConfigError or DataError, also for the silo's records where none has an id in a form that the list has.
    """
    ids = ids_opted_out(data)
    if data.tables.group not in table.column_names:
        # Reading the records' groups refuses it.
        return table
    own = column_of_groups(table, data.tables.group, path)
    out = pc.is_in(own, value_set=ids)
    number = pc.sum(out).as_py() or 0
    strange = path == data.source and _check_form(ids, own, data, found=number > 0)
    left = table.filter(pc.invert(out))
    if number and not left.num_rows and path == data.source:
        raise FormError("all patients of the file are on the opt-out list, so no record is left: the silo has no part")
    told = {LEFT_OUT: str(number).encode(), **({_STRANGE: b""} if strange else {})}
    return left.replace_schema_metadata({**(table.schema.metadata or {}), **told})


def each_left(table: pa.Table, ids: pa.Array, group: str) -> pa.Table:
    """The same for a table whose groups are spelled already, and without a word of it."""
    return table.filter(pc.invert(pc.is_in(table.column(group), value_set=ids)))


def images_left(names: Sequence[str], data: DataSettings, path: Path, *, each: bool = False) -> NDArray[np.intp]:
    """Positions of the images, of these groups, of those who have not opted out. Raises like ``records_left``.

    ``each``: decided for each image by itself.
    """
    ids = ids_opted_out(data)
    own = column_of_groups(pa.table({_OF_IMAGES: pa.array(names, pa.string())}), _OF_IMAGES, path)
    out = pc.is_in(own, value_set=ids)
    if not each and path == data.source:
        _check_form(ids, own, data, found=bool(pc.any(out).as_py()))
    return np.flatnonzero(~out.to_numpy())


def _check_form(ids: pa.Array, own: pa.ChunkedArray, data: DataSettings, *, found: bool) -> bool:
    """Whether the list has ids in a form that no record's id has.

    Raises DataError where all ids of the list are spelled in other forms than those of all records.
    """
    pointed, long = ([_has(each, form) for each in (ids, own)] for form in (_THOUSANDS, _LONG))
    # The same id may be 1000 on one side and 1.000 on the other.
    if pointed == [True, False] or (pointed[1] and long == [True, False]):
        raise _with_points(Path(data.opt_out or ""))
    listed, known = _forms(ids), _forms(own)
    if not found and listed and listed.isdisjoint(known):
        raise FormError(
            "no id of the opt-out list is among the records, which spell theirs in another form: "
            "correct the list, so that their records are left out"
        )
    return not listed <= known


def _forms(ids: pa.Array | pa.ChunkedArray) -> set[str]:
    """Ids with 9 for digits and a for letters: 'kh-007' as 'a-9'."""
    forms = pc.replace_substring_regex(pc.replace_substring_regex(ids, r"\p{Nd}+", "9"), r"\p{L}+", "a")
    return set(pc.unique(forms).drop_null().to_pylist())


def said_of_opt_out(table: pa.Table, silo: str, words: Redaction) -> list[Finding]:
    """How many records were left out, to tens, and whether ids are in another form; nothing without a list."""
    number = (table.schema.metadata or {}).get(LEFT_OUT)
    if number is None:
        return []
    what, fix = f"{words.number(int(number), 'record')} left out, of patients who have opted out", ""
    if not int(number):
        what, fix = "no id of the opt-out list is among the records", "nothing, if that is so; else correct the list"
    if _STRANGE in (table.schema.metadata or {}):
        what = f"{what}; the list also has ids in a form that no record's id has"
        fix = "write ids of the list as the records do, so that their records are left out"
    return [Finding("opted-out", Severity.SAID, what, fix, silo=silo)]
