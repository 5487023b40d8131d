"""``count()``: how many patients of all silos meet a condition, with the noise that real silos would add."""

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedct_flwr import datasets, drawing
from fedct_flwr.config.run import RunConfig
from fedct_flwr.config.study import StudySums
from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets import LOADERS
from fedct_flwr.datasets.federated import column_of_groups, numbered, pool
from fedct_flwr.datasets.files import source
from fedct_flwr.datasets.inspection import Redaction
from fedct_flwr.datasets.inspection.cells import Cells, Inspected
from fedct_flwr.datasets.inspection.columns import suspicious
from fedct_flwr.datasets.inspection.table_one import compared, row_of
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.table_files import read_folder
from fedct_flwr.datasets.tables import columns_of, encode
from fedct_flwr.labelers.labeler import check_extra
from fedct_flwr.privacy.budget import Budget
from fedct_flwr.simulation.silos import Silos, joined, of_data_set, tables_in
from fedct_flwr.text.printable import count as number_of
from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.types import ConfigError, DataError, DataWarning, Examples, Features, Groups, SiloName, generator


@dataclass(frozen=True)
class Count:
    """Numbers of patients as people may read them: ``about``, ``low`` and ``high`` (95%), or ``fewer_than``.

    ``all`` counts all together, and ``cells`` each category of a column, where one was asked for.
    """

    all: Mapping[str, int]
    cells: Mapping[str, Mapping[str, int]]

    def __str__(self) -> str:
        return "\n".join(
            [
                drawing.count_in_words(self.all),
                *(f"{name}: {drawing.count_in_words(facts, '')}" for name, facts in self.cells.items()),
            ]
        )


_Records = tuple[Examples, Groups | None]
"""A silo's records, and which of them are one patient's."""


def count(
    silos: Silos,
    where: str,
    *,
    by: str | None = None,
    group: str = "",
    epsilon: float = 1.0,
    delta: float = 1e-5,
    seed: int = 0,
) -> Count:
    """Count the patients of all silos with a record that meets a condition, such as ``"age >= 65 and crp > 10"``.

    ``silos`` are those of ``simulate()``, three or more; a label column is a column like others, and that of a data set
    by name is called ``label``. ``by`` names a column of categories. ``group`` names the column of patients' numbers:
    each counts once. Noise is that of real silos for ``epsilon`` and ``delta``, but follows from ``seed``.

    Raises ConfigError, also for a condition that cannot be read, and DataError. A DataWarning tells of a silo whose
    values seem to have another unit or spelling.

    >>> ages = {name: {"age": [40, 70] * 200} for name in "abc"}
    >>> silos = {name: pa.table(columns) for name, columns in ages.items()}
    >>> print(count(silos, "age >= 65"))
    about 592 patients match (between 583 and 602 with 95% chance)
    """
    check_extra("privacy", "count()")
    Budget(epsilon, delta)
    schema, records = (
        _of_data_set(silos, group) if isinstance(silos, str) and silos in LOADERS else _of_tables(silos, group)
    )
    sums = StudySums()
    if len(records) < sums.min_summands:
        found = number_of(len(records), "silo")
        raise ConfigError(f"counts are secure sums of {sums.min_summands} silos or more, and there are {found}")
    question = drawing.PatientCount.of(where, by or "", schema, {})
    _warn(schema, {name: examples.X for name, (examples, _) in records.items()}, {*question.where.columns, by or ""})
    plan = drawing.CountPlan(len(question.cells), epsilon, delta, sums.min_summands - sums.may_collude)
    opened = np.zeros(plan.numbers, dtype=np.int64)
    for name, (examples, groups) in records.items():
        noise = generator(seed, "noise of counts", name, question.where.text, by or "")
        opened += plan.summand(question.counts(*examples, groups), noise)
    facts = plan.facts(question.cells, opened, len(records))
    return Count(facts["all"], facts["cells"])


def _warn(schema: Schema, tables: Mapping[SiloName, Features], asked: Collection[str]) -> None:
    """Warn where a silo's values in a column that is asked about lie apart from all other silos', or mean missing."""
    for at, column in enumerate(schema.columns):
        if column.name not in asked or column.text:
            continue
        words = column.categories or ()
        own = {silo: Cells.of_numbers(X[:, at].astype(np.float64), words) for silo, X in tables.items()}
        inspected = Inspected(column.name, None, own)
        for site in row_of(inspected).sites:
            if site.marked:
                apart = f"{quoted(column.name)} at silo {site.silo} lies apart from all other silos ({compared(site)})"
                warnings.warn(f"{apart}: check unit, spelling and join", DataWarning, stacklevel=3)
        for found in suspicious(inspected, Redaction(settings=""), categories=bool(words)):
            warnings.warn(found.sentence, DataWarning, stacklevel=3)


def _of_data_set(name: str, group: str) -> tuple[Schema, dict[SiloName, _Records]]:
    if group:
        raise ConfigError(f"data set {name!r} has no column of patients' numbers: leave group = {group!r} out")
    dataset = datasets.load(RunConfig.from_flower(of_data_set(name)))
    return dataset.schema, {silo.name: (pool([silo.private, silo.test]), None) for silo in dataset.silos}


def _of_tables(silos: Any, group: str) -> tuple[Schema, dict[SiloName, _Records]]:
    tables, group = (tables_in(silos), group) if isinstance(silos, Mapping) else _in_folder(silos, group)
    groups: list[Groups] | list[None] = [None] * len(tables)
    if group:
        groups = numbered([column_of_groups(table, group, f"silo {name!r}") for name, table in tables.items()])
        tables = {name: table.drop_columns([group]) for name, table in tables.items()}
    of_first = next(iter(tables.values())).column_names if tables else []
    for name, table in tables.items():
        if unlike := sorted({*table.column_names} ^ {*of_first}):
            raise DataError(
                f"silo {name!r} has other columns than the first silo, see {listed(unlike)}: give all the same columns"
            )
    whole = joined([*tables.values()])
    columns, place = columns_of(whole, "the silos' tables"), 0
    # Any outcome will do: the label is a column like others.
    schema, X, found = Schema((), columns, quantity="outcome"), encode(whole, columns, "the silos' tables"), {}
    for (name, table), of in zip(tables.items(), groups, strict=True):
        rows = X[place : (place := place + table.num_rows)]
        found[name] = Examples(rows, np.zeros(len(rows))), of
    return schema, found


def _in_folder(folder: Any, group: str) -> tuple[dict[SiloName, pa.Table], str]:
    if not isinstance(folder, str | Path):
        raise DataError(
            f"silos is of type {type(folder).__name__}: give a table for each silo, a folder, or a data set's name"
        )
    settings = TableSettings.of_folder(Path(folder))
    files = read_folder(Path(folder), settings, drawn=True).silos
    return {name: source(path, settings).read(()) for name, path in files.items()}, group or settings.group
