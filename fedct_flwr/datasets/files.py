"""A folder of tables as a federation: ``public.csv`` and one file for each silo, named after it.

``NAME.test.csv`` next to ``NAME.csv`` has the records that this silo is tested with.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from fedct_flwr.config.run import RunConfig
from fedct_flwr.config.tables import FolderTables, TableSettings
from fedct_flwr.datasets import image_folder
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.from_tables import Source, federation
from fedct_flwr.datasets.packed_tables import other_sheets
from fedct_flwr.datasets.table_files import TableFolder, check_named, column_names, read_folder, read_table
from fedct_flwr.text.printable import from_here, listed, quoted
from fedct_flwr.types import ConfigError

NOT_READ: Final = "save tables as .csv or .xlsx"
"""Advice on unused files."""


def load(config: RunConfig) -> FederatedDataset:
    """``data-dir`` holds ``public.csv`` and a table per silo with the column ``label-column``, see ``read_folder``.

    ``data.toml`` in it tells the form of the tables. For images see ``image_folder``. The rest is as in
    ``from_tables.federation``. Raises DataError that names the file and the columns concerned, ConfigError for
    ``data.toml`` and where the label column is not named.
    """
    path = Path(config.data_dir)
    if image_folder.holds_images(path):
        return image_folder.load(config)
    if not config.label_column:
        raise ConfigError(
            f"label-column (--label) is missing: name the column of the tables in {path} that is to be predicted"
        )
    settings = TableSettings.of_folder(path)
    folder = read_folder(path, settings, drawn=config.public == "drawn")
    _check_named(folder, settings)
    silos = {silo: source(file, settings) for silo, file in folder.silos.items()}
    return federation(
        str(path),
        path,
        source(folder.public, settings) if folder.public else None,
        silos,
        config,
        leave_out="take the file away",
        tests={silo: source(file, settings) for silo, file in folder.tests.items()},
        notes=tuple(_notes(path, folder, settings)),
    )


def source(path: Path, settings: FolderTables) -> Source:
    """One table of a folder, in the form that ``data.toml`` tells. Raises ConfigError."""
    tables = settings.of(path.name)
    return Source(path, partial(read_table, path, tables=tables), tables)


def _check_named(folder: TableFolder, settings: FolderTables) -> None:
    """Raise ConfigError if a setting names a column that no file has, or one file's a column that this file lacks."""
    if not settings.named and not any(form.named for form in settings.files.values()):
        return
    headers = {path: column_names(path, settings.of(path.name)) for path in folder.tables}
    for path, header in headers.items():
        if form := settings.form(path.name):
            check_named(form.named, header, settings, f"{path.name} does not have")
    check_named(settings.named, [name for header in headers.values() for name in header], settings, "no file here has")


def _notes(where: Path, folder: TableFolder, settings: FolderTables) -> Iterator[str]:
    if folder.unused:
        yield f"not used of {from_here(where)}: {listed(folder.unused)} ({NOT_READ})"
    for name, others in unread_sheets(folder, settings).items():
        yield (
            f"only the first sheet of {quoted(name)} is read, and not {listed(others)}: "
            f"write sheet = '...' in {settings.of(name).place_of('sheet')} to read another"
        )


def unread_sheets(folder: TableFolder, settings: FolderTables) -> dict[str, list[str]]:
    """By file, the sheets with contents that are not read."""
    found = {path.name: other_sheets(path, settings.of(path.name)) for path in folder.tables}
    return {name: sheets for name, sheets in found.items() if sheets}
