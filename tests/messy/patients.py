"""Folders of made-up patients: healthy ones, and the same with one thing wrong."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import FederatedDataset

SILOS = ("dortmund", "essen", "koeln")
LABEL = "ill"
PUBLIC = "public"

Table = dict[str, list[str]]
"""Cells by column, as a file has them."""


@dataclass
class Patients:
    """The tables of a folder by file: ``public`` and each silo. Methods change them in place and return themselves."""

    tables: dict[str, Table] = field(default_factory=dict)

    def change(self, where: str | Sequence[str], column: str, change: Callable[[str], str]) -> "Patients":
        """Change all cells of a column in one table, or in several."""
        for name in [where] if isinstance(where, str) else where:
            self.tables[name][column] = [change(cell) for cell in self.tables[name][column]]
        return self

    def some(self, where: str, column: str, rows: Sequence[int], cell: str) -> "Patients":
        """Write the same into some cells."""
        for row in rows:
            self.tables[where][column][row] = cell
        return self

    def relabel(self, label: Callable[[str, int], str]) -> "Patients":
        """Other labels at all silos, which depend on silo and record."""
        for silo in SILOS:
            self.tables[silo][LABEL] = [label(silo, row) for row in range(len(self.tables[silo][LABEL]))]
        return self

    def copy(self, source: str, target: str, records: int) -> "Patients":
        """Write the first records of one table over those of another, or within a table over its last ones."""
        for column, cells in self.tables[target].items():
            copied = self.tables[source][column][:records]
            self.tables[target][column] = cells[:-records] + copied if source == target else copied + cells[records:]
        return self

    def add(self, column: str, cells: Callable[[str, int], str], first: bool = False) -> "Patients":
        """Add a column to all tables, whose cells depend on the table and the record."""
        for name, table in self.tables.items():
            new = {column: [cells(name, row) for row in range(len(table["age"]))]}
            self.tables[name] = {**new, **table} if first else {**table, **new}
        return self

    def write(self, folder: Path) -> Path:
        """Write a CSV file for each table."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in self.tables.items():
            with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(table)
                writer.writerows(zip(*table.values(), strict=True))
        return folder


EVERYWHERE = (PUBLIC, *SILOS)


def patients(seed: int = 0, records: int = 400, public: int = 300) -> Patients:
    """Healthy data: 3 silos and a public set, four columns of numbers, two of words, and a label that they explain."""
    rng = np.random.default_rng(seed)
    return Patients({name: _table(rng, public if name == PUBLIC else records, name != PUBLIC) for name in EVERYWHERE})


def _table(rng: np.random.Generator, records: int, labeled: bool) -> Table:
    age = rng.normal(60, 14, records).clip(18, 95).round()
    crp = rng.lognormal(1.5, 0.8, records).round(1)
    height = rng.normal(170, 9, records).round(1)
    glucose = rng.normal(5.6, 1.1, records).clip(2.5).round(1)
    sex = rng.choice(["m", "f"], records)
    ward = rng.choice(["surgery", "medicine", "icu", "neurology"], records, p=[0.4, 0.4, 0.1, 0.1])
    risk = (age - 60) / 14 + 0.8 * np.log(crp / 4.5) + 0.6 * (sex == "m") + (ward == "icu") - 0.5
    ill = np.where(rng.random(records) < 1 / (1 + np.exp(-risk)), "yes", "no")
    columns: dict[str, np.ndarray[tuple[int], np.dtype[np.generic]]]
    columns = {"age": age.astype(int), "crp": crp, "height": height, "glucose": glucose, "sex": sex, "ward": ward}
    if labeled:
        columns[LABEL] = ill
    return {name: [str(value) for value in values] for name, values in columns.items()}


def load(folder: Path, **settings: object) -> FederatedDataset:
    """The folder as a simulation reads it. Raises DataError for what is refused."""
    given = {key.replace("_", "-"): value for key, value in settings.items()}
    config = {"study": "messy", "data": "files", "data-dir": str(folder), "label-column": LABEL, **given}
    return datasets.load(RunConfig.from_flower(config))
