"""A folder of tables as a federation: ``public.csv`` and one file for each silo, named after it."""

from functools import partial
from pathlib import Path
from typing import Final

from fedct_flwr.config import RunConfig
from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets import image_files
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.from_tables import Source, federation
from fedct_flwr.datasets.tables import SUFFIXES, read_table
from fedct_flwr.types import ConfigError, DataError

PUBLIC: Final = "public"


def load(config: RunConfig) -> FederatedDataset:
    """``data-dir`` holds ``public.csv`` and a CSV or Parquet file per silo with the column ``label-column``.

    A folder of images is read as ``image_files`` says. The rest is as in ``from_tables.federation``. Raises DataError
    that names the file and the columns concerned, and ConfigError where the label column is not named.
    """
    folder = Path(config.data_dir)
    if image_files.holds_images(folder):
        return image_files.load(config)
    if not config.label_column:
        raise ConfigError(
            f"label-column (--label) is missing: name the column of the tables in {folder} that is to be predicted"
        )
    if not folder.is_dir():
        raise DataError(f"no folder {folder}: data-dir must hold {PUBLIC}.csv and a file for each silo")
    paths: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in SUFFIXES or path.name.startswith("."):
            continue
        if path.stem in paths:
            raise DataError(f"{folder} has a CSV and a Parquet file of the same name, {path.stem!r}: keep one of them")
        paths[path.stem] = path
    public = paths.pop(PUBLIC, None)
    if public is None:
        raise DataError(f"no {PUBLIC}.csv or {PUBLIC}.parquet in {folder}: the public set is what silos label")
    if not paths:
        raise DataError(f"no silo's file in {folder}: next to {public.name} there must be one for each silo")
    silos = {silo: _file(path) for silo, path in paths.items()}
    return federation(
        str(folder),
        folder,
        _file(public),
        silos,
        config,
        leave_out="take the file away",
        texts=TableSettings.of_folder(folder).text,
    )


def _file(path: Path) -> Source:
    return Source(path, partial(read_table, path))
