"""What the page says of numbers; which numbers, tests/cli/test_privacy_sheet.py tells."""

import math
from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config import PrivacySettings
from fedct_flwr.privacy.budget import NoiseOnVotes, PrivacyUnit, Spending
from fedct_flwr.privacy.sheet import Answers, page, sheet


def of_records(*accounts: Spending, **privacy: object) -> str:
    settings = PrivacySettings.read({"protection": "dp-linear", **privacy}, "a test")
    return sheet("study", settings, 100, accounts, simulated=False, metrics=False)


def test_a_broken_promise_is_said_with_the_silos_name(wording: SnapshotAssertion) -> None:
    good, bad = (
        Spending(whom="north", budget=1.0, delta=1e-5, charges=1, epsilon=1.0, accountant="pure"),
        Spending(whom="south", budget=1.0, delta=1e-5, charges=1, epsilon=1.01, accountant="pure"),
    )
    assert of_records(good) == wording
    assert "broken at south" in of_records(good, bad)
    assert "No silo has spent more" not in of_records(good, bad)


def test_probabilities_are_called_so_and_no_protection_is_said_to_cover_them(wording: SnapshotAssertion) -> None:
    nothing = PrivacySettings.read({"protection": "none"}, "a test")
    answers = Answers(labels=False, probabilities=True)
    said = sheet("study", nothing, 100, [], simulated=True, metrics=False, answers=answers)
    assert said == wording
    assert "labels of the models themselves" not in said


NOISE = NoiseOnVotes("gaussian", 1228, 59.655, honest=4, may_collude=2)
SILO = PrivacyUnit.SILO
IN_SHARES = Spending(whom="all silos", unit=SILO, epsilon=1.99912, delta=1e-5, accountant="pld", noise=NOISE)
ACCOUNT = Spending(whom="essen", unit=SILO, epsilon=1.99, delta=1e-5, budget=2.0, charges=1)


def test_noise_in_shares_says_whom_it_protects_from_whom(wording: SnapshotAssertion) -> None:
    silos = {"cost": IN_SHARES, "honest": 4, "may_collude": 2}
    assert page("shares", "study", [ACCOUNT], simulated=True, metrics=False, **silos) == wording
    assert "ask it for `fedct privacy-sheet`" in page("shares", "study", simulated=False, metrics=True, **silos)


AT_COORDINATOR = replace(IN_SHARES, noise=NoiseOnVotes("laplace", 1228, 59.655))


def of_noise(**cost: Any) -> str:
    return page("coordinator", "study", simulated=False, metrics=False, cost=replace(AT_COORDINATOR, **cost))


def test_noise_at_the_coordinator_says_whom_it_protects_from_whom(wording: SnapshotAssertion) -> None:
    assert of_noise() == wording


def test_epsilon_is_never_said_less_than_it_is() -> None:
    assert "epsilon 2, delta" in of_noise()
    assert "epsilon 3.142, delta" in of_noise(epsilon=3.14101)
    assert "epsilon inf, delta" in of_noise(epsilon=float("inf"))


VOTE_NOISE = NoiseOnVotes("laplace", 100, 25.0)
SPENT = Spending(whom="all silos", unit=PrivacyUnit.SILO, epsilon=2.5, delta=1e-5, accountant="pld", noise=VOTE_NOISE)


@pytest.mark.parametrize("unit", list(PrivacyUnit))
def test_a_result_tells_all_of_it(unit: PrivacyUnit) -> None:
    spent = replace(SPENT, unit=unit)
    assert Spending.from_result(spent.to_result()) == spent


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": None}, {"delta": "x"}, {"unit": "ward"}, {"queries": math.inf}, {"scale": []}],
)
def test_what_is_no_result_is_refused(wrong: dict[str, Any], wording: SnapshotAssertion) -> None:
    with pytest.raises(ValueError, match=r"^\w") as caught:
        Spending.from_result({**SPENT.to_result(), **wrong})
    assert str(caught.value).partition(": ")[0] == wording


@pytest.mark.parametrize(("epsilon", "kept", "left"), [(0.0, True, 2.0), (2.0, True, 0.0), (2.1, False, 0.0)])
def test_a_budget_is_kept_as_long_as_no_more_is_spent(epsilon: float, kept: bool, left: float) -> None:
    spent = Spending(whom="a", delta=1e-5, epsilon=epsilon, budget=2.0)
    assert (spent.kept, spent.left) == (kept, left)
