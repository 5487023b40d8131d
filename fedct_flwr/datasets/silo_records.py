"""A silo's records, from its file, folder of images or query to examples as the study numbers columns and classes."""

import json
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedct_flwr import datasets
from fedct_flwr.datasets.dates import dated
from fedct_flwr.datasets.federated import column_of_groups, numbered
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.table_files import check_named, column_names, read_as_text, read_table, without_codes
from fedct_flwr.datasets.tables import class_names, encode, is_text, map_labels, no_column, numbers, with_signed_times
from fedct_flwr.text.printable import count, quoted
from fedct_flwr.text.spelling import without_accents
from fedct_flwr.types import ConfigError, DataError, Examples, Groups

if TYPE_CHECKING:
    from fedct_flwr.config.silo import DataSettings
    from fedct_flwr.config.study import StudyConfig
    from fedct_flwr.config.tables import TableSettings
    from fedct_flwr.datasets.image_folder import LabeledImages

_DIFFERING: Final = b"differing"
_TIMES: Final = tuple(pa.timestamp(unit, zone) for unit in ("s", "ns") for zone in (None, "UTC"))
"""Types that the reader of a whole CSV file makes of dates as 2024-12-31, with or without a time of day."""


class Agreed(Protocol):
    """The part of a study that its silos' records are read by."""

    @property
    def config(self) -> "StudyConfig":
        """Settings in study.toml."""

    @property
    def schema(self) -> Schema:
        """Columns and classes, which the public set has."""


def table_of(data: "DataSettings", study: "Agreed") -> pa.Table | None:
    """A silo's records as its file holds them, for ``read_grouped``; None of images. Raises DataError."""
    return None if study.config.image_size else _table_in(data.source, data.label, study, form_of(data, study), data)


def read_grouped(
    data: "DataSettings", study: "Agreed", path: Path | None = None, table: pa.Table | None = None
) -> tuple[Examples, Groups | None]:
    """A silo's labeled records as the study numbers columns and classes, and their groups, see ``column_of_groups``.

    ``path`` is another file of the same kind, ``table`` what ``table_of`` has read of the silo's own. Raises DataError,
    which quotes no record.
    """
    path = path or data.source
    if study.schema.images:
        if data.tables.group:
            raise ConfigError(
                "group under [data.tables] in silo.toml is for tables: write group-pattern under [data.images]"
            )
        return _labeled_images(_images_in(path, data), data, study)
    if data.images.given:
        raise ConfigError("[data.images] in silo.toml is for images, and the study has tables: leave it out")
    if data.mapping and study.schema.outcome.number:
        raise ConfigError("[data.mapping] in silo.toml is for classes, and the study predicts a number: leave it out")
    if not data.label:
        raise ConfigError("'label' is missing under [data] in silo.toml: name the label column of the table")
    if path != data.query:
        check_columns(data.tables, [path])
    return read_labeled(path, data.label, study, data, table if path == data.source else None)


def _images_in(path: Path, data: "DataSettings", *, each: bool = False) -> "LabeledImages":
    """The labeled images in a folder, without those of patients who have opted out."""
    images = datasets.LabeledImages.of(path)
    if data.opt_out is None:
        return images
    return images.take(datasets.images_left(images.group_names(data.images.group_pattern), data, path, each=each))


def listed_here(data: "DataSettings", study: "Agreed") -> list[bool]:
    """Which ids of the opt-out list, as ``ids_opted_out`` has them, are in a record now. Raises DataError."""
    everyone, name = data.without_opt_out, data.tables.group or "id"
    known = set[str | None]()
    for path in filter(None, (data.source, data.test_file)):
        if study.schema.images:
            table = pa.table({name: datasets.LabeledImages.of(path).group_names(data.images.group_pattern)})
        else:
            table = _table_in(path, data.label, study, form_of(data, study), everyone)
        known |= set(column_of_groups(table, name, path).to_pylist()) if name in table.column_names else set()
    return [each in known for each in datasets.ids_opted_out(data).to_pylist()]


def _labeled_images(images: "LabeledImages", data: "DataSettings", study: "Agreed") -> tuple[Examples, Groups | None]:
    """These images as examples, and their groups. Raises DataError."""
    form = study.schema.images
    assert form is not None  # noqa: S101 - only studies of images have some
    y = map_labels(images.names, data.mapping, study.schema.classes, images.folder)
    return Examples(datasets.read_images(images.paths, *form), y), images.groups(data.images.group_pattern)


def form_of(data: "DataSettings", study: "Agreed") -> "TableSettings":
    """Settings for reading a silo's tables: the silo's form, and the study's kinds of columns."""
    agreed = study.config.tables
    return data.tables.model_copy(update={"categories": agreed.categories, "text": agreed.text})


def check_columns(tables: "TableSettings", paths: Sequence[Path]) -> None:
    """Raise ConfigError for settings that name a column which no file has."""
    if tables.named:
        found = [name for path in paths for name in column_names(path, tables)]
        lacking = f"{' and '.join(path.name for path in paths)} {'does' if len(paths) == 1 else 'do'} not have"
        check_named(tables.named, found, tables, lacking)


def _table_in(
    path: Path, label: str, study: "Agreed", tables: "TableSettings", data: "DataSettings | None" = None
) -> pa.Table:
    held = datasets.read_query(data, _names(study)) if data and path == data.query else None
    if held is not None:
        check_named(tables.named, held.column_names, tables, f"the query {path} does not give")
    table = read_table(path, _spelled(label, study), tables, held)
    table = _completed(table, study, data) if data else table
    return datasets.records_left(table, data, path) if data and data.opt_out else table


def _completed(table: pa.Table, study: "Agreed", data: "DataSettings") -> pa.Table:
    """A silo's table with the columns that it may lack, all missing, and without those that are not the study's.

    Only where the study names columns that may be missing; ``differing`` says which these are.
    """
    allowed, there = study.config.may_be_missing, {*table.column_names}
    known = {data.label, *filter(None, [data.tables.group]), *_names(study)}
    extra = [name for name in table.column_names if name not in known]
    lacking = [each for each in study.schema.columns if each.name in allowed and each.name not in there]
    alike = {without_accents(name) for name in extra}
    # One that is there under another name is refused, as it would be without such columns.
    renamed = any(without_accents(each.name) in alike for each in lacking)
    if not allowed or renamed or len(lacking) == len(study.schema.columns):
        return table
    table = table.drop_columns(extra)
    for each in lacking:
        kind = pa.float64() if each.categories is None else pa.string()
        table = table.append_column(each.name, pa.nulls(table.num_rows, kind))
    differing = json.dumps([[each.name for each in lacking], extra]).encode()
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _DIFFERING: differing})


def differing(table: pa.Table) -> tuple[list[str], list[str]]:
    """The study's columns that a silo's table lacks, and its own that are left out."""
    missing, extra = json.loads((table.schema.metadata or {}).get(_DIFFERING, b"[[], []]"))
    return missing, extra


def _spelled(label: str, study: "Agreed") -> list[str]:
    """The columns that files hold as text: classes are that whatever they look like, and numbers are not."""
    classes = [] if study.schema.outcome.number else [label]
    return [*classes, *(each.name for each in study.schema.columns if each.spelled)]


def _names(study: "Agreed") -> list[str]:
    """All columns of the study, also that of events."""
    return [*(each.name for each in study.schema.columns), *events_of(study.schema)]


def events_of(schema: Schema) -> list[str]:
    """The column of events, where there is one."""
    return [schema.follow_up.event] if schema.follow_up else []


def read_labeled(
    path: Path, label: str, study: "Agreed", data: "DataSettings | None" = None, table: pa.Table | None = None
) -> tuple[Examples, Groups | None]:
    """Labeled records: a silo's with their groups, as it says in ``data``, or those of the study's test file."""
    tables = form_of(data, study) if data else study.config.tables
    table = _table_in(path, label, study, tables, data) if table is None else table
    if label not in table.column_names:
        raise no_column(path, label, table.column_names)
    if table.num_rows == 0:
        raise DataError(f"{path} has no records")
    return _labeled(table, path, label, study, data)


def _labeled(
    table: pa.Table,
    path: Path,
    label: str,
    study: "Agreed",
    data: "DataSettings | None" = None,
    *,
    each: bool = False,
) -> tuple[Examples, Groups | None]:
    """The records of a table as examples, and their groups; ``each`` for itself. Raises DataError."""
    columns, group = study.schema.columns, data.tables.group if data else ""
    form = data.tables if data else study.config.tables
    own = [label, group] if group else [label]
    for event in events_of(study.schema):
        table = with_signed_times(table, label, event, path, form)
    groups = numbered([column_of_groups(table, group, path, each=each)])[0] if group else None
    X = encode(table.drop_columns(own), columns, path)
    if study.schema.follow_up or study.schema.grid:
        y, grid = numbers(table, label, path, form), study.schema.grid
        if grid and (outside := int(((y < grid.low) | (y > grid.high)).sum())):
            raise DataError(
                f"{path} has {count(outside, 'record')} whose {label!r} lies outside of the study's range, "
                f"{grid.low:g} to {grid.high:g}: check the unit, correct them, or ask the coordinator for another range"
            )
        return Examples(X, y), groups
    names = class_names(table.column(label), label, path, form)
    return Examples(X, map_labels(names, data.mapping if data else None, study.schema.classes, path)), groups


def read_each(
    data: "DataSettings", study: "Agreed", path: Path | None = None, lost: list[str] | None = None
) -> tuple[Examples, Groups | None]:
    """The records of ``read_grouped`` that can be read each by itself; ``lost`` gets reasons for others, with columns.

    Formal guarantee: whether a record is read, and as what, depends on that record and the settings alone. Raises
    ConfigError or DataError for what fails without any record, and for a file or a query that gives no table.
    """
    path, lost = path or data.source, [] if lost is None else lost
    if study.schema.images:
        images = _images_in(path, data, each=True)
        blocks = _readable(lambda rows: _labeled_images(images.take(rows), data, study), len(images.paths), lost)
        return _labeled_images(images.take(np.concatenate(blocks)), data, study)
    out = datasets.ids_opted_out(data) if data.opt_out else None
    form, names = form_of(data, study), {column.name for column in study.schema.columns if not column.spelled}
    names |= {data.label, *events_of(study.schema)} if study.schema.outcome.number else set()
    raw = datasets.read_query(data, _names(study), each=True) if path == data.query else read_as_text(path, form)
    raw = _completed(raw, study, data)
    if data.label not in raw.column_names:
        raise no_column(path, data.label, raw.column_names)
    if form.dates:
        raw = _days_alone(raw, path, form, dated(read_table(study.config.public, tables=study.config.tables)), lost)
        form = form.model_copy(update={"dates": ""})

    def plain(rows: NDArray[np.intp]) -> pa.Table:
        """These records in types that depend on none of them."""
        table = read_table(path, _spelled(data.label, study), form, raw.take(rows))
        columns = {name: _plain(table.column(name), name, form, name in names) for name in table.column_names}
        if group := data.tables.group:
            columns[group] = column_of_groups(table, group, path, each=True)
            if columns[group].null_count:
                raise DataError("it may be any patient's")
        table = pa.table(columns)
        return table if out is None else datasets.each_left(table, out, data.tables.group)

    labeled = partial(_labeled, path=path, label=data.label, study=study, data=data, each=True)
    return labeled(pa.concat_tables(map(plain, _readable(lambda rows: labeled(plain(rows)), raw.num_rows, lost))))


def _days_alone(raw: pa.Table, path: Path, form: "TableSettings", names: Collection[str], lost: list[str]) -> pa.Table:
    """The table with days for the dates in these columns, each cell read by itself, without records of another form."""
    fine = pa.array(np.ones(raw.num_rows, dtype=bool))
    for at, name in enumerate(raw.column_names):
        if name in names:
            cells = pc.unique(raw.column(name).drop_null())
            alone = [_alone(path, form, pa.table({name: cells[row : row + 1]})) for row in range(len(cells))]
            days = [each.column(0)[0].as_py() if each else None for each in alone]
            known = [each is not None for each in alone]
            places = pc.index_in(raw.column(name), value_set=cells).combine_chunks()
            fine = pc.and_(fine, pc.fill_null(pa.array(known, pa.bool_()).take(places), True))
            lost += [] if all(known) else [f"column {quoted(name)} has dates of another form"]
            raw = raw.set_column(at, name, pa.array(days, pa.float64()).take(places))
    return raw.filter(fine)


def _alone(path: Path, form: "TableSettings", cell: pa.Table) -> pa.Table | None:
    """One cell as a day or a missing value; None for anything else."""
    (field,) = cell.schema
    for kind in (field.type, *(_TIMES if is_text(field.type) else ())):
        with suppress(DataError, pa.ArrowInvalid):
            found = read_table(path, (), form, cell.cast(pa.schema([field.with_type(kind)])))
            if dated(found) or found.column(0).null_count:
                return found
    return None


def _readable(read: Callable[[NDArray[np.intp]], object], size: int, lost: list[str]) -> list[NDArray[np.intp]]:
    """Blocks of the records that can be read, the first without any. Raises what reading that one raises."""
    blocks, left = [np.arange(0)], [np.arange(size)]
    read(blocks[0])
    while left:
        rows = left.pop()
        try:
            read(rows)
            blocks.append(rows)
        except (DataError, pa.ArrowException) as error:
            left += np.array_split(rows, 2)[::-1] if len(rows) > 1 else []
            lost += [str(error)] if len(rows) == 1 else []
    return blocks


def _plain(values: pa.ChunkedArray, name: str, form: "TableSettings", number: bool) -> pa.ChunkedArray:
    """A column as float64 or as text. Raises DataError."""
    try:
        if number and is_text(values.type):
            values = pc.replace_substring(pc.utf8_trim_whitespace(values.cast(pa.string())), form.decimal, ".")
            for word, digit in (("(?i)^true$", "1"), ("(?i)^false$", "0")):
                values = pc.replace_substring_regex(values, word, digit)
            return without_codes(values.cast(pa.float64()), form.missing_in(name))
        return values.cast(pa.float64() if number else pa.string())
    except pa.ArrowException:
        kind = "number" if number else "number and no text"
        raise DataError(f"column {quoted(name)} has a value that is no {kind}: correct it") from None
