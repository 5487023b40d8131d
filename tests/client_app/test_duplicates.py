"""Duplicates with the public set: a forged one is noticed, an honest one hardly ever, and no record is told."""

import math
import time
import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray

from client_app.duplicates import DuplicateReport, find_duplicates, p_value
from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.schema import Column, Schema
from fedct_flwr.types import DataError
from tests.hospitals import HOSPITALS

CLASSES = ("no", "yes")
IMAGES = Schema(CLASSES)


def hospitals(seed: int) -> datasets.FederatedDataset:
    return datasets.load(RunConfig.from_flower({"study": "test", "data": "heart-disease", "seed": seed}))


def numeric(columns: int) -> Schema:
    return Schema.numeric(CLASSES, tuple(f"c{i}" for i in range(columns)))


def forged(data: datasets.FederatedDataset, silo: int, noise: float, rng: np.random.Generator) -> DuplicateReport:
    """Ten public records are the silo's own, but for noise in standard deviations."""
    records, public = data.silos[silo].private.X, data.public.X.copy()
    chosen, places = (rng.choice(len(table), 10, replace=False) for table in (records, public))
    spread = np.nanstd(public, axis=0)
    public[places] = records[chosen] + noise * spread * rng.normal(size=(10, records.shape[1]))
    return find_duplicates(records, public, data.schema)


def test_a_public_set_with_ten_of_its_patients_raises_the_alarm_nearly_always() -> None:
    rng = np.random.default_rng(0)
    reports = [forged(hospitals(seed), silo, 0.1, rng) for seed in range(5) for silo in range(4)]
    assert np.mean([report.alarm for report in reports]) >= 0.85
    exact = [forged(hospitals(seed), silo, 0.0, rng) for seed in range(5) for silo in range(4)]
    assert all(report.exact >= 10 for report in exact)
    assert np.mean([report.alarm for report in exact]) >= 0.95
    assert all(report.near >= report.exact for report in exact)


def test_honest_hospitals_hardly_ever_raise_it() -> None:
    alarms = 0
    for seed in range(10):
        data = hospitals(seed)
        alarms += sum(find_duplicates(silo.private.X, data.public.X, data.schema).alarm for silo in data.silos)
    assert alarms <= 2


def test_a_public_set_made_of_all_its_patients_raises_it() -> None:
    data = hospitals(0)
    for name in HOSPITALS:
        records = data.silos[data.position(name)].private.X
        report = find_duplicates(records, records[::-1].copy(), data.schema)
        assert report.alarm
        assert report.exact == len(records)


def test_golden_counts_on_three_records() -> None:
    public = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0]])
    records = np.array([[0.0, 0.0], [4.0, 0.2], [2.0, 2.0]])
    report = find_duplicates(records, public, numeric(2))
    # The standard deviation of each column is 2, so the second lies 0.1 / sqrt(2) from the nearest.
    assert (report.num_records, report.num_public, report.exact, report.near) == (3, 4, 1, 2)


def test_missing_values_are_no_difference_where_both_lack_them_and_one_where_one_does() -> None:
    public = np.array([[0.0, math.nan, 1.0], [2.0, 2.0, 3.0], [9.0, 5.0, math.nan]])
    both = find_duplicates(np.array([[0.0, math.nan, 1.0]]), public, numeric(3))
    one = find_duplicates(np.array([[0.0, 7.0, 1.0]]), public, numeric(3))
    empty = find_duplicates(np.full((2, 3), math.nan), np.full((4, 3), math.nan), numeric(3))
    assert (both.exact, one.exact, one.near) == (1, 0, 0)
    assert (empty.exact, empty.near, empty.alarm) == (0, 0, False)


def test_categories_are_the_same_or_not_however_they_are_numbered() -> None:
    schema = Schema(CLASSES, (Column("a"), Column("b", ("p", "q", "r"))))
    public = np.array([[0.0, 0.0], [5.0, 2.0], [9.0, 1.0]])
    report = find_duplicates(np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 2.0]]), public, schema)
    assert (report.exact, report.near) == (1, 1)


def test_coarse_records_that_agree_by_chance_raise_no_alarm() -> None:
    rng = np.random.default_rng(0)
    schema = Schema(CLASSES, tuple(Column(f"c{i}", ("a", "b")) for i in range(4)))
    records, public = (rng.integers(0, 2, size=(200, 4)).astype(np.float64) for _ in range(2))
    report = find_duplicates(records, public, schema)
    assert report.exact == 200
    assert not report.alarm


@pytest.mark.parametrize("sizes", [(1, 1), (1, 2), (2, 3), (50, 1), (1, 50)])
def test_few_records_are_compared_and_raise_no_alarm(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    records, public = (rng.normal(size=(size, 3)) for size in sizes)
    assert not find_duplicates(records, public, numeric(3)).alarm
    assert not find_duplicates(public[:1], public, numeric(3)).alarm


def test_images_are_compared_pixel_by_pixel() -> None:
    rng = np.random.default_rng(0)
    images: NDArray[np.uint8] = rng.integers(0, 256, size=(120, 8, 8, 3), dtype=np.uint8)
    records, public = images[:60], images[60:].copy()
    assert not find_duplicates(records, public, IMAGES).alarm
    public[:10] = records[:10]
    public[10:20] = np.clip(records[10:20].astype(int) + rng.integers(-3, 4, size=(10, 8, 8, 3)), 0, 255)
    report = find_duplicates(records, public, IMAGES)
    assert (report.exact, report.near, report.alarm) == (10, 20, True)


def test_a_column_that_never_changes_and_huge_numbers_are_no_trouble() -> None:
    rng = np.random.default_rng(0)
    public = np.column_stack([np.full(50, 7.0), 1e12 + rng.normal(size=50), rng.normal(size=50) * 1e-9])
    records = public[:3].copy()
    report = find_duplicates(records, public, numeric(3))
    assert report.exact == 3


def test_chance_is_what_the_public_set_shows() -> None:
    spread = np.linspace(0.4, 1, 200)
    assert p_value(spread, spread) == 1.0
    assert p_value(np.r_[np.zeros(10), spread], spread) < 1e-3
    # One pair is no proof, and ten are none where a tenth of the public set has such pairs itself.
    assert p_value(np.r_[0.0, spread], spread) > 0.1
    assert p_value(np.r_[np.zeros(10), spread], np.r_[np.zeros(20), spread]) > 0.1


def test_the_sentence_has_counts_and_a_remedy() -> None:
    assert DuplicateReport(168, 228, 10, 12, alarm=True).sentence == (
        "of 168 records 10 have an exact and 12 at least a near duplicate among the 228 examples of the public set, "
        "which is no chance: ask the coordinator where the public set comes from"
    )
    assert DuplicateReport(168, 228, 0, 1, alarm=False).sentence.endswith("no more than chance explains")


def test_other_columns_are_refused() -> None:
    with pytest.raises(DataError, match="shape"):
        find_duplicates(np.zeros((3, 2)), np.zeros((3, 4)), numeric(2))


def test_memory_is_bounded_and_thousands_of_records_take_seconds() -> None:
    rng = np.random.default_rng(0)
    records, public = rng.normal(size=(4000, 13)), rng.normal(size=(4000, 13))
    records[rng.random(records.shape) < 0.1] = math.nan
    tracemalloc.start()
    started = time.process_time()
    try:
        find_duplicates(records, public, numeric(13))
        assert tracemalloc.get_traced_memory()[1] < 400_000_000
    finally:
        tracemalloc.stop()
    assert time.process_time() - started < 60
