"""Golden numbers of a silo's own scale, on a handful of records."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.hospital.own_scale import OwnScale

CLASSES = ("no", "yes")
ONE = Schema.numeric(CLASSES, ("c0",))


def column(*values: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64)[:, None]


def same(records: list[float], value: float, public: float) -> bool:
    """Whether a public value is taken for a value of the records."""
    scale = OwnScale.of(column(*records), ONE)
    return scale.measure(column(value)).keys == scale.measure(column(public)).keys


def test_one_record_far_away_changes_the_scale_of_no_other() -> None:
    records, farther = column(*range(9)), column(*range(8), 1e155)
    ours, theirs = (OwnScale.of(table, ONE).measure(records[:8]).numbers for table in (records, farther))
    assert_allclose(ours, theirs)


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


def test_a_category_that_the_silo_never_has_is_missing_and_not_the_same() -> None:
    schema = Schema(CLASSES, (Column("a", ("p", "q", "r")),))
    scale = OwnScale.of(column(0, 1, 1), schema)
    found = scale.measure(column(1, 2, math.nan))
    assert_allclose(found.codes[:, 0], [1, math.nan, math.nan])
    assert len(set(found.keys)) == 3
