"""Tables in files: CSV, Excel and Parquet, whose columns are numbers or text whichever file they come from.

A folder of them has a public set, a file for each silo, perhaps their test files, and unused files.
"""

import errno
import os
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from fedct_flwr import datasets
from fedct_flwr.config.tables import DATA_FILE, PLAIN, FileForm, FolderTables, TableSettings
from fedct_flwr.datasets.dates import WAS_DATES, days
from fedct_flwr.datasets.delimited import KindError, names_in_delimited, read_delimited, read_lines
from fedct_flwr.datasets.tables import (
    CATEGORY,
    NO_HEADER,
    NUMBER,
    as_category,
    as_names,
    is_number,
    is_text,
    repeated_names,
    without_blanks,
)
from fedct_flwr.files import check_is_file
from fedct_flwr.text.printable import fault, listed, quoted, suggest
from fedct_flwr.types import ConfigError, DataError, SiloName

ENDINGS: Final = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".xlsx", ".parquet")
"""File endings of tables, in small letters."""
_NO_FILE: Final = {
    errno.ENOENT: "there is no such file",
    errno.EACCES: "this user may not enter its folder, so change the folder's permissions",
    errno.EISDIR: "it is a folder, so name the table in it",
    errno.EINVAL: "it is a pipe or a device, so save the table as a file",
}
_WHOLE: Final = re.compile("0|-?[1-9][0-9]{0,17}")


def read_table(
    path: Path, text: Collection[str] = (), tables: TableSettings = PLAIN, held: pa.Table | None = None
) -> pa.Table:
    """Read a table with its header in the first line, as ``tables`` says. Empty fields are missing values.

    In CSV and Excel files the columns named in ``text`` are text whatever they look like. Files of another ending than
    ``ENDINGS`` are CSV. Dates are numbers, if the settings name their form. Columns to be left out, those with neither
    a name nor any value, and empty records at the end are dropped. ``held`` is what a query at ``path`` has given.
    Raises DataError, which quotes no record.
    """
    as_text = [*text, *tables.categories, *tables.text, *([tables.group] if tables.group else [])]
    table = _read(path, as_text, tables) if held is None else held
    # One list of each: a table makes a new one whenever it is asked.
    table = table.slice(0, _records_of(table.columns))
    everything = list(zip(table.schema, table.columns, strict=True))
    # A sign at the end of each line makes a column without a name and without a value.
    there = [(field, values) for field, values in everything if field.name.strip() or values.null_count < len(values)]
    kept = [(field, values) for field, values in there if field.name not in tables.leave_out]
    names = [field.name for field, _ in kept]
    if repeated := repeated_names(names):
        raise _same_name(path, repeated)
    columns = [_as_settings_say(values, field.name, as_text, tables, path) for field, values in kept]
    fields = [
        pa.field(field.name, values.type, metadata=WAS_DATES) if was_date else _field(field, values, tables)
        for (field, _), (values, was_date) in zip(kept, columns, strict=True)
    ]
    return pa.Table.from_arrays([values for values, _ in columns], schema=pa.schema(fields))


def _field(before: pa.Field, values: pa.ChunkedArray, tables: TableSettings) -> pa.Field:
    """The field of a column as it is read. Codes of whole numbers are numbers to a user's own code."""
    if before.name in tables.categories and is_text(values.type):
        codes = pc.unique(values.cast(pa.string()).drop_null()).to_pylist()
        if all(map(_WHOLE.fullmatch, codes)):
            return as_category(before.name, values, pa.array(sorted(map(int, codes)), pa.int64()))
    told = (before.metadata or {}).get(CATEGORY)
    return pa.field(before.name, values.type, metadata={CATEGORY: told} if told else None)


def _check_regular(path: Path) -> None:
    """Raise KindError unless a file with contents is at ``path``, which this process may read."""
    try:
        check_is_file(path)
        size = path.stat().st_size
    except OSError as error:
        raise KindError(f"cannot read {path}: {_NO_FILE.get(error.errno or 0, error.strerror)}") from None
    if not size:
        raise KindError(f"cannot read {path}: it is empty, so export the table again")
    if not os.access(path, os.R_OK):
        raise KindError(f"cannot read {path}: this user may not read it, so change its owner or its permissions")


def _records_of(columns: Sequence[pa.ChunkedArray]) -> int:
    """How many records there are without the empty ones at the end, which spreadsheets write of lines once in use."""
    records = len(columns[0]) if columns else 0
    while records and not any(column[records - 1].is_valid for column in columns):
        records -= 1
    return records


def _read(path: Path, text: Collection[str] | None, tables: TableSettings) -> pa.Table:
    """The table as its file has it; the columns named in ``text`` are text, None: all but of a Parquet file."""
    _check_regular(path)
    ending = path.name.lower()
    if ending.endswith(".xlsx"):
        return datasets.read_excel(path, text, tables)
    if not ending.endswith(".parquet"):
        return read_delimited(path, text, tables)
    # Before reading: a table with columns of the same name cannot be read.
    if repeated := repeated_names(datasets.names_in_parquet(path)):
        raise _same_name(path, repeated)
    return datasets.read_parquet(path)


def _same_name(where: object, names: Sequence[str]) -> DataError:
    """The error that a table has several columns of each of these names."""
    if not all(name.strip() for name in names):
        fix = "if a title stands above the header, take its line out, otherwise name them"
        return DataError(f"{where} has columns without a name: {fix}")
    if all(NUMBER.fullmatch(name.strip()) for name in names):
        return DataError(NO_HEADER.format(where, "numbers"))
    return DataError(f"{where} has columns of the same name: {listed(names)}; rename them")


def _as_settings_say(
    values: pa.ChunkedArray, name: str, text: Collection[str], tables: TableSettings, path: Path
) -> tuple[pa.ChunkedArray, bool]:
    """One column as the settings want it, and whether it held dates."""
    values, where = without_blanks(values), f"column {quoted(name)} of {path}"
    missing = tables.missing_in(name)
    if missing:
        values = without_codes(values, missing)
    if name in tables.categories and (is_number(values.type) or is_text(values.type)):
        return _codes(values, where), False
    if tables.dates and name not in text:
        found = days(values, tables.dates, where, missing)
        return (values, False) if found is None else (found, True)
    return values, False


def _codes(values: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """A column of categories as text. Raises DataError where different text becomes one code."""
    codes = as_names(values, where)
    if is_text(values.type) and len(codes.unique()) < len(values.unique()):
        raise DataError(
            f"{where} holds codes with and without '.0': write equal codes alike, and put a letter in front of others"
        )
    return codes


def without_codes(values: pa.ChunkedArray, missing: Collection[str]) -> pa.ChunkedArray:
    """The column without the cells that mean a missing value: numbers by value, text by letter."""
    if is_text(values.type):
        compared = values = values.cast(pa.string())
        meant = pa.array(missing, pa.string())
    elif is_number(values.type) and not pa.types.is_boolean(values.type):
        # As floats: in a column of uint8, -99 would become 157.
        compared = values.cast(pa.float64(), safe=False)
        meant = pa.array([float(text) for text in missing if NUMBER.fullmatch(text)], pa.float64())
        if pa.types.is_floating(values.type):
            meant = meant.cast(values.type).cast(pa.float64())
    else:
        return values
    return pc.if_else(pc.is_in(compared, value_set=meant), pa.scalar(None, values.type), values)


def read_as_text(path: Path, tables: TableSettings) -> pa.Table:
    """A file's table whose form depends on no record: as text, and of CSV with one record in each line."""
    _check_regular(path)
    plain = path.name.lower().endswith((".xlsx", ".parquet"))
    return _read(path, column_names(path, tables), tables) if plain else read_lines(path, tables)


def as_written(path: Path) -> pa.Table:
    """A file's table with all of its columns, as text to the letter but in Parquet; ``data.toml`` next to it tells how.

    Raises DataError like ``read_table``.
    """
    return _read(path, None, TableSettings.of_folder(path.parent).of(path.name))


def column_names(path: Path, tables: TableSettings = PLAIN) -> list[str]:
    """The names in a table's header, without reading the table. Raises DataError like ``read_table``."""
    _check_regular(path)
    ending = path.name.lower()
    if ending.endswith(".parquet"):
        return datasets.names_in_parquet(path)
    return datasets.names_in_excel(path, tables) if ending.endswith(".xlsx") else names_in_delimited(path, tables)


def check_named(
    named: Mapping[str, Collection[str]], found: Collection[str], tables: TableSettings, lacking: str
) -> None:
    """Raise ConfigError for a column that is ``named``, by key of the settings, and is not among the ``found`` ones.

    ``lacking`` says whose those are: "no file here has".
    """
    known = set(found)
    for key, names in named.items():
        if unknown := [name for name in names if name not in known]:
            nearest = suggest(unknown[0], dict.fromkeys(found))
            raise ConfigError(f"{key} in {tables.place} names {listed(unknown)}, which {lacking}: {nearest}")


PUBLIC: Final = "public"
TEST: Final = ".test"
_PUBLIC: Final = re.compile(r"public|unlabel+ed|öffentlich|oeffentlich", re.IGNORECASE)
_TEST_SET: Final = re.compile(r"(?:(.*?)[\W_]+)?(?:test|holdout|val|validation)[\W_]*(?:set|data)?", re.IGNORECASE)
"""Names that say a test set without the point that tells one."""


@dataclass(frozen=True)
class TableFolder:
    """The files of a folder. ``tests`` maps silos to their own test files, for those that have one.

    ``unused`` are the names of all files and folders in it that are not read, sorted; what systems hide is not named.
    """

    public: Path | None
    silos: dict[SiloName, Path]
    tests: dict[SiloName, Path]
    unused: tuple[str, ...]

    @property
    def tables(self) -> tuple[Path, ...]:
        """All files that are read, the public one first."""
        return (*filter(None, [self.public]), *self.silos.values(), *self.tests.values())


def name_and_ending(path: Path) -> tuple[str, str]:
    """The name of a table's file without its ending, and the ending in small letters; empty for another kind of file.

    >>> name_and_ending(Path("wards/Essen.CSV.gz")), name_and_ending(Path("notes.docx"))
    (('Essen', '.csv.gz'), ('notes.docx', ''))
    """
    for ending in ENDINGS:
        if path.name.lower().endswith(ending) and len(path.name) > len(ending):
            return path.name[: -len(ending)], ending
    return path.name, ""


def holds_tables(folder: Path) -> bool:
    """Whether there is a table in a folder, if it is one."""
    return folder.is_dir() and any(name_and_ending(path)[1] for path in folder.iterdir() if path.is_file())


def read_folder(folder: Path, settings: FolderTables | None = None, *, drawn: bool = False) -> TableFolder:
    """Role of each file, by its name and the ``settings`` of ``data.toml``; no table is opened.

    ``public.csv`` is the public set, ``NAME.csv`` silo NAME, and ``NAME.test.csv`` that silo's own test file, each with
    any ending of ``ENDINGS``. Raises DataError where a file is missing or there twice, or a test set has no silo;
    ConfigError where ``data.toml`` names a file that is not there. A public set that is ``drawn`` needs no file.
    """
    if not folder.is_dir():
        raise DataError(f"no folder {folder}: data-dir must hold {PUBLIC}.csv and a file for each silo")
    forms = {path: settings.form(path.name) for path in sorted(folder.iterdir())} if settings else {}
    found: dict[str, Path] = {}
    tests: dict[SiloName, Path] = {}
    unused = []
    for path in sorted(folder.iterdir()):
        name, ending = name_and_ending(path)
        form = forms.get(path)
        if path.name.startswith((".", "~$")) or path.name == DATA_FILE:
            # Spreadsheets, macOS and editors leave such files next to a table that is open.
            continue
        if not ending or path.is_dir() or path.name.startswith("~"):
            # The latter is what some editors call an older state of a file.
            unused.append(path.name)
            continue
        # Some systems tell no capital letters from small ones.
        name = PUBLIC if name.casefold() == PUBLIC else unicodedata.normalize("NFC", name)
        is_test = name.lower().endswith(TEST) and not (form and form.silo)
        silo = name[: -len(TEST)] if is_test else (form and form.silo) or name
        group = tests if is_test else found
        if other := next((known for known in group if known.casefold() == silo.casefold()), None):
            raise DataError(
                f"{folder} has two tables for {quoted(name)}, {quoted(group[other].name)} and {quoted(path.name)}: "
                "keep one of them, or rename one"
            )
        if why := fault(silo):
            raise DataError(f"{quoted(path.name)} in {folder} names no silo, as {why}: rename it")
        group[silo] = path
    _check_listed(folder, settings, forms)
    if PUBLIC not in found and not drawn:
        alike = next((name for name in [*found, *unused] if _PUBLIC.search(name)), "")
        remedy = f"if {quoted(alike)} is the public set, save it as {PUBLIC}.csv next to the silos' tables"
        remedy = remedy if alike else "the public set is what silos label"
        endings = f"{', '.join(ENDINGS[1:-1])} or {ENDINGS[-1]}"
        raise DataError(f"no {PUBLIC}.csv in {folder}, nor one with {endings}: {remedy}")
    public = found.pop(PUBLIC, None)
    if not found:
        raise DataError(f"no silo's file in {folder}: next to {PUBLIC}.csv there must be one for each silo")
    _check_tests(folder, found, tests, {form.silo for form in forms.values() if form and form.silo})
    return TableFolder(public, found, tests, tuple(unused))


def _check_listed(folder: Path, settings: FolderTables | None, forms: dict[Path, FileForm | None]) -> None:
    if settings and len(settings.files) > sum(form is not None for form in forms.values()):
        known = [path.name for path in forms if name_and_ending(path)[1]]
        unknown = next(name for name, own in settings.files.items() if not any(form is own for form in forms.values()))
        raise ConfigError(
            f"[files.{quoted(unknown)}] in {folder / DATA_FILE} is about a file that is not there: "
            f"{suggest(unknown, known)}"
        )


def _check_tests(
    folder: Path, silos: dict[SiloName, Path], tests: dict[SiloName, Path], named: Collection[SiloName]
) -> None:
    """Raise DataError for test files without a silo, and for those that would be a silo without being ``named``."""
    for silo, path in tests.items():
        if silo not in silos:
            raise DataError(
                f"{quoted(path.name)} in {folder} is the test file of silo {quoted(silo)}, which has no file there: "
                f"{suggest(silo, silos)}"
            )
    for name, path in silos.items():
        if name not in named and (like := _TEST_SET.fullmatch(name)):
            stem = quoted(f"{like[1] or 'NAME'}{TEST}{name_and_ending(path)[1]}")
            raise DataError(
                f"{quoted(path.name)} in {folder} would become a silo of its own: rename it to {stem} if it is that "
                f"silo's test file, or write silo = '...' under [files.{quoted(path.name)}] in {DATA_FILE} if not"
            )
