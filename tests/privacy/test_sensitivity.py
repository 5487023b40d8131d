"""What may be relied on, and what says that it may not."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeClassifier

from fedct_flwr.privacy.sensitivity import NO_GUARANTEE, Sensitivity, proposition_2, sampled_neighbours, worst_case
from fedct_flwr.types import ConfigError


def test_a_changed_label_is_two_bits() -> None:
    assert worst_case(50_000).bits == 100_000
    assert worst_case(50_000).formal


def test_proposition_2_on_a_napkin() -> None:
    # n e = 50, P = 1.6449: 50 + 1.6449 sqrt(47.5) + 0.9019 = 62.24
    assert proposition_2(1000, stability=0.05, delta=0.05).bits == 2 * 63
    assert proposition_2(10, stability=1.0, delta=0.01).bits == 20


def test_estimates_carry_their_reservation_wherever_they_are_printed() -> None:
    def labels_without(record: int | None) -> np.ndarray:
        return np.int16([0, 1, -1, 2]) if record is None else np.int16([0, 2, 1, -1])

    estimates = [proposition_2(1000, 0.05, 0.05), sampled_neighbours(labels_without, 5, 2, np.random.default_rng(0))]
    for estimate in estimates:
        assert not estimate.formal
        assert NO_GUARANTEE in str(estimate)
    assert estimates[1].bits == 2 + 1 + 1


def test_sampled_neighbours_of_a_tree_stay_below_the_worst_case() -> None:
    X, y = load_breast_cancer(return_X_y=True)

    def labels_without(record: int | None) -> np.ndarray:
        kept = np.arange(40) != (-1 if record is None else record)
        tree = DecisionTreeClassifier(random_state=0).fit(X[:40][kept], y[:40][kept])
        return tree.predict(X[100:]).astype(np.int16)

    found = sampled_neighbours(labels_without, 40, 40, np.random.default_rng(0))
    assert 0 < found.bits < worst_case(len(X) - 100).bits
    few = sampled_neighbours(labels_without, 40, 3, np.random.default_rng(0))
    assert few.bits <= found.bits


def test_bad_input_is_refused() -> None:
    with pytest.raises(ConfigError, match="stability"):
        proposition_2(10, stability=1.5, delta=0.1)
    with pytest.raises(ConfigError, match="leave out 3 of 2"):
        sampled_neighbours(lambda record: np.int16([0]), 2, 3, np.random.default_rng(0))


def test_a_formal_sensitivity_prints_without_reservation() -> None:
    assert str(Sensitivity(4, "worst case")) == "4 bits (worst case)"
