"""Folders of made-up patients: healthy ones, and the same with one thing wrong."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Final, NamedTuple

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


# --- things that can be wrong, one at a time, and the finding that says so


class Case(NamedTuple):
    """What is done to healthy patients, and the finding: its name, its column, and its silo (empty: the public set)."""

    spoil: Callable[[Patients], object]
    code: str
    column: str = ""
    silo: str = ""


def _comma(cell: str) -> str:
    return cell.replace(".", ",")


def _day(name: str, row: int, form: str = "%d.%m.%Y") -> str:
    return (date(2020, 1, 1) + timedelta(days=(row * 7 + len(name)) % 1500)).strftime(form)


def _name(name: str, row: int) -> str:
    first = ("Erika", "Max", "Ida", "Otto", "Anna", "Karl", "Mia", "Jan", "Lea", "Tom")
    return f"{first[row % 10]} Mustermann-{name}-{row}"


def _from(words: dict[str, str]) -> Callable[[str], str]:
    return lambda cell: words.get(cell, cell)


def drawn(name: str, row: int, key: int = 0) -> np.random.Generator:
    """A generator of its own for each record."""
    return np.random.default_rng([*map(ord, name), row, key])


REFUSED: Final[dict[str, Case]] = {
    "decimal comma in public": Case(lambda p: p.change(PUBLIC, "crp", _comma), "number-as-text", "crp"),
    "decimal comma at a silo": Case(lambda p: p.change("essen", "crp", _comma), "number-as-text", "crp", "essen"),
    "labels in upper and lower case, by silo": Case(
        lambda p: p.change("essen", LABEL, str.upper).change("koeln", LABEL, str.title),
        "label-spellings",
        LABEL,
        "essen",
    ),
    "other classes at a silo": Case(
        lambda p: p.change("koeln", LABEL, _from({"yes": "stage 2", "no": "stage 1"})), "no-common-class", "", "koeln"
    ),
    "several labels in a cell": Case(
        lambda p: p.change(SILOS, LABEL, _from({"yes": "a", "no": "b"})).some("essen", LABEL, range(40), "a;b"),
        "labels-in-a-cell",
        LABEL,
        "essen",
    ),
    "numbers to predict": Case(
        lambda p: p.relabel(lambda silo, row: f"{np.random.default_rng(row).gamma(2, 3):.2f}"),
        "number-to-predict",
        LABEL,
    ),
    "names as labels": Case(
        lambda p: p.relabel(_name),
        "many-classes",
        LABEL,
    ),
    "dates as labels": Case(lambda p: p.relabel(_day), "dates-as-text", LABEL),
    "names": Case(lambda p: p.add("name", _name), "one-per-record", "name"),
    "an index without a name": Case(lambda p: p.add("", lambda name, row: str(row), first=True), "index-column", ""),
    "an index by another name": Case(lambda p: p.add("row", lambda name, row: str(row + 1)), "index-column", "row"),
    "an index that begins anywhere": Case(
        lambda p: p.add("row", lambda name, row: str(row + 301)), "index-column", "row"
    ),
    "patients' numbers with gaps": Case(
        lambda p: p.add("pid", lambda name, row: str(9000 - 7 * row - row % 3)), "index-column", "pid"
    ),
    "patients of two records": Case(lambda p: p.add("id", lambda name, row: str(row // 2 + 1)), "index-column", "id"),
    "words empty in public": Case(lambda p: p.change(PUBLIC, "sex", lambda cell: ""), "column-missing", "sex"),
    "dates as text": Case(lambda p: p.add("admitted", _day), "dates-as-text", "admitted"),
    "other words at a silo": Case(
        lambda p: p.change("essen", "sex", _from({"m": "male", "f": "female"})), "unknown-values", "sex", "essen"
    ),
}

SAID: Final[dict[str, Case]] = {
    "one class at a silo": Case(lambda p: p.change("koeln", LABEL, lambda cell: "no"), "one-class", "", "koeln"),
    "another unit at a silo": Case(
        lambda p: p.change("essen", "glucose", lambda cell: f"{float(cell) * 18.02:.0f}"),
        "other-scale",
        "glucose",
        "essen",
    ),
    "another unit in public": Case(
        lambda p: p.change(PUBLIC, "glucose", lambda cell: f"{float(cell) * 18.02:.0f}"), "other-scale", "glucose"
    ),
    "labels of the row before": Case(
        lambda p: p.relabel(lambda silo, row: p.tables[silo][LABEL][row - (silo == "essen")]),
        "labels-do-not-fit",
        "",
        "essen",
    ),
    "labels sorted by themselves": Case(
        lambda p: p.tables["essen"].update({LABEL: sorted(p.tables["essen"][LABEL])}), "labels-do-not-fit", "", "essen"
    ),
    "numbers empty at a silo": Case(
        lambda p: p.change("essen", "crp", lambda cell: ""), "column-missing", "crp", "essen"
    ),
    "words empty at a silo": Case(
        lambda p: p.change("essen", "sex", lambda cell: ""), "column-missing", "sex", "essen"
    ),
    "numbers empty in public": Case(lambda p: p.change(PUBLIC, "crp", lambda cell: ""), "column-missing", "crp"),
    "a sentinel": Case(lambda p: p.some("essen", "crp", range(12), "-999"), "missing-as-number", "crp", "essen"),
    "a sentinel in public": Case(lambda p: p.some(PUBLIC, "age", range(12), "999"), "missing-as-number", "age"),
    "ages of 0": Case(lambda p: p.some("essen", "age", range(0, 400, 9), "0"), "missing-as-number", "age", "essen"),
    "days as whole numbers": Case(
        lambda p: p.add("seen", lambda name, row: f"20{row % 24:02}{row % 12 + 1:02}{row % 28 + 1:02}"),
        "dates-as-text",
        "seen",
    ),
    "the same records again": Case(
        lambda p: p.copy("essen", "essen", 100),
        "repeated-records",
        "",
        "essen",
    ),
    "records in public": Case(
        lambda p: p.copy("koeln", PUBLIC, 100),
        "shared-records",
        "",
        "koeln",
    ),
    "the label column in public": Case(
        lambda p: p.tables[PUBLIC].update({LABEL: ["no"] * len(p.tables[PUBLIC]["age"])}), "label-in-public", LABEL
    ),
    "a silo of two records": Case(
        lambda p: p.tables["essen"].update({k: v[:2] for k, v in p.tables["essen"].items()}), "few-records", "", "essen"
    ),
    "a typing error at a silo": Case(lambda p: p.some("essen", "height", [7], "1700"), "far-number", "height", "essen"),
    "minus one for a missing sign at a silo": Case(
        lambda p: p.add("icu", lambda name, row: str(drawn(name, row, 6).integers(2))).some(
            "essen", "icu", range(0, 400, 20), "-1"
        ),
        "missing-as-number",
        "icu",
        "essen",
    ),
}
