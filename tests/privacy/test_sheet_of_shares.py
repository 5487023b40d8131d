"""What the pages of noise in shares promise, and to whom it does not; the card and the report say the same."""

from dataclasses import replace

from syrupy.assertion import SnapshotAssertion

from fedct_flwr.models.card import promised_by_noise
from fedct_flwr.privacy.budget import PrivacyUnit
from fedct_flwr.privacy.sheet import page
from fedct_flwr.privacy.spending import NoiseOnVotes, Spending

NOISE = NoiseOnVotes("gaussian", 1228, 59.655, honest=4, may_collude=2)
COST = Spending(whom="all silos", unit=PrivacyUnit.SILO, epsilon=1.99912, delta=1e-5, accountant="pld", noise=NOISE)
ACCOUNT = Spending(whom="essen", unit=PrivacyUnit.SILO, epsilon=1.99, delta=1e-5, budget=2.0, charges=1)


def test_it_says_whom_it_protects_from_whom_and_how_much(wording: SnapshotAssertion) -> None:
    silos = {"cost": COST, "honest": 4, "may_collude": 2}
    assert page("shares", "study", [ACCOUNT], simulated=True, metrics=False, **silos) == wording
    assert "ask it for `fedct privacy-sheet`" in page("shares", "study", simulated=False, metrics=True, **silos)


def test_the_card_says_that_it_holds_against_the_coordinator(wording: SnapshotAssertion) -> None:
    card = promised_by_noise(COST)
    assert card["protection"] == wording
    assert "also holds against the coordinator" in card["words"]
    at_coordinator = replace(COST, noise=replace(NOISE, honest=0, may_collude=0))
    assert "nothing is promised against it" in promised_by_noise(at_coordinator)["words"]
