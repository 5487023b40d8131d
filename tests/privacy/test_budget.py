"""Budgets that are none, and ones that promise little."""

import math

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.privacy.budget import Budget, PrivacyUnit
from fedct_flwr.types import ConfigError


@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan, math.inf])
def test_an_epsilon_that_is_none_is_refused_in_one_sentence(epsilon: float, wording: SnapshotAssertion) -> None:
    with pytest.raises(ConfigError) as caught:
        Budget(epsilon, 1e-5)
    assert str(caught.value) == wording


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan])
def test_a_delta_that_is_none_is_refused(delta: float) -> None:
    with pytest.raises(ConfigError, match="delta is"):
        Budget(1.0, delta)


def test_a_delta_of_one_in_n_is_weak() -> None:
    budget = Budget(1.0, 1e-3, PrivacyUnit.EXAMPLE)
    assert "publishes one of the 1000 examples" in str(budget.weakness(1000))
    assert budget.weakness(999) is None
