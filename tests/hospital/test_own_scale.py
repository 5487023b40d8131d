"""Golden numbers of a silo's own scale, on a handful of records."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.hospital.own_scale import EMPTY, OwnScale

CLASSES = ("no", "yes")
ONE = Schema.numeric(CLASSES, ("c0",))


def column(*values: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64)[:, None]


def same(records: list[float], value: float, public: float) -> bool:
    """Whether a public value is taken for a value of the records."""
    scale = OwnScale.of(column(*records), ONE)
    return scale.measure(column(value)).keys == scale.measure(column(public)).keys


def test_numbers_are_robust_standard_deviations_from_the_median_compressed() -> None:
    records = column(-2, -1, 0, 1, 2)
    # Quartiles at -1 and 1.
    found = OwnScale.of(records, ONE).measure(records).numbers
    assert_allclose(found, np.arcsinh(1.349 / 2 * records), rtol=1e-6)


def test_one_record_far_away_changes_the_scale_of_no_other() -> None:
    records, farther = column(*range(9)), column(*range(8), 1e155)
    ours, theirs = (OwnScale.of(table, ONE).measure(records[:8]).numbers for table in (records, farther))
    assert_allclose(ours, theirs)


def test_where_most_are_the_same_the_others_give_the_scale() -> None:
    records = column(0, 0, 0, 0, 0, 0, 0, 0, 10, 30)
    found = OwnScale.of(records, ONE).measure(records).numbers
    assert_allclose(found[-2:, 0], np.arcsinh([0.5, 1.5]), rtol=1e-6)


def test_what_is_far_from_all_records_is_missing() -> None:
    scale = OwnScale.of(column(*range(9)), ONE)
    assert np.isnan(scale.measure(column(-1e4, 4, 1e4, math.inf, math.nan)).numbers[:, 0]).tolist() == [
        True, False, True, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("records", "value", "public", "expected"),
    [
        ([50, 51, 53, 60], 53, 53.4, True),
        ([50, 51, 53, 60], 53, 53.6, False),
        ([0.1 + 0.2, 0.4, 0.6, 0.9], 0.1 + 0.2, 0.3, True),
        ([0, 1, 1, 0], 1, 1.3, True),
        # No steps: two values alone, and numbers without a common divisor.
        ([50, 60], 60, 60.1, False),
        ([0.1234, 1.41421, 2.71828, 3.14159], 0.1234, 0.12341, False),
        ([0.1234, 1.41421, 2.71828, 3.14159], 0.1234, 0.1234 + 1e-9, True),
    ],
)
def test_values_are_the_same_as_finely_as_the_records_are_written(
    records: list[float], value: float, public: float, expected: bool
) -> None:
    assert same(records, value, public) is expected


def test_columns_in_which_the_records_do_not_differ_are_left_out() -> None:
    schema = Schema(CLASSES, (Column("a"), Column("b", ("p", "q")), Column("c"), Column("d")))
    records = np.array([[1.0, 2.0, math.nan, 7.0], [2.0, 2.0, math.nan, 7.0], [3.0, 2.0, math.nan, 7.0]])
    scale = OwnScale.of(records, schema)
    assert scale.measure(records).keys == scale.measure(np.array([[1, 0, 5, 8], [2, 1, 6, 9], [3, 0, 7, 0.0]])).keys


def test_a_category_that_the_silo_never_has_is_missing_and_not_the_same() -> None:
    schema = Schema(CLASSES, (Column("a", ("p", "q", "r")),))
    scale = OwnScale.of(column(0, 1, 1), schema)
    found = scale.measure(column(1, 2, math.nan))
    assert_allclose(found.codes[:, 0], [1, math.nan, math.nan])
    assert len(set(found.keys)) == 3


def test_an_example_without_any_value_has_no_key() -> None:
    assert OwnScale.of(column(1, 2, 3), ONE).measure(column(math.nan, 1)).keys[0] == EMPTY


def test_measuring_in_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    records = rng.normal(size=(50, 3))
    scale = OwnScale.of(records, Schema.numeric(CLASSES, ("a", "b", "c")))
    whole = scale.measure(records)
    monkeypatch.setattr("fedct_flwr.hospital.own_scale._BLOCK_VALUES", 10)
    blocks = scale.measure(records)
    assert whole.keys == blocks.keys
    assert_allclose(whole.numbers, blocks.numbers)
