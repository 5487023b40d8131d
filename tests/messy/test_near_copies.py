"""Copies across test and training records that are not exact, and patients measured again; and honest data."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn import datasets as shipped

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import load as load_shipped
from fedct_flwr.datasets.folder_inspection import inspect_folder
from fedct_flwr.datasets.inspection.near_copies import NearCopies, near_copies
from fedct_flwr.datasets.leaks import leaks
from fedct_flwr.datasets.schema import Column
from fedct_flwr.types import Examples
from tests.cli.silos import Fedct
from tests.messy.families import drawn
from tests.messy.patients import LABEL, PUBLIC, SILOS, Patients, load, patients

Row = dict[str, str]
DIGITS = {"age": (14, 0), "crp": (5, 1), "height": (9, 1), "glucose": (1.1, 1)}
"""Of each number its spread and its decimals."""
ACCEPT = "repeated-records,value-spellings,unknown-values,record-number"


def rows(p: Patients, name: str) -> list[Row]:
    return [dict(zip(p.tables[name], cells, strict=True)) for cells in zip(*p.tables[name].values(), strict=True)]


def put(p: Patients, name: str, found: list[Row]) -> None:
    p.tables[name] = {column: [row[column] for row in found] for column in found[0]}


def rounded(row: Row, number: int) -> Row:
    return {**row, **{name: str(round(float(row[name]))) for name in ("crp", "height", "glucose")}}


def one_number_rounded(row: Row, number: int) -> Row:
    return {**row, "height": str(round(float(row["height"])))}


def one_cell(row: Row, number: int) -> Row:
    name = ("crp", "height", "glucose", "age")[number % 4]
    return {**row, name: str(round(drawn(name, number).uniform(20, 90), DIGITS[name][1] or None))}


def spelled(row: Row, number: int) -> Row:
    return {**row, "ward": f" {row['ward'].upper()}", "sex": row["sex"].upper()}


def unchanged(row: Row, number: int) -> Row:
    return row


def twice(p: Patients, change: Callable[[Row, int], Row], copies: int = 60) -> None:
    found = rows(p, "essen")
    put(p, "essen", [*found, *(change(row, number) for number, row in enumerate(found[:copies]))])


def numbered(p: Patients, change: Callable[[Row, int], Row]) -> None:
    twice(p, change)
    for name, table in p.tables.items():
        table["visit"] = [str(drawn(name, row, 8).integers(10**6)) for row in range(len(table["age"]))]


def measured_again(p: Patients, spread: float, times: int = 5) -> None:
    """Several rows for each of 80 patients, whose labels are random."""
    for silo in SILOS:
        found = []
        for patient, row in enumerate(rows(p, silo)[:80]):
            rng = drawn(silo, patient, 3)
            label = str(rng.choice(["yes", "no"]))
            for _ in range(times):
                noisy = {
                    name: str(abs(round(float(row[name]) + spread * unit * rng.normal(), decimals or None)))
                    for name, (unit, decimals) in DIGITS.items()
                }
                found.append({**row, **noisy, LABEL: label})
        put(p, silo, found)


COPIES: dict[str, Callable[[Patients], None]] = {
    "rounded": lambda p: twice(p, rounded),
    "one number rounded": lambda p: twice(p, one_number_rounded),
    "one cell": lambda p: twice(p, one_cell),
    "case and blanks": lambda p: twice(p, spelled),
    "another visit": lambda p: numbered(p, unchanged),
    "another visit and cell": lambda p: numbered(p, one_cell),
    "measured again": lambda p: measured_again(p, 0.05),
    "measured again, less precisely": lambda p: measured_again(p, 0.2),
    "measured nine times": lambda p: measured_again(p, 0.05, 9),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("what", COPIES)
def test_copies_that_are_not_exact_are_said_with_group_as_the_remedy(tmp_path: Path, what: str, seed: int) -> None:
    spoiled = patients(seed)
    COPIES[what](spoiled)
    found = [leak for leak in leaks(load(spoiled.write(tmp_path), accept=ACCEPT, seed=seed)) if "nearly" in leak.said]
    (leak,) = found
    assert leak.serious
    assert "'essen'" in leak.said
    assert leak.said.endswith("name the patients' column as group, or remove repeated rows")


def test_a_test_file_in_another_order_of_columns_repeats_records(tmp_path: Path) -> None:
    p = patients()
    folder = p.write(tmp_path)
    copied = [one_number_rounded(row, number) for number, row in enumerate(rows(p, "essen")[:100])]
    names = [*reversed(copied[0])]
    lines = [",".join(names), *(",".join(row[name] for name in names) for row in copied)]
    (folder / "essen.test.csv").write_text("\n".join(lines) + "\n")
    said = [leak.said for leak in leaks(load(folder, accept=ACCEPT))]
    assert [each for each in said if "nearly a training record of the same silo ('essen'" in each]


def test_inspect_says_so_and_can_be_told_that_it_is_meant_so(tmp_path: Path) -> None:
    spoiled = patients()
    measured_again(spoiled, 0.05)
    config = {"study": "messy", "data": "files", "data-dir": str(spoiled.write(tmp_path)), "label-column": LABEL}
    found = inspect_folder(RunConfig.from_flower(config)).inspection
    assert [each.fix for each in found.said if "nearly" in each.said] == [
        "name the patients' column as group, or remove repeated rows"
    ]
    accepted = inspect_folder(RunConfig.from_flower({**config, "accept": "test-records"})).inspection
    assert not [each for each in accepted.said if "nearly" in each.said]


def test_with_the_group_nothing_is_said(tmp_path: Path) -> None:
    spoiled = patients()
    measured_again(spoiled, 0.05)
    for silo in SILOS:
        spoiled.tables[silo]["patient"] = [f"{silo}-{row // 5}" for row in range(400)]
    assert not list(leaks(load(spoiled.write(tmp_path), group_column="patient", accept=ACCEPT)))


# --- honest data


def _looked_at(X: np.ndarray, categories: int, seed: int) -> NearCopies:
    """Of a fifth of the records, which are split at random."""
    order = np.random.default_rng(seed).permutation(len(X))
    test, own = np.split(X[order].astype(np.float64), [len(X) // 5])
    columns = [Column(f"x{at}", tuple(map(str, range(40))) if at < categories else None) for at in range(X.shape[1])]
    halves = (Examples(part, np.zeros(len(part), dtype=np.int32)) for part in (test, own))
    return near_copies(*halves, columns, np.zeros(len(test), dtype=bool))


def dependent(rng: np.random.Generator, records: int) -> np.ndarray:
    """Categories that depend on each other, as those of mushrooms, and numbers that go with them."""
    kind = rng.integers(0, 12, records)
    words = np.stack([(kind * (at + 3) + (rng.random(records) < 0.2) * rng.integers(0, 9, records)) % 9
                      for at in range(12)], axis=1)  # fmt: skip
    return np.column_stack([words, rng.poisson(kind), (rng.random(records) < 0.05) * rng.integers(1, 99, records)])


def as_columns(words: np.ndarray) -> np.ndarray:
    """A column of zeros and ones for each value of each word."""
    return np.column_stack([words[:, [at]] == np.unique(words[:, at]) for at in range(words.shape[1])]).astype(float)


HONEST: dict[str, Callable[[np.random.Generator], tuple[np.ndarray, int]]] = {
    "zeros and ones": lambda rng: (rng.integers(0, 2, (800, 20)), 0),
    "mostly zeros": lambda rng: (rng.random((800, 20)) < 0.05, 0),
    "many, mostly zeros": lambda rng: (rng.random((400, 100)) < 0.05, 0),
    "few whole numbers": lambda rng: (rng.integers(0, 5, (400, 5)), 0),
    "numbers": lambda rng: (rng.normal(size=(400, 6)), 0),
    "numbers of one decimal": lambda rng: (rng.normal(size=(400, 6)).round(1), 0),
    "numbers of two dimensions": lambda rng: (rng.normal(size=(400, 2)) @ rng.normal(size=(2, 10)), 0),
    "words as zeros and ones": lambda rng: (as_columns(rng.integers(0, 3, (400, 4))), 0),
    "many words as zeros and ones": lambda rng: (as_columns(rng.integers(0, 4, (400, 12))), 0),
    "words as zeros and ones, and numbers": lambda rng: (
        np.column_stack([as_columns(rng.integers(0, 4, (400, 3))), rng.normal(size=(400, 3)).round(1)]),
        0,
    ),
    "one number in three forms": lambda rng: (
        np.column_stack([age := rng.integers(20, 90, 400), 2026 - age, age // 10, rng.integers(0, 3, (400, 3))]),
        0,
    ),
    "three numbers and many words": lambda rng: (
        np.column_stack([rng.integers(0, 4, (400, 9)), rng.normal(size=(400, 3)).round(2)]),
        9,
    ),
    "heavy tails": lambda rng: (rng.lognormal(0, 2, (400, 8)), 0),
    "categories that depend on each other": lambda rng: (dependent(rng, 2000), 12),
    "much missing": lambda rng: (np.where(rng.random((400, 8)) < 0.6, np.nan, rng.normal(size=(400, 8))), 0),
    "breast cancer": lambda rng: (shipped.load_breast_cancer().data, 0),
    "diabetes": lambda rng: (shipped.load_diabetes().data, 0),
    "iris": lambda rng: (shipped.load_iris().data, 0),
    "wine": lambda rng: (shipped.load_wine().data, 0),
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("what", HONEST)
def test_nothing_is_said_of_honest_records(what: str, seed: int) -> None:
    X, categories = HONEST[what](np.random.default_rng(seed))
    assert _looked_at(X, categories, seed).near == 0


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_said_of_heart_disease(seed: int) -> None:
    dataset = load_shipped(RunConfig.from_flower({"study": "s", "data": "heart-disease", "seed": seed}))
    assert not [leak for leak in leaks(dataset) if "nearly" in leak.said]


def test_a_part_of_many_test_records_is_asked_about() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200_000, 8))
    X[:40_000] = X[40_000:80_000] + rng.normal(0, 0.001, (40_000, 8))
    halves = (Examples(part, np.zeros(len(part), dtype=np.int32)) for part in (X[:40_000], X[40_000:]))
    found = near_copies(*halves, [Column(str(at)) for at in range(8)], np.zeros(40_000, dtype=bool))
    assert found.near == found.asked
    assert found.asked < 2000


def test_a_simulation_says_so_unless_it_is_meant_so(fedct: Fedct, here: Path) -> None:
    spoiled = patients()
    measured_again(spoiled, 0.05)
    spoiled.write(here / "wards")
    options = ("simulate", "--data-dir", "wards", "--label", LABEL, "--in-process", "--no-watch", "--rounds", "1")
    said = fedct(*options, "--no-baselines", "--run-dir", "said")
    assert said.code == 0, said.err
    assert "nearly a training record" in " ".join((said.out + said.err).split())
    accepted = fedct(*options, "--no-baselines", "--run-dir", "accepted", "--accept", "test-records")
    assert accepted.code == 0, accepted.err
    assert "nearly a training record" not in " ".join((accepted.out + accepted.err).split())


def noisy(row: Row, number: int) -> Row:
    rng = drawn("noise", number)
    return {
        **row,
        **{name: f"{float(row[name]) + 0.05 * spread * rng.normal():.2f}" for name, (spread, _) in DIGITS.items()},
    }


NEARLY: dict[str, Callable[[Row, int], Row]] = {"a cell changed": one_cell, "noise": noisy, "rounded": rounded}


def copied(source: str, target: str, change: Callable[[Row, int], Row]) -> Patients:
    """Patients some of whom come from another table, in no order."""
    p = patients()
    mine, theirs = rows(p, target), rows(p, source)
    new = [
        {name: row[name] for name in mine[0]}
        for row in (change(row, number) for number, row in enumerate(theirs[:150]))
    ]
    both = [*mine[150:], *new]
    put(p, target, [both[at] for at in np.random.default_rng(3).permutation(len(both))])
    return p


@pytest.mark.parametrize("what", NEARLY)
@pytest.mark.parametrize(
    ("target", "code", "silo"), [(PUBLIC, "public-records", "essen"), ("koeln", "shared-records", "koeln")]
)
def test_records_nearly_of_another_table_are_said(tmp_path: Path, what: str, target: str, code: str, silo: str) -> None:
    found = load(copied("essen", target, NEARLY[what]).write(tmp_path)).findings
    said = [each.said for each in found if (each.code, each.silo) == (code, silo)]
    assert said
    assert 75 <= int(said[0].split()[0]) <= 200


def test_nothing_is_said_of_tables_that_are_full_of_near_copies_themselves(tmp_path: Path) -> None:
    p = patients()
    everything = [row for name in SILOS for row in rows(p, name)]
    again = [*everything, *(noisy(row, number) for number, row in enumerate(everything))]
    for at, name in enumerate(SILOS):
        put(p, name, [again[row] for row in np.random.default_rng(1).permutation(len(again))[at::3]])
    found = load(p.write(tmp_path), accept="value-spellings").findings
    assert not [each for each in found if each.code == "shared-records"]
