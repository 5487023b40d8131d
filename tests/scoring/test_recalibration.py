"""Chances out of ranks: golden numbers, and what holds for all records."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedct_flwr.scoring.assessment import Recalibration, events
from fedct_flwr.types import HardLabels


def drawn(n: int, classes: int, seed: int, sure: float) -> tuple[HardLabels, NDArray[np.float64]]:
    """At least three records of each class, and probabilities that know something of them, some of them 0 and 1."""
    rng = np.random.default_rng(seed)
    y = np.r_[np.repeat(np.arange(classes), 3), rng.integers(0, classes, n)].astype(np.int16)
    powers = np.exp(sure * (rng.normal(size=(len(y), classes)) + np.eye(classes)[y]))
    p = powers / powers.sum(axis=1, keepdims=True)
    p[0] = np.eye(classes)[rng.integers(classes)]
    return y, p


@pytest.mark.parametrize(
    ("well", "ill", "slope", "intercept"),
    [
        # As many ill as stated: nothing changes but what 200 records cannot know.
        ((75, 25), (25, 75), 0.988, 0.0),
        # Ranks that say nothing, and a third as many ill as well: the log of that.
        ((75, 75), (25, 25), 0.022, np.log(1 / 3)),
        # Nine events: the slope stays.
        ((50, 50), (3, 6), 1.0, -2.847),
        # A model that ranks the other way round does not turn.
        ((25, 75), (75, 25), 0.01, 0.0),
    ],
)
def test_chances_of_a_quarter_and_three_quarters(
    well: tuple[int, int], ill: tuple[int, int], slope: float, intercept: float
) -> None:
    """Records of each class of which these two chances were stated."""
    y = np.repeat(np.int16([0, 0, 1, 1]), [*well, *ill])
    stated = np.repeat([0.25, 0.75, 0.25, 0.75], [*well, *ill])
    found = Recalibration.learned(y, np.c_[1 - stated, stated])
    assert found is not None
    assert (found.slope, found.intercepts[1]) == pytest.approx((slope, intercept), abs=2e-3)
    assert found.records == len(y)


@given(n=st.integers(0, 150), classes=st.integers(2, 5), seed=st.integers(0, 9999), sure=st.floats(0, 4))
@settings(max_examples=60, deadline=None)
def test_ranks_are_kept_and_as_many_are_stated_as_happened(n: int, classes: int, seed: int, sure: float) -> None:
    y, p = drawn(n, classes, seed, sure)
    found = Recalibration.learned(y, p)
    assert found is not None
    chances = found.apply(p)
    assert np.isfinite(chances).all()
    assert chances.min() > 0
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    # The odds of any two classes keep their order.
    for a in range(classes):
        for b in range(a):
            before, after = (np.log(q[:, a]) - np.log(q[:, b]) for q in (p + 1 / len(y), chances))
            order = np.argsort(before, kind="stable")
            assert (np.diff(after[order]) > -1e-6).all()
    # The sums are those of Platt's targets, which lie between what happened and equal shares.
    counts = np.bincount(y, minlength=classes)
    shares = counts / (counts + classes)
    targets = counts * shares + shares.sum()
    np.testing.assert_allclose(chances.sum(axis=0), targets, atol=0.02 * len(y))


def test_nothing_is_learned_of_too_few_records_or_no_numbers() -> None:
    y, p = drawn(20, 2, 0, 1.0)
    assert Recalibration.learned(y[[0, 1, 2, 3, 4]], p[:5]) is None
    assert Recalibration.learned(np.zeros(9, dtype=np.int16), p[:9]) is None
    p[4] = np.nan
    assert Recalibration.learned(y, p) is None


@pytest.mark.parametrize("wrong", [{"slope": 0.0}, {"slope": float("nan")}, {"slope": 1e9}, {"records": 0}])
@pytest.mark.parametrize("intercepts", [(0.0, 1.0), (0.0, float("inf"))])
def test_numbers_out_of_range_are_refused(wrong: dict[str, float], intercepts: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="slope above 0"):
        Recalibration(**{"slope": 1.0, "intercepts": intercepts, "records": 9, **wrong})  # type: ignore[arg-type]


def test_events_are_records_without_the_most_frequent_class() -> None:
    assert events(np.int16([0, 0, 0, 2, 1])) == 2
    assert events(np.int16([])) == 0
