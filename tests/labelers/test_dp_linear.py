"""What one record changes, exactly; and whether a broken labeler would be noticed."""

import math
from typing import Any

import numpy as np
import pytest

from fedct_flwr.datasets.schema import Schema
from fedct_flwr.labelers.dp_linear import RESIDUAL, SENSITIVITY, DpLinearLabeler, gradient
from fedct_flwr.labelers.labeler import Asked
from fedct_flwr.labelers.public_features import NORM, PublicFeatures
from fedct_flwr.privacy.randomness import SimulatedNoise
from fedct_flwr.types import ABSTAIN, Examples, TrainingError

SCHEMA = Schema.numeric(("a", "b", "c", "d"), ("x", "y", "z"))
PUBLIC = np.random.default_rng(0).normal(size=(300, 3))
FEATURES = PublicFeatures(PUBLIC, SCHEMA, num_components=3, kind="linear", seed=0)


def labeler(**settings: Any) -> DpLinearLabeler:
    given = {"num_units": 400, "epsilon": 1.0, "delta": 1e-5} | settings
    return DpLinearLabeler(FEATURES, 4, **given)


def records(count: int, seed: int) -> Examples:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 3)) * np.exp(rng.normal(size=(count, 1), scale=3))
    return Examples(X, rng.integers(0, 4, count).astype(np.int16))


def weights(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(4, 4)) * 10 ** rng.uniform(-3, 3)


def length(matrix: np.ndarray) -> float:
    return math.sqrt(sum(int(entry) ** 2 for entry in matrix.ravel()))


def test_no_record_changes_the_gradient_by_more_than_claimed_and_some_do_by_nearly_so_much() -> None:
    found = []
    for seed in range(60):
        X, y = records(25, seed)
        vectors = FEATURES(X)
        found += [length(gradient(vectors[i : i + 1], y[i : i + 1], weights(seed))) for i in range(len(y))]
    assert 0.9 * SENSITIVITY < max(found) <= SENSITIVITY


@pytest.mark.parametrize("position", [0, 100, 4096, 5000])
def test_a_record_adds_the_same_to_the_sum_whatever_the_others_are(position: int) -> None:
    X, y = records(5001, 1)
    vectors, point = FEATURES(X), weights(1)
    without = np.delete(np.arange(5001), position)
    alone = gradient(vectors[[position]], y[[position]], point)
    together, others = gradient(vectors, y, point), gradient(FEATURES(X[without]), y[without], point)
    np.testing.assert_array_equal(together - others, alone)


def test_the_gradient_is_that_of_the_cross_entropy() -> None:
    X, y = records(200, 2)
    vectors, point = FEATURES(X), weights(3) / 10
    logits = vectors / NORM @ point
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    expected = (vectors / NORM).T @ (p - np.eye(4)[y])
    np.testing.assert_allclose(gradient(vectors, y, point) / (NORM * RESIDUAL), expected, atol=0.3)


class Recorded(SimulatedNoise):
    """Keeps the scales and the numbers that it is asked for."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))
        self.asked: list[tuple[float, tuple[int, ...]]] = []

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> np.ndarray:
        self.asked.append((scale, shape))
        return super().discrete_gaussian(scale, shape)


def test_the_noise_of_all_steps_is_what_the_event_says() -> None:
    found, source = labeler(steps=7), Recorded()
    question = Asked(records(400, 4), PUBLIC, np.full(300, -1), np.zeros(300, np.int16), np.arange(300))
    event = found.event(question)
    found.answer(question, source)
    assert [shape for _, shape in source.asked] == [(4, 4)] * 7
    told = sum(SENSITIVITY**2 / scale**2 for scale, _ in source.asked)
    assert told == pytest.approx(event.noise_multiplier**-2, rel=1e-12)
    assert all(scale > 2**40 for scale, _ in source.asked)


def test_records_of_another_shape_are_refused_before_anything_is_charged() -> None:
    X, y = records(10, 0)
    nothing = np.full(300, ABSTAIN, dtype=np.int16)
    asked = Asked(Examples(X[:, :2], y), PUBLIC, nothing, nothing[:1], np.arange(1))
    with pytest.raises(TrainingError, match="cannot be learned from: examples of shape"):
        labeler().event(asked)
