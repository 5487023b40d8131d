"""Parts of a table that stand next to other records, numbers that contradict each other, and two kinds of flowers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

from tests.messy.families import drawn
from tests.messy.patients import EVERYWHERE, LABEL, PUBLIC, SILOS, Patients, findings, patients
from tests.messy.test_order import with_weights

CODES = {"unrelated-rows", "contradicting-columns", "two-scales"}
Found = set[tuple[str, str, str]]


def measured(records: int = 600) -> Patients:
    """Patients with weights, blood pressures of which the upper one is the larger, and a clear label."""
    p = with_weights(patients(records=records))
    upper = {
        name: [drawn(name, row, 11).normal(135, 18) for row in range(len(p.tables[name]["age"]))] for name in p.tables
    }
    p.add("systolic", lambda name, row: f"{upper[name][row]:.0f}")
    p.add("diastolic", lambda name, row: f"{0.45 * upper[name][row] + drawn(name, row, 12).normal(20, 6):.0f}")
    for name in SILOS:
        table = p.tables[name]
        risk = np.array(table["age"], float) / 14 + np.log(np.array(table["crp"], float))
        table[LABEL] = np.where(
            risk > np.median(risk) + drawn(name, 0, 13).normal(0, 0.5, len(risk)), "yes", "no"
        ).tolist()
    return p


def mixed(p: Patients, column: str, rows: slice) -> None:
    cells = p.tables["essen"][column]
    cells[rows] = np.random.default_rng(3).permutation(np.array(cells[rows])).tolist()


def exchanged(p: Patients, rows: slice) -> None:
    table = p.tables["essen"]
    table["systolic"][rows], table["diastolic"][rows] = table["diastolic"][rows], table["systolic"][rows]


def other_classes(p: Patients) -> None:
    table = p.tables["essen"]
    table[LABEL][430:] = [{"yes": "no", "no": "yes"}[cell] for cell in table[LABEL][430:]]


WRONG: dict[str, tuple[Callable[[Patients], object], Found]] = {
    "a column from the middle on": (
        lambda p: mixed(p, "weight", slice(350, None)),
        {("unrelated-rows", "weight", "essen")},
    ),
    "a column up to the middle": (
        lambda p: mixed(p, "girth", slice(250)),
        {("unrelated-rows", "girth", "essen")},
    ),
    "labels of one half": (lambda p: mixed(p, LABEL, slice(300)), {("unrelated-rows", LABEL, "essen")}),
    "labels that are sorted from the middle on": (
        lambda p: p.tables["essen"][LABEL].__setitem__(slice(300, None), sorted(p.tables["essen"][LABEL][300:])),
        {("unrelated-rows", LABEL, "essen")},
    ),
    "one class where nothing is known yet": (
        lambda p: p.some("essen", LABEL, range(320, 600), "no"),
        {("unrelated-rows", LABEL, "essen")},
    ),
    "the other classes near the end": (other_classes, {("unrelated-rows", LABEL, "essen")}),
    "two numbers for each other in some records": (
        lambda p: exchanged(p, slice(0, None, 15)),
        {("contradicting-columns", "systolic", "essen")},
    ),
}


def found(p: Patients, folder: Path) -> Found:
    return {each for each in findings(p, folder) if each[0] in CODES}


@pytest.mark.parametrize("what", WRONG)
def test_parts_of_a_table_that_are_in_disorder_are_said(tmp_path: Path, what: str) -> None:
    spoil, expected = WRONG[what]
    spoiled = measured()
    spoil(spoiled)
    assert found(spoiled, tmp_path) == expected


def by(column: str) -> Callable[[Patients], object]:
    def order(p: Patients) -> None:
        for name, table in p.tables.items():
            if column in table:
                numeric = column not in (LABEL, "sex")
                rows = sorted(
                    range(len(table["age"])),
                    key=lambda row: float(table[column][row]) if numeric else table[column][row],
                )
                p.tables[name] = {key: [cells[row] for row in rows] for key, cells in table.items()}

    return order


def older(p: Patients) -> None:
    """The last records are of a ward with other patients, whose labels follow from nothing."""
    for table in p.tables.values():
        table["age"][300:] = [str(int(cell) + 25) for cell in table["age"][300:]]
        if LABEL in table:
            table[LABEL][300:] = np.random.default_rng(1).choice(["yes", "no"], len(table[LABEL]) - 300).tolist()


HEALTHY: dict[str, Callable[[Patients], object]] = {
    "as they are": lambda p: None,
    "by label": by(LABEL),
    "by age": by("age"),
    "by sex": by("sex"),
    "other patients at the end": older,
    "pressures that are near each other": lambda p: p.change(
        ("essen",), "diastolic", lambda cell: f"{float(cell) * 1.35:.0f}"
    ),
}


@pytest.mark.parametrize("what", HEALTHY)
def test_nothing_is_said_of_tables_in_another_order(tmp_path: Path, what: str) -> None:
    p = measured()
    HEALTHY[what](p)
    assert not found(p, tmp_path)


def flowers(change: Callable[[np.ndarray[tuple[int], np.dtype[np.float64]]], object] | None = None) -> Patients:
    """Two kinds of flowers in public, and three at silos; some lengths of the public ones perhaps in another unit."""
    iris = load_iris()
    X = np.round(iris.data[np.argsort(np.random.default_rng(0).random(len(iris.data)))], 1)
    y = iris.target[np.argsort(np.random.default_rng(0).random(len(iris.data)))]
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    public = X[y != 1]
    if change:
        public = X[y == 1].copy()
        change(public[:, 0])
    tables = {PUBLIC: {name: [f"{v:g}" for v in column] for name, column in zip(names, public.T, strict=True)}}
    for at, silo in enumerate(SILOS):
        own = {name: [f"{v:g}" for v in column] for name, column in zip(names, X[at::3].T, strict=True)}
        tables[silo] = own | {LABEL: [str(iris.target_names[kind]) for kind in y[at::3]]}
    return Patients(tables)


def test_two_kinds_of_flowers_are_no_two_units(tmp_path: Path) -> None:
    assert not {each for each in found(flowers(), tmp_path) if each[0] == "two-scales"}


def test_two_units_are_said_of_flowers_of_one_kind(tmp_path: Path) -> None:
    spoiled = flowers(lambda lengths: lengths.__setitem__(slice(20), lengths[:20] * 10))
    assert ("two-scales", "sepal length", "") in found(spoiled, tmp_path)


def test_all_tables_are_looked_at(tmp_path: Path) -> None:
    spoiled = measured()
    for name in EVERYWHERE:
        cells = spoiled.tables[name]["weight"]
        cells[150:] = np.random.default_rng(5).permutation(np.array(cells[150:])).tolist()
    assert ("unrelated-rows", "weight", PUBLIC) not in found(spoiled, tmp_path)
    assert {("unrelated-rows", "weight", silo) for silo in ("", *SILOS)} <= found(spoiled, tmp_path)
