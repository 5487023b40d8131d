"""A folder of tables as a federation: ``public.csv`` and one file for each silo, named after it."""

from functools import partial
from pathlib import Path

from fedct_flwr.config import RunConfig
from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.folder import read_folder
from fedct_flwr.datasets.from_tables import Source, federation
from fedct_flwr.datasets.tables import read_table


def load(config: RunConfig) -> FederatedDataset:
    """``data-dir`` holds ``public.csv`` and a table per silo with the column ``label-column``, see ``read_folder``.

    The rest is as in ``from_tables.federation``. Raises DataError that names the file and the columns concerned.
    """
    path = Path(config.data_dir)
    folder, told = read_folder(path), TableSettings.of_folder(path)
    silos = {silo: _file(file, told) for silo, file in folder.silos.items()}
    return federation(
        str(path), path, _file(folder.public, told), silos, config, leave_out="take the file away", told=told
    )


def _file(path: Path, told: TableSettings) -> Source:
    return Source(path, partial(read_table, path, tables=told))
