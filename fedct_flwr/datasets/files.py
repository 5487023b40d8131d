"""A folder of tables as a federation: ``public.csv`` and one file for each silo, named after it."""

from pathlib import Path
from typing import Final

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, SiloData, hold_out, pool
from fedct_flwr.datasets.labels import all_classes, class_names, encode_labels
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.tables import SUFFIXES, columns_of, encode, numbers, read_table
from fedct_flwr.seeding import generator
from fedct_flwr.text.printable import fault
from fedct_flwr.types import Answers, DataError, Examples

PUBLIC: Final = "public"


def load(config: RunConfig) -> FederatedDataset:
    """``data-dir`` holds ``public.csv`` and a CSV or Parquet file per silo with the column ``label-column``.

    That column holds classes, or numbers where ``outcome`` says so; in the public file it is not used. Each silo holds
    ``test-fraction`` of its records out. Raises DataError that names the file and the columns concerned.
    """
    folder, label = Path(config.data_dir), config.label_column
    if not folder.is_dir():
        raise DataError(f"no folder {folder}: data-dir must hold {PUBLIC}.csv and a file for each silo")
    paths: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in SUFFIXES or path.name.startswith("."):
            continue
        if path.stem in paths:
            raise DataError(f"{folder} has a CSV and a Parquet file of the same name, {path.stem!r}: keep one of them")
        paths[path.stem] = path
    public_path = paths.pop(PUBLIC, None)
    if public_path is None:
        raise DataError(f"no {PUBLIC}.csv or {PUBLIC}.parquet in {folder}: the public set is what silos label")
    public = read_table(public_path)
    if label in public.column_names:
        public = public.drop_columns([label])
    if public.num_rows == 0 or not public.column_names:
        raise DataError(f"{public_path} is empty: it needs at least one record and one feature")
    columns = columns_of(public, public_path)
    if not paths:
        raise DataError(f"no silo's file in {folder}: next to {public_path.name} there must be one for each silo")

    number = config.outcome == "number"
    text = [*([] if number else [label]), *(column.name for column in columns if column.categories is not None)]
    tables = {silo: read_table(path, text) for silo, path in paths.items()}
    for silo, table in tables.items():
        if label not in table.column_names:
            raise DataError(f"{paths[silo]} has no column {label!r}: it has {', '.join(table.column_names)}")
        if table.num_rows == 0:
            raise DataError(f"{paths[silo]} has no records: add records or take the file away")
    if number:
        schema = Schema((), columns, quantity=label)
        y: dict[str, Answers] = {silo: numbers(table, label, paths[silo]) for silo, table in tables.items()}
    else:
        named = {silo: class_names(table.column(label), label, paths[silo]) for silo, table in tables.items()}
        classes = all_classes({name for names in named.values() for name in names})
        if len(classes) == 1:
            raise DataError(f"all records in {folder} are of class {classes[0]!r}: at least two classes are needed")
        if why := next(filter(None, map(fault, classes)), None):
            # A label may be a patient's name: it is not quoted.
            raise DataError(f"a label in the column {label!r} of {folder} names no class, as {why}: rename it")
        schema = Schema(classes, columns)
        y = {silo: encode_labels(names, classes) for silo, names in named.items()}
    silos = []
    for silo, table in tables.items():
        X = encode(table.drop_columns([label]), columns, paths[silo])
        records = Examples(X, y[silo])
        test, private = hold_out(records, (config.test_fraction,), generator(config.seed, "split", silo))
        silos.append(SiloData(silo, private, test))
    return FederatedDataset(
        name=str(folder),
        schema=schema,
        public=PublicSet(encode(public, columns, public_path)),
        silos=tuple(silos),
        test=pool([silo.test for silo in silos]),
    )
