"""Cells that stand next to other records than their own, or mean the opposite; and tables in which none do."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import load_breast_cancer

from fedct_flwr.datasets.inspection import Words, inspect_tables
from tests.messy.families import drawn
from tests.messy.patients import EVERYWHERE, LABEL, PUBLIC, SILOS, Patients, load, patients

OF_ORDER = {"slipped-rows", "swapped-columns", "reversed-column", "unrelated-column"}
SEX = {"m": "f", "f": "m"}
Found = set[tuple[str, str, str]]


def with_weights(p: Patients) -> Patients:
    """Patients with a weight and a girth that go with their height, and with each other."""
    weight = {
        name: [float(cell) - 95 + drawn(name, row, 3).normal(0, 6) for row, cell in enumerate(table["height"])]
        for name, table in p.tables.items()
    }
    p.add("weight", lambda name, row: f"{weight[name][row]:.1f}")
    p.add("girth", lambda name, row: f"{0.9 * weight[name][row] + drawn(name, row, 4).normal(8, 10):.1f}")
    p.add("beard", lambda name, row: "ny"[p.tables[name]["sex"][row] == "m" and row % 5 > 1])
    return p.add(
        "voice",
        lambda name, row: f"{drawn(name, row, 6).normal(210 - 90 * (p.tables[name]['sex'][row] == 'm'), 25):.0f}",
    )


def down(p: Patients, name: str, column: str, rows: int = 1, first: int = 0) -> None:
    """Let the cells of a column slip down, from one record on; those at the end come first."""
    cells = p.tables[name][column]
    p.tables[name][column] = [*cells[:first], *np.roll(np.array(cells[first:]), rows).tolist()]


def everywhere(column: str, rows: int) -> Callable[[Patients], object]:
    def spoil(p: Patients) -> None:
        for name in EVERYWHERE:
            if column in p.tables[name]:
                down(p, name, column, rows)

    return spoil


def shuffled(p: Patients) -> None:
    p.tables["essen"]["height"] = np.random.default_rng(1).permutation(p.tables["essen"]["height"]).tolist()


def ordered(p: Patients) -> None:
    p.tables["essen"]["weight"].sort(key=float)


def exchanged(p: Patients) -> None:
    table = p.tables["essen"]
    table["girth"], table["age"] = table["age"], table["girth"]


def mirrored(p: Patients) -> None:
    p.change("essen", "weight", lambda cell: f"{150 - float(cell):.1f}")


WRONG: dict[str, tuple[Callable[[Patients], object], Found]] = {
    "labels one row down at all silos": (everywhere(LABEL, 1), {("slipped-rows", LABEL, silo) for silo in SILOS}),
    "labels two rows up at all silos": (everywhere(LABEL, -2), {("slipped-rows", LABEL, silo) for silo in SILOS}),
    "a column one row down": (lambda p: down(p, "koeln", "weight"), {("slipped-rows", "weight", "koeln")}),
    "a column one row up in public": (lambda p: down(p, PUBLIC, "weight", -1), {("slipped-rows", "weight", "")}),
    "a column from the middle on": (
        lambda p: down(p, "koeln", "weight", 1, 200),
        {("slipped-rows", "weight", "koeln")},
    ),
    "words one row down": (lambda p: down(p, "essen", "sex"), {("slipped-rows", "sex", "essen")}),
    "a column at random": (shuffled, {("unrelated-column", "height", "essen")}),
    "a column in an order of its own": (ordered, {("unrelated-column", "weight", "essen")}),
    "a scale the other way round": (mirrored, {("reversed-column", "weight", "essen")}),
    "the other words at a silo": (
        lambda p: p.change("essen", "sex", SEX.__getitem__),
        {("reversed-column", "sex", "essen")},
    ),
    "two columns for each other": (exchanged, {("swapped-columns", "age", "essen")}),
}


def found(p: Patients, folder: Path) -> Found:
    said = load(p.write(folder)).findings
    return {(each.code, each.column, each.silo) for each in said if each.code in OF_ORDER}


@pytest.mark.parametrize("what", WRONG)
def test_cells_next_to_other_records_are_said(tmp_path: Path, what: str) -> None:
    spoil, expected = WRONG[what]
    p = with_weights(patients(3))
    spoil(p)
    assert found(p, tmp_path) == expected


def test_cells_next_to_other_records_of_a_test_file_are_said(tmp_path: Path) -> None:
    p = with_weights(patients(3))
    p.tables["essen.test"] = {column: cells[:200] for column, cells in p.tables["essen"].items()}
    p.tables["essen"] = {column: cells[200:] for column, cells in p.tables["essen"].items()}
    assert not found(p, tmp_path / "right")
    down(p, "essen.test", "weight")
    assert found(p, tmp_path / "wrong") == {("slipped-rows", "weight", "essen.test")}


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_said_of_columns_that_go_together(tmp_path: Path, seed: int) -> None:
    assert not found(with_weights(patients(seed)), tmp_path)


@pytest.mark.parametrize("by", [LABEL, "weight", "sex"])
def test_nothing_is_said_of_tables_in_order(tmp_path: Path, by: str) -> None:
    p = with_weights(patients(3))
    for name, table in p.tables.items():
        if by in table:
            order = np.argsort(np.array(table[by], dtype=float if by == "weight" else str), kind="stable")
            p.tables[name] = {column: [cells[row] for row in order] for column, cells in table.items()}
    assert not found(p, tmp_path)


def test_nothing_is_said_of_visits_that_follow_each_other(tmp_path: Path) -> None:
    p = with_weights(patients(3))
    for table in p.tables.values():
        for column, cells in table.items():
            table[column] = [cells[row - row % 4] for row in range(len(cells))]
    p.add("pulse", lambda name, row: str(60 + int(drawn(name, row, 9).integers(30))))
    assert not found(p, tmp_path)


def _told(X: np.ndarray, y: np.ndarray, silos: int, words: Words | None = None) -> Found:
    names = [f"x{at}" for at in range(X.shape[1])]
    parts = np.array_split(np.random.default_rng(0).permutation(len(X)), silos + 1)
    tables = [
        pa.table({**dict(zip(names, X[part].T, strict=True)), LABEL: [f"c{c}" for c in y[part]]}) for part in parts
    ]
    said = inspect_tables(
        tables[0].drop_columns([LABEL]), dict(zip(SILOS, tables[1:], strict=False)), LABEL, words=words
    )
    return {(each.code, each.column, each.silo) for each in said.findings if each.code in OF_ORDER}


def test_a_real_silo_is_compared_with_the_public_set() -> None:
    data = load_breast_cancer()
    X = data.data.copy()
    private = Words(private=True)
    assert not _told(X, data.target, 1, private)
    silo = np.array_split(np.random.default_rng(0).permutation(len(X)), 2)[1]
    X[silo, 0], X[silo, 1] = X[silo, 1], X[silo, 0]
    assert _told(X, data.target, 1, private) == {("swapped-columns", "x0", SILOS[0])}


def test_nothing_is_said_of_breast_cancer() -> None:
    data = load_breast_cancer()
    assert not _told(data.data, data.target, 3)
