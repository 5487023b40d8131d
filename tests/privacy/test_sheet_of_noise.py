"""What the page says of the coordinator's noise; tests/cli/test_privacy_sheet.py tells of which runs."""

from dataclasses import replace
from typing import Any

from syrupy.assertion import SnapshotAssertion

from fedct_flwr.privacy.budget import PrivacyUnit
from fedct_flwr.privacy.sheet_of_noise import sheet_of_noise
from fedct_flwr.privacy.spending import NoiseOnVotes, Spending

COST = Spending(
    whom="all silos",
    unit=PrivacyUnit.SILO,
    epsilon=1.99912,
    delta=1e-5,
    accountant="pld",
    noise=NoiseOnVotes("laplace", 1228, 59.655),
)


def page(*, simulated: bool = False, metrics: bool = False, silos_protect: bool = False, **cost: Any) -> str:
    return sheet_of_noise(
        "study", replace(COST, **cost), simulated=simulated, metrics=metrics, silos_protect=silos_protect
    )


def test_it_says_whom_it_protects_from_whom_and_how_much(wording: SnapshotAssertion) -> None:
    said = page()
    assert said == wording


def test_epsilon_is_never_said_less_than_it_is() -> None:
    assert "epsilon 2, delta" in page()
    assert "epsilon 3.142, delta" in page(epsilon=3.14101)
    assert "epsilon inf, delta" in page(epsilon=float("inf"))


def test_it_owns_up_to_what_noise_at_the_coordinator_cannot_do() -> None:
    said = page().partition("## What is not covered")[2]
    assert "**The coordinator.** It sees what each silo sent" in said
    assert "**The coordinator's run folder**, its report and its console" in said
    assert "**That a silo takes part.**" in said
    assert "**Further runs over the same silos.** What they cost adds up. The coordinator keeps no ledger" in said
    assert "none left" in said
    assert "Test scores, which left" in page(metrics=True)


def test_noise_of_a_seed_protects_nobody() -> None:
    assert "**This was a simulation.** Its noise follows from a seed" in page(simulated=True)
    assert "simulation" not in page()


def test_what_silos_promise_beside_that_is_said() -> None:
    assert "The silos add none" in page(simulated=True)
    assert "on the page below" in page(simulated=True, silos_protect=True)
    assert "ask it for `fedct privacy-sheet` of its folder" in page()
