"""What the page says of the coordinator's noise; tests/cli/test_privacy_sheet.py tells of which runs."""

from dataclasses import replace
from typing import Any

from syrupy.assertion import SnapshotAssertion

from fedct_flwr.privacy.budget import PrivacyUnit
from fedct_flwr.privacy.sheet import page
from fedct_flwr.privacy.spending import NoiseOnVotes, Spending

COST = Spending(
    whom="all silos",
    unit=PrivacyUnit.SILO,
    epsilon=1.99912,
    delta=1e-5,
    accountant="pld",
    noise=NoiseOnVotes("laplace", 1228, 59.655),
)


def said(**cost: Any) -> str:
    return page("coordinator", "study", simulated=False, metrics=False, cost=replace(COST, **cost))


def test_it_says_whom_it_protects_from_whom_and_how_much(wording: SnapshotAssertion) -> None:
    assert said() == wording


def test_epsilon_is_never_said_less_than_it_is() -> None:
    assert "epsilon 2, delta" in said()
    assert "epsilon 3.142, delta" in said(epsilon=3.14101)
    assert "epsilon inf, delta" in said(epsilon=float("inf"))
