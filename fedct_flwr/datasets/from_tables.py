"""Tables as a federation, wherever they come from: one of the public set, and one of each silo with a label column."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import pyarrow as pa

from fedct_flwr.config import RunConfig, TableSettings
from fedct_flwr.datasets.federated import FederatedDataset, SiloData, hold_out, pool, side_by_side
from fedct_flwr.datasets.labels import all_classes, class_names, encode_labels
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.table_files import PLAIN
from fedct_flwr.datasets.tables import columns_of, encode, numbers
from fedct_flwr.seeding import generator
from fedct_flwr.text.printable import fault
from fedct_flwr.types import Answers, DataError, Examples, SiloName


class Source(NamedTuple):
    """One table. ``where`` is how errors name it; ``read`` is told which columns are text whatever they look like.

    ``tables`` are the settings that ``read`` goes by.
    """

    where: object
    read: Callable[[Collection[str]], pa.Table]
    tables: TableSettings = PLAIN


def federation(
    name: str,
    where: object,
    public: Source,
    silos: Mapping[SiloName, Source],
    config: RunConfig,
    *,
    leave_out: str,
    notes: tuple[str, ...] = (),
) -> FederatedDataset:
    """The data set ``name`` of these tables, whose columns are what the public table says.

    ``label-column`` holds classes, or numbers where ``outcome`` says so; in the public table it is not used. Each silo
    holds ``test-fraction`` of its records out. ``where`` all tables are and how to ``leave_out`` one are for errors,
    ``notes`` are the data set's.
    Raises DataError that names the table and the columns concerned.
    """
    label = config.label_column
    unlabeled = public.read(())
    if label in unlabeled.column_names:
        unlabeled = unlabeled.drop_columns([label])
    if unlabeled.num_rows == 0 or not unlabeled.column_names:
        raise DataError(f"{public.where} is empty: it needs at least one record and one feature")
    columns = columns_of(unlabeled, public.where, public.tables)

    number = config.outcome == "number"
    text = [*([] if number else [label]), *(column.name for column in columns if column.categories is not None)]
    tables = {silo: source.read(text) for silo, source in silos.items()}
    for silo, table in tables.items():
        if label not in table.column_names:
            raise DataError(f"{silos[silo].where} has no column {label!r}: it has {', '.join(table.column_names)}")
        if table.num_rows == 0:
            raise DataError(f"{silos[silo].where} has no records: add records or {leave_out}")
    if number:
        schema = Schema((), columns, quantity=label)
        y: dict[str, Answers] = {silo: numbers(table, label, silos[silo].where) for silo, table in tables.items()}
    else:
        named = {silo: class_names(table.column(label), label, silos[silo].where) for silo, table in tables.items()}
        classes = all_classes(set().union(*named.values()))
        if len(classes) == 1:
            raise DataError(f"all records in {where} are of class {classes[0]!r}: at least two classes are needed")
        if why := next(filter(None, map(fault, classes)), None):
            # A label may be a patient's name: it is not quoted.
            raise DataError(f"a label in the column {label!r} of {where} names no class, as {why}: rename it")
        schema = Schema(classes, columns)
        y = {silo: encode_labels(names, classes) for silo, names in named.items()}
    examples = PublicSet(encode(unlabeled, columns, public.where))
    del unlabeled, table
    kept: list[Examples] = []
    held_out: list[Examples] = []
    # A table goes when its records are numbers: a million of them are there once, not twice.
    for silo in silos:
        X = encode(tables.pop(silo).drop_columns([label]), columns, silos[silo].where)
        records = Examples(X, y.pop(silo))
        test, private = hold_out(records, (config.test_fraction,), generator(config.seed, "split", silo))
        kept.append(private)
        held_out.append(test)
    del X, records, private, test
    pa.default_memory_pool().release_unused()
    # All records in one place are what each silo is compared with: they need no room of their own.
    together = zip(silos, side_by_side(kept), side_by_side(held_out), strict=True)
    parts = [SiloData(silo, private, test) for silo, private, test in together]
    return FederatedDataset(
        name=name,
        schema=schema,
        public=examples,
        silos=tuple(parts),
        test=pool([part.test for part in parts]),
        notes=notes,
    )
