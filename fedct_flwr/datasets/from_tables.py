"""Tables as a federation, wherever they come from: one of the public set, and one of each silo with a label column."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

import pyarrow as pa

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, SiloData, hold_out, pool
from fedct_flwr.datasets.groups import column_of_groups, numbered, split_silo
from fedct_flwr.datasets.labels import all_classes, class_names, encode_labels
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.tables import columns_of, encode, numbers
from fedct_flwr.seeding import generator
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import fault, listed
from fedct_flwr.types import Answers, ConfigError, DataError, Examples, Groups, SiloName


class Source(NamedTuple):
    """One table. ``where`` is how errors name it; ``read`` is told which columns are text whatever they look like."""

    where: object
    read: Callable[[Collection[str]], pa.Table]


_NO_TESTS: Final[Mapping[SiloName, Source]] = MappingProxyType({})


def federation(
    name: str,
    where: object,
    public: Source,
    silos: Mapping[SiloName, Source],
    config: RunConfig,
    *,
    leave_out: str,
    tests: Mapping[SiloName, Source] = _NO_TESTS,
    group: str = "",
) -> FederatedDataset:
    """The data set ``name`` of these tables, whose columns are what the public table says.

    ``label-column`` holds classes, or numbers where ``outcome`` says so; in the public table it is not used. Each silo
    holds ``test-fraction`` of its records out, unless ``tests`` has a table of its own for it. ``group-column``, or
    ``group`` where that is not set, says which records belong together; it is no feature. ``where`` all tables are and
    how to ``leave_out`` one are for errors. Raises ConfigError for a group column that is the label, DataError that
    names the table and the columns concerned.
    """
    label, group = config.label_column, config.group_column or group
    if group and group == label:
        raise ConfigError(f"column {label!r} cannot be both the label and the group: name another column as group")
    unlabeled = public.read(())
    unlabeled = unlabeled.drop_columns([column for column in unlabeled.column_names if column in (label, group)])
    if unlabeled.num_rows == 0 or not unlabeled.column_names:
        raise DataError(f"{public.where} is empty: it needs at least one record and one feature")
    columns = columns_of(unlabeled, public.where)

    own = [*silos.values()]
    sources = [*own, *tests.values()]
    number = config.outcome == "number"
    text = [*([] if number else [label]), *(column.name for column in columns if column.categories is not None)]
    text += [group] if group else []
    tables = [source.read(text) for source in sources]
    for position, (source, table) in enumerate(zip(sources, tables, strict=True)):
        if label not in table.column_names:
            raise DataError(f"{source.where} has no column {label!r}: it has {', '.join(table.column_names)}")
        if table.num_rows == 0:
            raise DataError(
                f"{source.where} has no records: add records or {'take it away' if position >= len(own) else leave_out}"
            )
    labels: list[Answers]
    if number:
        schema = Schema((), columns, quantity=label)
        labels = [numbers(table, label, source.where) for source, table in zip(sources, tables, strict=True)]
    else:
        named = [
            class_names(table.column(label), label, source.where) for source, table in zip(sources, tables, strict=True)
        ]
        classes = all_classes({name for names in named[: len(own)] for name in names})
        if len(classes) == 1:
            raise DataError(f"all records in {where} are of class {classes[0]!r}: at least two classes are needed")
        if why := next(filter(None, map(fault, classes)), None):
            # A label may be a patient's name: it is not quoted.
            raise DataError(f"a label in the column {label!r} of {where} names no class, as {why}: rename it")
        for source, names in zip(tests.values(), named[len(own) :], strict=True):
            if unknown := len(set(names) - set(classes)):
                raise DataError(
                    f"{source.where} has {count(unknown, 'label')} that no silo's own table has ({listed(classes)}): "
                    "spell labels alike, or take these records out"
                )
        schema = Schema(classes, columns)
        labels = [encode_labels(names, classes) for names in named]
    groups = _groups(own, sources, tables, group)
    parts: dict[SiloName, SiloData] = {}
    del table
    for silo, source, y, of in zip([*silos, *tests], sources, labels, groups, strict=True):
        # A table goes when its records are numbers.
        table = tables.pop(0)
        features = table.drop_columns([name for name in table.column_names if name in (label, group)])
        X = encode(features, columns, source.where)
        records, rng = Examples(X, y), generator(config.seed, "split", silo)
        if silo in parts:
            parts[silo] = replace(parts[silo], test=records, test_groups=of)
        elif silo in tests:
            parts[silo] = SiloData(silo, records, records, of, of)
        elif of is not None:
            parts[silo] = split_silo(silo, records, of, config.test_fraction, rng)
        else:
            test, private = hold_out(records, (config.test_fraction,), rng)
            parts[silo] = SiloData(silo, private, test)
    return FederatedDataset(
        name=name,
        schema=schema,
        public=PublicSet(encode(unlabeled, columns, public.where)),
        silos=tuple(parts.values()),
        test=pool([part.test for part in parts.values()]),
    )


def _groups(
    own: Sequence[Source], sources: Sequence[Source], tables: Sequence[pa.Table], group: str
) -> list[Groups | None]:
    """Of each table, which records belong together; a test table, which is not split, may lack the column."""
    concerned = [
        number for number, table in enumerate(tables) if group and (number < len(own) or group in table.column_names)
    ]
    columns = [column_of_groups(tables[number], group, sources[number].where) for number in concerned]
    found = dict(zip(concerned, numbered(columns), strict=True)) if columns else {}
    return [found.get(number) for number in range(len(sources))]
