"""What the pages of noise in shares promise, and to whom it does not; the card and the report say the same."""

from dataclasses import replace

import pytest

from fedct_flwr.models.card import promised_by_noise
from fedct_flwr.privacy.budget import PrivacyUnit
from fedct_flwr.privacy.sheet_of_shares import sheet_of_shares
from fedct_flwr.privacy.spending import NoiseOnVotes, Spending
from fedct_flwr.report.spending import _of_result

NOISE = NoiseOnVotes("gaussian", 1228, 59.655, honest=4, may_collude=2)
COST = Spending(whom="all silos", unit=PrivacyUnit.SILO, epsilon=1.99912, delta=1e-5, accountant="pld", noise=NOISE)
ACCOUNT = Spending(whom="essen", unit=PrivacyUnit.SILO, epsilon=1.99, delta=1e-5, budget=2.0, charges=1)


def test_it_says_whom_it_protects_from_whom_and_how_much() -> None:
    said = sheet_of_shares("study", COST, [ACCOUNT], simulated=True, metrics=False)
    for part in (
        "each silo as a whole", "everybody, the coordinator too, if at most 2 silos collude with it",
        "epsilon 2, delta 1e-05, for this run", "by a factor of 7.39 at most", "1,228 public examples",
        "standard deviation of 59.66 votes", "Only the shares of 4 silos are counted", "| essen | 1 | 1.99 | 2 |",
        "6 silos or more, and 4 of them do not collude", "**This was a simulation.**", "**Silos that lie.**",
    ):  # fmt: skip
        assert part in said, part
    assert "ask it for `fedct privacy-sheet`" in sheet_of_shares("study", COST, [], simulated=False, metrics=True)


def test_noise_of_another_kind_has_no_such_page() -> None:
    for noise in (None, replace(NOISE, honest=0)):
        with pytest.raises(ValueError, match="no noise in shares"):
            sheet_of_shares("study", replace(COST, noise=noise), [], simulated=False, metrics=False)


def test_card_and_report_say_that_it_holds_against_the_coordinator() -> None:
    card = promised_by_noise(COST)
    assert card["protection"] == "gaussian noise in shares of the silos"
    assert "also holds against the coordinator" in card["words"]
    assert "in shares, hides each silo, from the coordinator too" in _of_result(COST).note
    at_coordinator = replace(COST, noise=replace(NOISE, honest=0, may_collude=0))
    assert "nothing is promised against it" in promised_by_noise(at_coordinator)["words"]
