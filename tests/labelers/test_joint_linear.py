"""What one record changes in a sum, whose noise protects it, and whether broken noise or clipping would be noticed."""

import math
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score

from fedct_flwr.datasets.schema import Schema
from fedct_flwr.labelers.dp_linear import RESIDUAL, gradient
from fedct_flwr.labelers.joint_linear import JointLinear, plan_for, train_together
from fedct_flwr.labelers.public_features import NORM, PublicBins
from fedct_flwr.privacy.noise_shares import least_multiplier
from fedct_flwr.privacy.randomness import SimulatedNoise
from fedct_flwr.secure_sum.terms import sum_modulo
from fedct_flwr.types import ConfigError, Examples

SCHEMA = Schema.numeric(("a", "b", "c"), ("x", "y", "z"))
PUBLIC = np.random.default_rng(0).normal(size=(300, 3))


def labeler(**settings: Any) -> JointLinear:
    given = {"num_records": 400, "num_classes": 3, "epsilon": 1.0, "delta": 1e-5, "honest": 3} | settings
    return JointLinear(plan_for(**given), PUBLIC, SCHEMA, seed=0)


FOUND = labeler()


def records(count: int, seed: int) -> Examples:
    """Of three classes that a line divides; the first is rare."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 3))
    return Examples(X, (1 + (X[:, 0] > 0) - (X[:, 1] > 1.3)).clip(0).astype(np.int16))


def noises(count: int, seed: int = 0) -> list[SimulatedNoise]:
    return [SimulatedNoise(np.random.default_rng((seed, number))) for number in range(count)]


class Silent(SimulatedNoise):
    """No noise at all."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)


@given(seed=st.integers(0, 2**32), clip=st.integers(1, 2 * RESIDUAL), size=st.floats(-3, 4))
@settings(max_examples=150, deadline=None)
def test_no_record_changes_a_sum_by_more_than_claimed_whatever_the_weights(seed: int, clip: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(6, 3)) * np.exp(rng.normal(size=(6, 1), scale=4))
    y = rng.integers(0, 3, 6).astype(np.int16)
    vectors, weights = FOUND.vectors(X), rng.normal(size=FOUND.start.weights.shape) * 10**size
    for i in range(6):
        changed = gradient(vectors[i : i + 1], y[i : i + 1], weights, longest=clip)
        assert sum(int(number) ** 2 for number in changed.ravel()) <= (NORM * clip) ** 2


def test_labels_are_good_where_there_is_little_noise_and_rare_classes_are_found() -> None:
    silos = [records(2_000, seed) for seed in range(4)]
    found = labeler(num_records=8_000, epsilon=3.0)
    weights = train_together(found, silos, noises(4))
    X, y = records(3_000, 9)
    assert balanced_accuracy_score(y, found.label(weights, X)) > 0.93
    plain = found.probabilities(weights, found.vectors(X)).argmax(axis=1)
    rare = y == 0
    assert (found.label(weights, X)[rare] == 0).mean() > (plain[rare] == 0).mean() + 0.05


@pytest.mark.parametrize("num_records", [1, 510, 2_000_000])
@pytest.mark.parametrize("budget", [0.1, 3.0])
def test_plans_depend_on_public_numbers_and_grow_with_them(num_records: int, budget: float) -> None:
    plan = plan_for(num_records, 4, epsilon=budget, delta=1e-5, honest=3)
    assert 10 <= plan.components <= 300
    assert plan.ridge == pytest.approx(least_multiplier(budget, 1e-5) / num_records)
    assert plan.clip == math.floor(RESIDUAL * math.sqrt(0.75))
    assert plan.kind == ("linear" if plan.components <= 20 else "kernel")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_no_numbers_are_refused(value: float) -> None:
    found, (X, y) = labeler(), records(5, 0)
    with pytest.raises(ValueError, match="no numbers"):
        found.summand(found.vectors(X), y, np.full(found.start.weights.shape, value), Silent())


def test_sums_of_another_length_and_steps_too_many_are_refused() -> None:
    found = labeler(steps=1)
    zeros = np.zeros(found.start.weights.size, dtype=np.uint64)
    with pytest.raises(ValueError, match="step 0 of 1"):
        found.step(found.start, zeros[1:])
    with pytest.raises(ValueError, match="only 0 of 1"):
        found.weights(found.start)
    done = found.step(found.start, zeros)
    with pytest.raises(ValueError, match="step 1 of 1"):
        found.step(done, zeros)


def test_records_with_missing_infinite_and_huge_values_make_nothing_fail() -> None:
    X, y = records(4, 0)
    X[0], X[1], X[2] = np.nan, np.inf, 1e308
    found = labeler()
    changed = found.summand(found.vectors(X), y, found.start.weights, Silent()).view(np.int64) / 1.0
    assert np.linalg.norm(changed) <= 4 * found.noise.sensitivity


def test_the_weights_of_two_steps_tell_the_sum_between_them() -> None:
    private = records(200, 1)
    vectors, progress = FOUND.vectors(private.X), FOUND.start
    for _ in range(3):
        summand = FOUND.summand(vectors, private.y, progress.weights, Silent())
        after = FOUND.step(progress, summand)
        told = FOUND.opened(progress.weights, after.weights)
        mean = summand.view(np.int64).reshape(told.shape) / (NORM * RESIDUAL * FOUND.plan.num_records)
        assert told == pytest.approx(mean, abs=1e-3)
        progress = after


def test_a_lost_step_leaves_the_weights_and_counts() -> None:
    progress, size = FOUND.start, FOUND.start.weights.size
    for step in range(FOUND.plan.steps):
        before = progress.weights
        opened = np.full(size, 1 << 40, dtype=np.uint64)
        progress = FOUND.lost(progress) if step % 2 else FOUND.step(progress, opened)
        assert (progress.weights == before).all() == bool(step % 2)
    assert progress.step == FOUND.plan.steps
    assert np.isfinite(FOUND.weights(progress)).all()
    with pytest.raises(ValueError, match=f"step {FOUND.plan.steps} of {FOUND.plan.steps}"):
        FOUND.lost(progress)


WIDE: Final = 14
"""Columns of a table, of which two tell the class."""


def wide() -> tuple[JointLinear, list[Examples], Examples]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(5_000, WIDE))
    y = ((np.abs(X[:, 2]) > 0.9) ^ (X[:, 9] > 1)).astype(np.int16)
    schema = Schema.numeric(("a", "b"), tuple(f"c{place}" for place in range(WIDE)))
    plan = plan_for(3_000, 2, epsilon=1.0, delta=1e-5, honest=3, additive_columns=WIDE)
    silos = [Examples(X[i:3_000:4], y[i:3_000:4]) for i in range(4)]
    return JointLinear(plan, X[3_000:4_000], schema, seed=0), silos, Examples(X[4_000:], y[4_000:])


def counting(found: JointLinear, weights: NDArray[np.float64]) -> set[int]:
    """Columns with a weight."""
    assert isinstance(found.features, PublicBins)
    return set(found.features._column_of[weights[:-1].any(axis=1)].tolist())


def test_an_additive_labeler_of_many_columns_looks_first_and_then_keeps_those_that_tell() -> None:
    found, silos, test = wide()
    vectors = [found.vectors(own.X) for own in silos]
    progress, seen = found.start, []
    for _ in range(found.plan.steps):
        drawn = zip(vectors, silos, noises(4, progress.step), strict=True)
        summands = [found.summand(own, silo.y, progress.weights, noise) for own, silo, noise in drawn]
        progress = found.step(progress, sum_modulo(summands, 64))
        seen.append(counting(found, progress.weights))
    assert seen[:4] == [set()] * 4
    assert all(len(columns) == 10 for columns in seen[4:])
    assert all({2, 9} <= columns <= seen[4] for columns in seen[4:])
    assert balanced_accuracy_score(test.y, found.label(found.weights(progress), test.X)) > 0.8


def test_fewer_columns_have_larger_numbers_and_no_record_counts_more_than_claimed() -> None:
    found, silos, _ = wide()
    vectors, y = found.vectors(silos[0].X), silos[0].y
    rng = np.random.default_rng(0)
    lengths = []
    for columns in (1, 3, WIDE):
        mine = np.append(found.features._column_of < columns, False)  # type: ignore[union-attr]
        weights = np.where(mine[:, None], rng.normal(size=found.start.weights.shape), 0.0)
        seen = found.seen(vectors, weights)
        assert not seen[:, :-1][:, ~mine[:-1]].any()
        assert (seen == np.rint(seen)).all()
        lengths.append(float(np.linalg.norm(seen, axis=1).max()))
        for place in range(20):
            one = found.summand(vectors[[place]], y[[place]], weights, Silent()).view(np.int64) / 1.0
            assert np.linalg.norm(one) <= found.noise.sensitivity
    assert all(NORM * 0.999 < length <= NORM for length in lengths)


def test_more_records_than_sums_hold_are_refused() -> None:
    with pytest.raises(ConfigError, match="let silos draw fewer"):
        plan_for((1 << 21) + 1, 2, epsilon=1.0, delta=1e-5, honest=3)
