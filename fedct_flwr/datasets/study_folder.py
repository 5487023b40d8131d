"""The study's folder, sent by the coordinator: ``study.toml``, public set, perhaps a test set. And a silo's records.

The digest of the folder is what a silo approves: a change of the public set, the classes, the columns or the test
set changes the digest.
"""

import hashlib
import json
import os
import shutil
import stat
import tempfile
from base64 import b64decode
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key
from numpy.typing import NDArray

from fedct_flwr import datasets, secure_sum, survival
from fedct_flwr.config.study import MAY_BE_MISSING, StudyConfig
from fedct_flwr.datasets.dates import dated
from fedct_flwr.datasets.federated import PublicSet, column_of_groups, numbered
from fedct_flwr.datasets.schema import FollowUp, ImageForm, Schema
from fedct_flwr.datasets.table_files import check_named, column_names, read_as_text, read_table
from fedct_flwr.datasets.tables import class_names, columns_of, encode, map_labels, numbers, with_signed_times
from fedct_flwr.datasets.values import is_text, no_column
from fedct_flwr.text.printable import count, fault, listed, quoted
from fedct_flwr.text.spelling import without_accents
from fedct_flwr.types import LABEL_DTYPE, ConfigError, DataError, Examples, Groups
from fedct_flwr.wire.content import STEPS, Joint, Terms

if TYPE_CHECKING:
    from fedct_flwr.config.silo import DataSettings
    from fedct_flwr.config.tables import TableSettings
    from fedct_flwr.datasets.image_folder import LabeledImages
    from fedct_flwr.secure_sum.terms import SumTerms

STUDY_FILE: Final = "study.toml"
_DIFFERING: Final = b"differing"


@dataclass(frozen=True, eq=False)
class StudyFolder:
    """A study as its folder describes it. ``test`` is empty if the study has none."""

    config: StudyConfig
    schema: Schema
    public: PublicSet
    test: Examples

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.config.study

    @cached_property
    def sums(self) -> "SumTerms | None":
        """The terms of its secure sums; None where it has none. Raises ConfigError for wrong ones."""
        sums = self.config.sums
        if not sums.keys:
            return None
        keys = {silo: _public_key(silo, key) for silo, key in sums.keys.items()}
        return secure_sum.SumTerms(self.name, keys, sums.min_summands, sums.may_collude)

    @cached_property
    def terms(self) -> Terms:
        """Terms of this study for coordinator and silos."""
        return self.schema.terms(self.name, self.public)

    @cached_property
    def joint(self) -> Joint | None:
        """The joint labeler that the study agrees upon, without weights and seed, or None. Raises ConfigError."""
        agreed, sums = self.config.joint, self.sums
        if agreed is None or sums is None:
            return None
        return Joint(
            records=agreed.records,
            steps=STEPS,
            epsilon=agreed.epsilon,
            delta=agreed.delta,
            # Two or more, as the terms of sums have it.
            honest=sums.min_summands - sums.may_collude,
            columns=0 if agreed.labeler == "linear" else len(self.schema.without_texts),
            seed=0,
        )

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 (32 bytes) over name, classes, columns with their categories, public set, test set, form of images.

        And over what ``[tables]`` says the columns mean, ``[columns]``, ``[sums]``, ``[joint]``, ``[draw]``,
        ``[count]``, ``[scores]`` and ``[governance]``; a study without them has the digest that it always had.
        """
        wire = "<f8" if self.schema.outcome.number else "<i2"
        agreed: dict[str, object] = {
            "study": self.config.study,
            "classes": self.schema.classes,
            "columns": [(column.name, column.categories) for column in self.schema.columns],
            "public": self.public.fingerprint.hex(),
            "test": PublicSet(self.test.X).fingerprint.hex() if self.test.size else None,
            "test-labels": hashlib.sha256(self.test.y.astype(wire).tobytes()).hexdigest(),
            # Only where there is text: studies without it keep the digest that they always had.
            **({"text": texts} if (texts := [column.name for column in self.schema.columns if column.text]) else {}),
            "images": [self.config.image_size, self.config.image_mode] if self.config.image_size else None,
        }
        if self.sums:
            agreed["sums"] = self.sums.digest.hex()
        for name in ("number", "survival", "joint", "draw", "count", "scores"):
            if part := getattr(self.config, name):
                agreed[name] = part.model_dump(mode="json")
        if stated := self.config.governance.model_dump(exclude_defaults=True):
            agreed["governance"] = stated
        if self.config.columns:
            agreed["dictionary"] = {
                name: form.model_dump(mode="json", exclude_defaults=True) for name, form in self.config.columns.items()
            }
        if lacking := self.config.may_be_missing:
            agreed["may-be-missing"] = sorted(lacking)
        if meant := self.config.tables.decides:
            agreed["tables"] = meant
        return hashlib.sha256(b"fedct study 1 " + json.dumps(agreed, sort_keys=True).encode()).digest()


def _public_key(silo: str, line: str) -> bytes:
    """The 32 bytes of an Ed25519 key as a file of PEM has it. Raises ConfigError."""
    try:
        key = load_der_public_key(b64decode(line, validate=True))
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"{silo!r} under [sums.keys] in {STUDY_FILE} is no key: copy the line from its egress.pub")
    return key.public_bytes_raw()


def read_study(folder: Path) -> StudyFolder:
    """Read a study's folder. Raises ConfigError or DataError, which name the file concerned."""
    if not (folder / STUDY_FILE).is_file():
        raise ConfigError(f"no {STUDY_FILE} in {folder}: ask the coordinator for the study's folder")
    _check_inside(folder, STUDY_FILE, [folder / STUDY_FILE])
    config = StudyConfig.read_toml(folder / STUDY_FILE)
    _check_inside(folder, "public", [config.public])
    _check_inside(folder, "test-file", [config.test_file] if config.test_file else [])
    if config.image_size:
        if config.test_file:
            raise ConfigError(f"test-file in {folder / STUDY_FILE} is for tables: leave it out for images")
        images = datasets.images_in(config.public)
        _check_inside(folder, "public", images)
        _check_file_names(images)
        form = ImageForm(config.image_size, config.image_mode)
        datasets.check_room(images, *form)
        public, schema = datasets.read_images(images, *form), Schema(config.classes, images=form)
    else:
        table = read_table(config.public, tables=config.tables)
        _check_named(config.tables, [config.public, *([config.test_file] if config.test_file else [])])
        if table.num_rows == 0 or not table.column_names:
            raise DataError(f"{config.public} is empty: it needs at least one record and one feature")
        columns = columns_of(table, config.public, config.tables.text)
        if wrong := {*config.may_be_missing} - {each.name for each in columns if not each.text}:
            raise ConfigError(
                f"{MAY_BE_MISSING} under [columns] in {folder / STUDY_FILE} names {listed(sorted(wrong))}: name "
                "columns of the public set, and none of free text"
            )
        public = encode(table, columns, config.public)
        number, times = config.number, config.survival
        schema = Schema(
            survival.GRADE_NAMES if times else config.classes,
            columns,
            number.name if number else "",
            grid=number.grid if number else None,
            follow_up=FollowUp(times.time, times.event, times.horizons) if times else None,
        )
    nothing = Examples(public[:0], np.zeros(0, dtype=LABEL_DTYPE))
    study = StudyFolder(config, schema, PublicSet(public), nothing)
    if not config.test_file:
        return study
    test, _ = _read_table(config.test_file, config.test_label, study)
    return StudyFolder(config, schema, study.public, test)


def read_records(data: "DataSettings", study: StudyFolder, path: Path | None = None) -> Examples:
    """A silo's labeled records, or those of another file of the same kind, as the study numbers columns and classes.

    Raises DataError, which quotes no record.
    """
    return read_grouped(data, study, path)[0]


def table_of(data: "DataSettings", study: StudyFolder) -> pa.Table | None:
    """A silo's records as its file holds them, for ``read_grouped``; None of images. Raises DataError."""
    return None if study.config.image_size else _table_in(data.source, data.label, study, form_of(data, study), data)


def read_grouped(
    data: "DataSettings", study: StudyFolder, path: Path | None = None, table: pa.Table | None = None
) -> tuple[Examples, Groups | None]:
    """The same records, and their groups, where ``silo.toml`` names a group column, see ``column_of_groups``.

    ``table`` is what ``table_of`` has read of the silo's file, if it has.
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
        _check_named(data.tables, [path])
    return _read_table(path, data.label, study, data, table if path == data.source else None)


def _images_in(path: Path, data: "DataSettings", *, each: bool = False) -> "LabeledImages":
    """The labeled images in a folder, without those of patients who have opted out."""
    images = datasets.LabeledImages.of(path)
    if data.opt_out is None:
        return images
    return images.take(datasets.images_left(images.group_names(data.images.group_pattern), data, path, each=each))


def _labeled_images(
    images: "LabeledImages", data: "DataSettings", study: StudyFolder
) -> tuple[Examples, Groups | None]:
    """These images as examples, and their groups. Raises DataError."""
    form = study.schema.images
    assert form is not None  # noqa: S101 - only studies of images have some
    y = map_labels(images.names, data.mapping, study.schema.classes, images.folder)
    return Examples(datasets.read_images(images.paths, *form), y), images.groups(data.images.group_pattern)


def form_of(data: "DataSettings", study: StudyFolder) -> "TableSettings":
    """Settings for reading a silo's tables: the silo's form, and the study's kinds of columns."""
    agreed = study.config.tables
    return data.tables.model_copy(update={"categories": agreed.categories, "text": agreed.text})


def _check_inside(folder: Path, key: str, paths: Sequence[Path]) -> None:
    """Raise ConfigError for a path that leads out of the folder, by itself or by a link, and for pipes and devices.

    Otherwise the folder's author would choose which of the silo's files are read as public examples.
    """
    where = "" if key == STUDY_FILE else f" in {folder / STUDY_FILE}"
    try:
        inside = folder.resolve()
        leads_out = not all(path.resolve().is_relative_to(inside) for path in paths)
        is_special = any(path.exists() and not (path.is_file() or path.is_dir()) for path in paths)
    except OSError as error:
        raise ConfigError(f"{key}{where} cannot be read: {error.strerror}; ask the coordinator for another") from None
    except RuntimeError:  # a circle of links
        leads_out, is_special = True, False
    if leads_out:
        raise ConfigError(f"{key}{where} leads out of the study's folder: put the files into it")
    if is_special:
        raise ConfigError(f"{key}{where} is neither a file nor a folder: ask the coordinator for the study's folder")


def _check_file_names(paths: Iterable[Path]) -> None:
    """Raise DataError for a file of the coordinator's whose name hides something where the folder is listed."""
    for path in paths:
        if why := fault(path.name):
            raise DataError(f"the file {quoted(path.name)} in {path.parent}: {why}; ask the coordinator to rename it")


def _check_named(tables: "TableSettings", paths: Sequence[Path]) -> None:
    """Raise ConfigError for settings that name a column which no file has."""
    if tables.named:
        found = [name for path in paths for name in column_names(path, tables)]
        lacking = f"{' and '.join(path.name for path in paths)} {'does' if len(paths) == 1 else 'do'} not have"
        check_named(tables.named, found, tables, lacking)


def _table_in(
    path: Path, label: str, study: StudyFolder, tables: "TableSettings", data: "DataSettings | None" = None
) -> pa.Table:
    held = datasets.read_query(data, _names(study)) if data and path == data.query else None
    if held is not None:
        check_named(tables.named, held.column_names, tables, f"the query {path} does not give")
    table = read_table(path, _spelled(label, study), tables, held)
    table = _completed(table, study, data) if data else table
    return datasets.records_left(table, data, path) if data and data.opt_out else table


def _completed(table: pa.Table, study: StudyFolder, data: "DataSettings") -> pa.Table:
    """A silo's table with the columns that it may lack, all missing, and without those that are not the study's.

    Only where the study names columns that may be missing; ``differing`` says which these are.
    """
    allowed, there = study.config.may_be_missing, {*table.column_names}
    known = {data.label, data.tables.group, *_names(study)}
    extra = [name for name in table.column_names if name not in known]
    lacking = [each for each in study.schema.columns if each.name in allowed and each.name not in there]
    alike = {without_accents(name) for name in extra}
    # One that is there under another name is refused, as it would be without such columns.
    if (
        not allowed
        or len(lacking) == len(study.schema.columns)
        or any(without_accents(each.name) in alike for each in lacking)
    ):
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


def _spelled(label: str, study: StudyFolder) -> list[str]:
    """The columns that files hold as text: classes are that whatever they look like, and numbers are not."""
    classes = [] if study.schema.outcome.number else [label]
    return [*classes, *(each.name for each in study.schema.columns if each.spelled)]


def _names(study: StudyFolder) -> list[str]:
    """All columns of the study, also that of events."""
    return [*(each.name for each in study.schema.columns), *events_of(study.schema)]


def events_of(schema: Schema) -> list[str]:
    """The column of events, where there is one."""
    return [schema.follow_up.event] if schema.follow_up else []


def _read_table(
    path: Path, label: str, study: StudyFolder, data: "DataSettings | None" = None, table: pa.Table | None = None
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
    table: pa.Table, path: Path, label: str, study: StudyFolder, data: "DataSettings | None" = None
) -> tuple[Examples, Groups | None]:
    """The records of a table as examples, and their groups. Raises DataError."""
    columns, group = study.schema.columns, data.tables.group if data else ""
    own = [label, group] if group else [label]
    for event in events_of(study.schema):
        table = with_signed_times(table, label, event, path)
    groups = numbered([column_of_groups(table, group, path)])[0] if group else None
    X = encode(table.drop_columns(own), columns, path)
    if study.schema.follow_up:
        return Examples(X, numbers(table, label, path)), groups
    if grid := study.schema.grid:
        y = numbers(table, label, path)
        if outside := int(((y < grid.low) | (y > grid.high)).sum()):
            raise DataError(
                f"{path} has {count(outside, 'record')} whose {label!r} lies outside of the study's range, "
                f"{grid.low:g} to {grid.high:g}: check the unit, correct them, or ask the coordinator for another range"
            )
        return Examples(X, y), groups
    names = class_names(table.column(label), label, path)
    mapping = data.mapping if data else None
    return Examples(X, map_labels(names, mapping, study.schema.classes, path)), groups


def read_each(data: "DataSettings", study: StudyFolder, path: Path | None = None) -> tuple[Examples, Groups | None]:
    """The records of ``read_grouped`` that can be read each by itself.

    Formal guarantee: whether a record is read, and as what, depends on that record and the settings alone. Raises
    ConfigError or DataError for what fails without any record, and for a file or a query that gives no table.
    """
    path = path or data.source
    if study.schema.images:
        images = _images_in(path, data, each=True)
        blocks = _readable(lambda rows: _labeled_images(images.take(rows), data, study), len(images.paths))
        return _labeled_images(images.take(np.concatenate(blocks)), data, study)
    out = datasets.ids_opted_out(data) if data.opt_out else None
    form, names = form_of(data, study), {column.name for column in study.schema.columns if not column.spelled}
    names |= {data.label, *events_of(study.schema)} if study.schema.outcome.number else set()
    raw = datasets.read_query(data, _names(study)) if path == data.query else read_as_text(path, form)
    raw = _completed(raw, study, data)
    if form.dates:
        raw = _days_alone(raw, path, form, dated(read_table(study.config.public, tables=study.config.tables)))
        form = form.model_copy(update={"dates": ""})

    def plain(rows: NDArray[np.intp]) -> pa.Table:
        """These records in types that depend on none of them."""
        table = read_table(path, _spelled(data.label, study), form, raw.take(rows))
        columns = {name: _plain(table.column(name), form.decimal, name in names) for name in table.column_names}
        if group := data.tables.group:
            columns[group] = column_of_groups(table, group, path)
            if columns[group].null_count:
                raise DataError("it may be any patient's")
        table = pa.table(columns)
        return table if out is None else datasets.each_left(table, out, data.tables.group)

    blocks = _readable(lambda rows: _labeled(plain(rows), path, data.label, study, data), raw.num_rows)
    return _labeled(pa.concat_tables(map(plain, blocks)), path, data.label, study, data)


def _days_alone(raw: pa.Table, path: Path, form: "TableSettings", names: Collection[str]) -> pa.Table:
    """The table with days for the dates in these columns, each cell read by itself, without records of another form."""
    fine = pa.array(np.ones(raw.num_rows, dtype=bool))
    for at, name in enumerate(raw.column_names):
        if name in names:
            cells = pc.unique(raw.column(name).drop_null())
            alone = [read_table(path, (), form, pa.table({name: cells[row : row + 1]})) for row in range(len(cells))]
            days = [each.column(name)[0].as_py() if dated(each) else None for each in alone]
            known = [bool(dated(each)) or each.column(name).null_count > 0 for each in alone]
            places = pc.index_in(raw.column(name), value_set=cells).combine_chunks()
            fine = pc.and_(fine, pc.fill_null(pa.array(known, pa.bool_()).take(places), True))
            raw = raw.set_column(at, name, pa.array(days, pa.float64()).take(places))
    return raw.filter(fine)


def _readable(read: Callable[[NDArray[np.intp]], object], size: int) -> list[NDArray[np.intp]]:
    """Blocks of the records that can be read, the first without any. Raises what reading that one raises."""
    blocks, left = [np.arange(0)], [np.arange(size)]
    try:
        read(blocks[0])
    except pa.ArrowException:
        raise DataError("the records have a column of neither numbers nor text: turn it into one of them") from None
    while left:
        rows = left.pop()
        try:
            read(rows)
            blocks.append(rows)
        except (DataError, pa.ArrowException):
            left += np.array_split(rows, 2)[::-1] if len(rows) > 1 else []
    return blocks


def _plain(values: pa.ChunkedArray, decimal: str, number: bool) -> pa.ChunkedArray:
    """A column as float64 or as text. Raises pyarrow's errors."""
    if number and is_text(values.type):
        values = pc.replace_substring(pc.utf8_trim_whitespace(values.cast(pa.string())), decimal, ".")
        for word, digit in (("(?i)^true$", "1"), ("(?i)^false$", "0")):
            values = pc.replace_substring_regex(values, word, digit)
    return values.cast(pa.float64() if number else pa.string())


MOST_ENTRIES: Final = 200_000
MOST_BYTES: Final = 64 << 30
DEEPEST: Final = 16
"""Folders within folders. A study has one or two."""


def check_plain(study: Path) -> int:
    """Raise ConfigError for a study's folder with links, devices and the like, or too large; returns its bytes.

    Opens no file. The folder itself may be a link: its path comes from the person at this machine, not from elsewhere.
    """
    size = entries = 0
    folders = [(study.resolve(), 0)]
    while folders:
        folder, depth = folders.pop()
        try:
            with os.scandir(folder) as found:
                for entry in found:
                    entries += 1
                    state = entry.stat(follow_symlinks=False)
                    shown = repr(os.path.relpath(entry.path, study.resolve()))
                    if not (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)):
                        raise ConfigError(
                            f"{shown} in the study {study} is a link, or neither a file nor a folder: ask the "
                            "coordinator for a folder with files in their places"
                        )
                    if stat.S_ISDIR(state.st_mode):
                        folders.append((Path(entry.path), depth + 1))
                    else:
                        size += state.st_size
                    if entries > MOST_ENTRIES or size > MOST_BYTES or depth > DEEPEST:
                        raise ConfigError(
                            f"the study {study} is too large: it may have {MOST_ENTRIES:,} files, {MOST_BYTES >> 30} "
                            f"GiB and {DEEPEST} folders within each other, check that it is the coordinator's folder"
                        )
        except OSError as error:
            raise ConfigError(f"cannot read the study {study}: {error.strerror}") from None
    return size


def copy_study(study: Path, target: Path) -> None:
    """Copy a study's folder, whole or not at all. Raises ConfigError if ``check_plain`` does, or if copying fails."""
    size = check_plain(study)
    if target.resolve().is_relative_to(study.resolve()):
        raise ConfigError(f"{target} lies in the study {study} that it would get a copy of: choose another folder")
    if size > shutil.disk_usage(target.parent).free:
        raise ConfigError(f"the study {study} has {size:,} bytes, for which {target.parent} has no space: make room")
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        # Links that came since then stay links, and are refused.
        copied = shutil.copytree(study.resolve(), temporary / target.name, symlinks=True)
        check_plain(copied)
        copied.rename(target)
    except OSError as error:
        raise ConfigError(f"cannot copy the study {study}: {error.strerror or 'a file in it cannot be read'}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
