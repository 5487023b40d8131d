"""What the page says of numbers; which numbers, tests/cli/test_privacy_sheet.py tells."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.dp_event import DiscreteLaplaceDpEvent
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.privacy import PrivacySettings
from fedct_flwr.privacy.accounting import epsilon_in_time
from fedct_flwr.privacy.budget import DATA_SET, Budget, NoiseOnVotes, PrivacyUnit, Spending
from fedct_flwr.privacy.events import BoundedRangeDpEvent, DiscreteGaussianDpEvent, composed, from_json
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.privacy.mechanisms import ON_COUNTS
from fedct_flwr.privacy.noise_shares import VoteShares, calibrated, spent_on_sum
from fedct_flwr.privacy.sheet import PermittedQuestions, Sheet
from fedct_flwr.privacy.tally_noise import spent_by
from fedct_flwr.silo.release import account


def of_records(*accounts: Spending, **privacy: object) -> str:
    settings = PrivacySettings.read({"protection": "dp-linear", **privacy}, "a test")
    return Sheet.of_labels("study", settings, 100, accounts=accounts).markdown


def page(kind: str, *accounts: Spending, **more: Any) -> str:
    facts = {name: more.pop(name) for name in ("honest", "may_collude") if name in more}
    return Sheet(kind=kind, study="study", protection="", accounts=accounts, facts=facts, **more).markdown


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
    answers = PermittedQuestions(labels=False, probabilities=True)
    said = Sheet.of_labels("study", nothing, 100, answers, simulated=True).markdown
    assert said == wording
    assert "labels of the models themselves" not in said


NOISE = NoiseOnVotes("gaussian", 1228, 59.655, honest=4, may_collude=2)
SILO = PrivacyUnit.SILO
IN_SHARES = Spending(whom="all silos", unit=SILO, epsilon=1.99912, delta=1e-5, accountant="pld", noise=NOISE)
ACCOUNT = Spending(whom="essen", unit=SILO, epsilon=1.99, delta=1e-5, budget=2.0, charges=1)


def test_noise_in_shares_says_whom_it_protects_from_whom(wording: SnapshotAssertion) -> None:
    silos = {"cost": IN_SHARES, "honest": 4, "may_collude": 2}
    assert page("shares", ACCOUNT, simulated=True, **silos) == wording
    assert "ask it for `fedct privacy-sheet`" in page("shares", metrics=True, **silos)


AT_COORDINATOR = replace(IN_SHARES, noise=NoiseOnVotes("laplace", 1228, 59.655))


def of_noise(**cost: Any) -> str:
    return page("coordinator", cost=replace(AT_COORDINATOR, **cost))


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


@pytest.mark.parametrize(("epsilon", "kept"), [(0.0, True), (2.0, True), (2.1, False)])
def test_a_budget_is_kept_as_long_as_no_more_is_spent(epsilon: float, kept: bool) -> None:
    assert Spending(whom="a", delta=1e-5, epsilon=epsilon, budget=2.0).kept is kept


RECORDED = Path(__file__).parents[1] / "golden" / "recorded"
NUMBER = r"([0-9.e+-]*[0-9])"
PRINTED: list[tuple[str, Callable[..., DpEvent]]] = [
    (rf"Gaussian noise with a standard deviation of {NUMBER} times the largest change, on a random sample, which has "
     rf"each with a probability of {NUMBER}", lambda noise, q: PoissonSampledDpEvent(q, GaussianDpEvent(noise))),
    (rf"Gaussian noise with a standard deviation of {NUMBER}(,) the largest change {NUMBER}",
     lambda scale, _, most: DiscreteGaussianDpEvent(scale, int(most))),
    (rf"Gaussian noise with a standard deviation of {NUMBER}( times)", lambda noise, _: GaussianDpEvent(noise)),
    (rf"Laplace noise of scale {NUMBER}, the largest change {NUMBER}",
     lambda scale, most: DiscreteLaplaceDpEvent(1 / scale, int(most))),
    (rf"a label replaced with a probability of {NUMBER} by one drawn from all {NUMBER} classes",
     lambda blind, classes: RandomizedResponseDpEvent(blind, int(classes))),
    (rf"change within a range of {NUMBER}()", lambda eta, _: BoundedRangeDpEvent(eta)),
]  # fmt: skip


def recomputed(printed: str, delta: float) -> float:
    """Epsilon of all noise that a page states, by its printed numbers alone."""
    events = []
    for times, words in re.findall(r"([0-9,]+) times ([^;]*)", printed):
        found = ((re.search(pattern, words), event) for pattern, event in PRINTED)
        match, event = next((match, event) for match, event in found if match)
        numbers = (float(one) if one[:1].isdigit() else 0.0 for one in match.groups())
        events.append(SelfComposedDpEvent(event(*numbers), int(times.replace(",", ""))))
    return epsilon_in_time(composed(*events), delta).upper


def recorded(run: str) -> list[DpEvent]:
    """What the first silo of a recorded run has charged."""
    charges = json.loads((RECORDED / f"{run}.json").read_text("utf-8"))["charges"]
    return [from_json(json.dumps(charge["event"])) for charge in next(iter(charges.values()))]


@pytest.mark.parametrize(
    "charged",
    [recorded("dp-linear"), recorded("dp-sgd"), recorded("randomized-response"), recorded("fedkt-l2"),
     recorded("fedkt-l2-gaussian"), recorded("fedkt-l2-gumbel"), [PoissonSampledDpEvent(0.1, GaussianDpEvent(1.5))] * 9,
     [calibrated(1.0, 1e-5, sensitivity=2.0**30, sums=15, numbers=22, honest=3).event()] * 15],
    ids=("dp-linear", "dp-sgd", "randomized-response", "laplace", "gaussian", "gumbel", "sampled", "joint"),
)  # fmt: skip
def test_epsilon_follows_from_the_noise_that_the_sheet_states(charged: list[DpEvent], tmp_path: Path) -> None:
    budget = Budget(1000.0, 1e-5)
    with Ledger(tmp_path) as ledger:
        for event in charged:
            ledger.charge("study", DATA_SET, budget, event)
    text = of_records(account(Ledger(tmp_path), "essen", "study", budget))
    (said,) = re.findall(r"\nThe ledger of essen has, .*?: (.*)\.\n", text)
    (spent,) = re.findall(rf"\| essen \| {len(charged)} \| {NUMBER} \| 1000 \|", text)
    assert recomputed(said, 1e-5) == pytest.approx(float(spent), rel=2e-3)


@pytest.mark.parametrize("votes", [1, 3])
@pytest.mark.parametrize("name", ["laplace", "gaussian", "in shares"])
def test_epsilon_follows_from_the_noise_on_votes_that_the_sheet_states(name: str, votes: int) -> None:
    if name == "in shares":
        spent = spent_on_sum(VoteShares(40.0, 50, 2, honest=3), votes, 1e-5, may_collude=1)
    else:
        spent = spent_by(ON_COUNTS[name](40.0, votes, PrivacyUnit.SILO), 50, 1e-5)
    kind = "shares" if name == "in shares" else "coordinator"
    text = page(kind, cost=spent, honest=3, may_collude=1)
    (printed,) = re.findall(rf"\*\*How much:\*\* epsilon {NUMBER}", text)
    (queries,) = re.findall(rf"for each of {NUMBER} public examples", text)
    (scale,) = re.findall(rf"(?:of scale|standard deviation of) {NUMBER} votes", text)
    (each,) = re.findall(rf"A silo has {NUMBER} votes? for each example", text)
    found = ON_COUNTS["laplace" if name == "laplace" else "gaussian"](float(scale), int(each)).event(int(queries))
    assert epsilon_in_time(found, 1e-5).upper == pytest.approx(float(printed), rel=2e-3)
