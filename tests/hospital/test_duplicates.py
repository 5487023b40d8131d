"""Duplicates with the public set: a forged one is noticed, an honest one hardly ever, and no record is told."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.hospital.duplicates import find_duplicates

CLASSES = ("no", "yes")


def numeric(columns: int) -> Schema:
    return Schema.numeric(CLASSES, tuple(f"c{i}" for i in range(columns)))


def test_honest_hospitals_hardly_ever_raise_it_but_by_a_patient_who_is_in_both() -> None:
    reports = []
    for seed in range(10):
        data = datasets.load(RunConfig.from_flower({"study": "test", "data": "heart-disease", "seed": seed}))
        reports += [find_duplicates(silo.private.X, data.public.X, data.schema) for silo in data.silos]
    # The files have a patient or two twice, at Budapest and Long Beach.
    assert sum(report.alarm for report in reports if not report.exact) <= 2
    assert sum(report.exact for report in reports) <= 10


def test_missing_values_are_no_difference_where_both_lack_them_and_one_where_one_does() -> None:
    records = np.array([[0.0, math.nan, 1.0], [2.0, 2.0, 3.0], [9.0, 5.0, math.nan]])
    for changed, exact in (([0.0, math.nan, 1.0], 1), ([0.0, 2.0, 1.0], 0), ([2.0, math.nan, 3.0], 0)):
        assert find_duplicates(records, np.array([changed]), numeric(3)).exact == exact
    empty = find_duplicates(np.full((2, 3), math.nan), np.full((4, 3), math.nan), numeric(3))
    assert (empty.exact, empty.rounded, empty.own_exact, empty.alarm) == (0, 0, 0, False)


def test_categories_are_the_same_or_not_however_they_are_numbered() -> None:
    schema = Schema(CLASSES, (Column("a"), Column("b", ("p", "q", "r"))))
    public = np.array([[0.0, 0.0], [5.0, 2.0], [9.0, 1.0]])
    report = find_duplicates(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 2.0]]), public, schema)
    assert (report.exact, report.rounded) == (1, 1)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 2), (2, 3), (50, 1), (1, 50)])
def test_few_records_are_compared_and_raise_no_alarm_but_for_exact_ones(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    records, public = (rng.normal(size=(size, 3)) for size in sizes)
    assert not find_duplicates(records, public, numeric(3)).alarm


HARD_COLUMNS: dict[str, NDArray[np.float64]] = {
    "never changes": np.full(60, 7.0),
    "large offset": 1e12 + np.arange(60.0),
    "tiny": np.random.default_rng(1).normal(size=60) * 1e-9,
    "an own outlier": np.r_[np.random.default_rng(2).normal(size=59), 1e155],
    "at the end of floats": np.r_[np.random.default_rng(3).normal(size=58), 1e308, -1e308],
    "infinite": np.r_[np.random.default_rng(4).normal(size=58), np.inf, -np.inf],
    "missing everywhere": np.full(60, np.nan),
}


@pytest.mark.parametrize("name", HARD_COLUMNS)
@pytest.mark.filterwarnings("error")
def test_no_column_of_the_silo_hides_a_copy_or_raises_a_false_alarm(name: str) -> None:
    rng = np.random.default_rng(0)
    records = np.column_stack([rng.normal(size=(60, 4)), HARD_COLUMNS[name]])
    public = np.column_stack([rng.normal(size=(80, 4)), rng.choice(HARD_COLUMNS[name], 80)])
    assert not find_duplicates(records, public, numeric(5)).alarm
    public[0] = records[-1]
    assert find_duplicates(records, public, numeric(5)).exact == 1


@pytest.mark.parametrize(
    ("records", "value", "public", "expected"),
    [
        ([50, 51, 53, 60], 53, 53.4, True),
        ([50, 51, 53, 60], 53, 53.6, False),
        ([0.1 + 0.2, 0.4, 0.6, 0.9], 0.1 + 0.2, 0.3, True),
        ([0, 1, 1, 0], 1, 1.3, True),
        # No common divisor.
        ([0.1234, 1.41421, 2.71828, 3.14159], 0.1234, 0.12341, False),
        ([0.1234, 1.41421, 2.71828, 3.14159], 0.1234, 0.1234 + 1e-9, True),
    ],
)
def test_values_are_the_same_as_finely_as_the_records_are_written(
    records: list[float], value: float, public: float, expected: bool
) -> None:
    own = np.array([*records, value])[:, None]
    assert (find_duplicates(own, np.array([[public]]), numeric(1)).exact > 0) is expected


def test_case_and_blanks_of_a_text_hide_no_copy_and_another_word_makes_another_text() -> None:
    schema = Schema(CLASSES, (Column("age"), Column("note", text=True)))
    records = np.array([[50.0, "Chest pain  at night"], [60.0, "None"], [70.0, ""]], dtype=object)
    for note, exact in ((" chest pain at NIGHT", 1), ("chest pain at noon", 0)):
        assert find_duplicates(records, np.array([[50.0, note]], dtype=object), schema).exact == exact


def test_copies_of_images_are_found() -> None:
    rng = np.random.default_rng(0)
    records, public = (rng.integers(0, 256, (size, 8, 8, 1)) / 255 for size in (30, 40))
    schema = Schema(CLASSES)
    assert not find_duplicates(records, public, schema).rounded
    public[:3] = records[:3].astype(np.float32)
    assert find_duplicates(records, public, schema).exact == 3


def test_copies_that_were_rounded_raise_the_alarm_and_one_does_not() -> None:
    rng = np.random.default_rng(0)
    records, public = rng.normal(size=(60, 5)), rng.normal(size=(60, 5))
    public[:8] = np.round(records[:8], 4)
    found = find_duplicates(records, public, numeric(5))
    assert (found.exact, found.rounded >= 6, found.alarm) == (0, True, True)
    found = find_duplicates(records, public[7:], numeric(5))
    assert (found.exact, found.alarm) == (0, False)
