"""Blocks of columns, and every second row, that stand next to other records than their own; and tables that do not."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from fedct_flwr.datasets.inspection import Words, inspect_tables
from tests.messy.patients import EVERYWHERE, LABEL, PUBLIC, Patients, findings
from tests.messy.test_parts import by, measured

CODES = {"unrelated-rows", "unrelated-column", "unrelated-labels", "reversed-column"}
Found = set[tuple[str, str, str]]


def misjoined(p: Patients, name: str, columns: Sequence[str], rows: slice = slice(None)) -> None:
    """Give some columns of some records, together, to others of these records."""
    chosen = np.arange(len(p.tables[name]["age"]))[rows]
    other = np.random.default_rng(4).permutation(chosen)
    for column in columns:
        cells = np.array(p.tables[name][column])
        cells[chosen] = cells[other]
        p.tables[name][column] = cells.tolist()


def each_for_itself(p: Patients, name: str) -> None:
    for at, cells in enumerate(p.tables[name].values()):
        cells[:] = np.random.default_rng(at).permutation(np.array(cells)).tolist()


def other_classes(p: Patients) -> None:
    cells = p.tables["essen"][LABEL]
    cells[::2] = [{"yes": "no", "no": "yes"}[cell] for cell in cells[::2]]


EVERY_SECOND = slice(None, None, 2)

WRONG: dict[str, tuple[Callable[[Patients], object], Found]] = {
    "labels of every second record": (
        lambda p: misjoined(p, "essen", [LABEL], EVERY_SECOND),
        {("unrelated-rows", LABEL, "essen")},
    ),
    "the other classes in every second record": (
        other_classes,
        {("unrelated-rows", LABEL, "essen"), ("unrelated-labels", "", "essen")},
    ),
    "labels of every third record": (
        lambda p: misjoined(p, "essen", [LABEL], slice(1, None, 3)),
        {("unrelated-rows", LABEL, "essen")},
    ),
    "a column of every second record": (
        lambda p: misjoined(p, "koeln", ["weight"], EVERY_SECOND),
        {("unrelated-rows", "weight", "koeln")},
    ),
    "a block of every second record in public": (
        lambda p: misjoined(p, PUBLIC, ["systolic", "diastolic", "height", "weight", "girth"], EVERY_SECOND),
        set(),
    ),
    "each column of public for itself": (
        lambda p: each_for_itself(p, PUBLIC),
        {("unrelated-column", "height", "")},
    ),
}


def found(p: Patients, folder: Path) -> Found:
    return {each for each in findings(p, folder) if each[0] in CODES}


@pytest.mark.parametrize("what", WRONG)
def test_blocks_next_to_other_records_are_said(tmp_path: Path, what: str) -> None:
    spoil, expected = WRONG[what]
    spoiled = measured()
    spoil(spoiled)
    assert found(spoiled, tmp_path) == expected


@pytest.mark.parametrize("column", [LABEL, "age", "sex"])
def test_nothing_is_said_of_tables_in_an_order(tmp_path: Path, column: str) -> None:
    p = measured()
    by(column)(p)
    assert not found(p, tmp_path)


def test_nothing_is_said_of_visits_in_turn(tmp_path: Path) -> None:
    p = measured()
    for name in EVERYWHERE:
        for column, cells in p.tables[name].items():
            if column != "glucose":
                cells[1::2] = cells[::2]
    assert not {each for each in found(p, tmp_path) if each[0] == "unrelated-rows"}


@pytest.mark.parametrize("seed", [4, 5, 11, 16])
@pytest.mark.parametrize("how", ["copied", "measured again", "patient by patient"])
def test_nothing_is_said_of_five_visits_of_each_patient(seed: int, how: str) -> None:
    """Sixty patients tell less than 300 records seem to."""
    rng = np.random.default_rng(seed)
    patients = 60

    def visits() -> pa.Table:
        age, sex = rng.normal(size=patients), np.where(rng.random(patients) < 0.5, "f", "m")
        crp, systolic = 0.6 * age + rng.normal(size=patients), 0.4 * age + rng.normal(size=patients).round(2)
        ill = np.where(rng.random(patients) < 1 / (1 + np.exp(-age - crp)), "yes", "no")
        again = 0.5 * rng.normal(size=(2, 5 * patients)) if how != "copied" else np.zeros((2, 1))
        columns = {"age": np.tile(age, 5), "sex": np.tile(sex, 5), LABEL: np.tile(ill, 5)}
        columns |= {"crp": np.tile(crp, 5) + again[0], "systolic": np.tile(systolic, 5) + again[1]}
        order = np.argsort(np.tile(np.arange(patients), 5), kind="stable") if how == "patient by patient" else ...
        return pa.table({name: cells[order] for name, cells in columns.items()})

    public = visits().drop_columns([LABEL]).slice(0, patients)
    findings = inspect_tables(public, {name: visits() for name in ("north", "south")}, LABEL).findings
    assert not {each.code for each in findings} & CODES


def at_a_silo(X: np.ndarray, y: np.ndarray, change: Callable[[np.ndarray, np.ndarray], object]) -> Found:
    """What a real silo is told, whose records are a half of these, next to a public set of the others."""
    order = np.random.default_rng(1).permutation(len(X))
    public, (own, labels) = X[order[::2]], (X[order[1::2]].copy(), y[order[1::2]].copy())
    change(own, labels)
    names = [f"x{at}" for at in range(X.shape[1])]
    silo = pa.table({**dict(zip(names, own.T, strict=True)), LABEL: [f"c{label}" for label in labels]})
    said = inspect_tables(
        pa.table(dict(zip(names, public.T, strict=True))), {"a": silo}, LABEL, words=Words(private=True)
    ).findings
    return {(each.code, each.column, each.silo) for each in said if each.code in CODES}


CANCER = load_breast_cancer()
FIRST: Callable[[np.ndarray, np.ndarray], object] = lambda X, y: np.random.default_rng(2).shuffle(X[:, :10])  # noqa: E731
LABELS: Callable[[np.ndarray, np.ndarray], object] = lambda X, y: np.random.default_rng(2).shuffle(y)  # noqa: E731


def test_a_real_silo_is_told_of_a_block_and_of_its_labels() -> None:
    assert at_a_silo(CANCER.data, CANCER.target, FIRST) == {("unrelated-column", "x0", "a")}
    assert at_a_silo(CANCER.data, CANCER.target, LABELS) == {("unrelated-labels", "", "a")}


@pytest.mark.parametrize("data", [CANCER, load_wine()])
def test_nothing_is_said_of_shipped_data(data: object) -> None:
    assert not at_a_silo(data.data, data.target, lambda X, y: None)  # type: ignore[attr-defined]
