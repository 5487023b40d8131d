"""The record of what was spent: what a run's result tells of it, and what it refuses to read."""

import math
from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.privacy.budget import PrivacyUnit
from fedct_flwr.privacy.spending import NoiseOnVotes, Spending

NOISE = NoiseOnVotes("laplace", 100, 25.0, 1.5, 3.25)
SPENT = Spending(whom="all silos", unit=PrivacyUnit.SILO, epsilon=2.5, delta=1e-5, accountant="pld", noise=NOISE)


@pytest.mark.parametrize("unit", list(PrivacyUnit))
@pytest.mark.parametrize("noise", [NOISE, NoiseOnVotes("gaussian", 1, 2.0)], ids=["priced", "bare"])
def test_a_result_tells_all_of_it(noise: NoiseOnVotes, unit: PrivacyUnit) -> None:
    spent = replace(SPENT, noise=noise, unit=unit)
    assert Spending.from_result(spent.to_result()) == spent


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": None}, {"delta": "x"}, {"unit": "patient"}, {"queries": math.inf}, {"epsilon_gumbel": []}],
)
def test_what_is_no_result_is_refused(wrong: dict[str, Any], wording: SnapshotAssertion) -> None:
    with pytest.raises(ValueError, match=r"^\w") as caught:
        Spending.from_result({**SPENT.to_result(), **wrong})
    assert str(caught.value).partition(": ")[0] == wording


@pytest.mark.parametrize(("epsilon", "kept", "left"), [(0.0, True, 2.0), (2.0, True, 0.0), (2.1, False, 0.0)])
def test_a_budget_is_kept_as_long_as_no_more_is_spent(epsilon: float, kept: bool, left: float) -> None:
    spent = Spending(whom="a", delta=1e-5, epsilon=epsilon, budget=2.0)
    assert (spent.kept, spent.left) == (kept, left)
