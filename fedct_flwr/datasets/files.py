"""A folder of tables as a federation: ``public.csv`` and one file for each silo, named after it.

``NAME.test.csv`` next to ``NAME.csv`` has the records that this silo is tested with.
"""

from functools import partial
from pathlib import Path
from typing import Final

from fedct_flwr.config import RunConfig
from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.from_tables import Source, federation
from fedct_flwr.datasets.tables import SUFFIXES, read_table
from fedct_flwr.types import DataError

PUBLIC: Final = "public"
_TEST: Final = ".test"


def load(config: RunConfig) -> FederatedDataset:
    """``data-dir`` holds ``public.csv`` and a CSV or Parquet file per silo with the column ``label-column``.

    The rest is as in ``from_tables.federation``. Raises DataError that names the file and the columns concerned.
    """
    folder = Path(config.data_dir)
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
    tests = {silo: _file(paths.pop(f"{silo}{_TEST}")) for silo in [*paths] if f"{silo}{_TEST}" in paths}
    silos = {silo: _file(path) for silo, path in paths.items()}
    return federation(
        str(folder),
        folder,
        _file(public),
        silos,
        config,
        leave_out="take the file away",
        tests=tests,
        group=TableSettings.of_folder(folder).group,
    )


def _file(path: Path) -> Source:
    return Source(path, partial(read_table, path))
