"""A folder of tables as a federation: ``public.csv`` and one file for each silo, named after it."""

from functools import partial
from pathlib import Path

from fedct_flwr.config import RunConfig
from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.folder import TableFolder, read_folder
from fedct_flwr.datasets.from_tables import Source, federation
from fedct_flwr.datasets.tables import read_table
from fedct_flwr.types import SiloName


def load(config: RunConfig) -> FederatedDataset:
    """``data-dir`` holds ``public.csv`` and a table per silo with the column ``label-column``, see ``read_folder``.

    The rest is as in ``from_tables.federation``. Raises DataError that names the file and the columns concerned.
    """
    path = Path(config.data_dir)
    told = TableSettings.of_folder(path)
    public, silos = sources(read_folder(path), told)
    return federation(str(path), path, public, silos, config, leave_out="take the file away", told=told)


def sources(folder: TableFolder, told: TableSettings) -> tuple[Source, dict[SiloName, Source]]:
    """The public table and the silos', to be read as is ``told``."""
    return _file(folder.public, told), {silo: _file(file, told) for silo, file in folder.silos.items()}


def _file(path: Path, told: TableSettings) -> Source:
    return Source(path, partial(read_table, path, tables=told))
