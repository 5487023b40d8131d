"""Conformance: every mechanism there is has the distribution, the price and the manners that it claims."""

import math

import numpy as np
import pytest

from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.budget import PrivacyUnit
from fedct_flwr.privacy.mechanisms import (
    MECHANISMS,
    Laplace,
    Mechanism,
    Xor,
)
from fedct_flwr.privacy.randomness import SecureNoise, SimulatedNoise
from fedct_flwr.types import ConfigError
from tests.privacy.mechanisms import cases
from tests.privacy.mechanisms.cases import ALL, CASES, IDS, Case, release

every_case = pytest.mark.parametrize(("name", "case"), ALL, ids=IDS)
every_mechanism = pytest.mark.parametrize("name", MECHANISMS)
SOURCES = {"secure": SecureNoise, "simulated": lambda: SimulatedNoise(np.random.default_rng(0))}


def of(name: str) -> Mechanism:
    return CASES[name][0].mechanism


@every_mechanism
def test_a_negative_number_of_queries_gives_nothing_back(name: str) -> None:
    with pytest.raises(ValueError, match="a release of -"):
        of(name).event(-1)


@every_case
def test_no_output_is_more_likely_than_claimed_on_adjacent_inputs(name: str, case: Case) -> None:
    assert not cases.breaks_its_ratio(case)


@every_case
def test_its_event_costs_what_is_claimed(name: str, case: Case) -> None:
    assert epsilon(case.mechanism.event(1), 0).upper == pytest.approx(case.claim, rel=1e-9)


@every_case
def test_one_query_keeps_to_its_event(name: str, case: Case) -> None:
    assert not cases.breaks_its_event(case)


@pytest.mark.parametrize("source", SOURCES)
@every_case
def test_releases_are_distributed_as_described(name: str, case: Case, source: str) -> None:
    few = 5_000 if name in {"laplace", "gaussian"} else cases.RUNS
    for vote in (case.adjacent[0][0], case.adjacent[-1][1]):
        seen = cases.outputs(case, vote, SOURCES[source](), few)
        assert not cases.is_distributed_otherwise(seen, case.probabilities(vote))


@every_mechanism
def test_secure_noise_does_not_repeat_itself_and_simulated_noise_does(name: str) -> None:
    vote = CASES[name][0].adjacent[0][0]
    secure = [release(of(name), vote, 200, SecureNoise()).tolist() for _ in range(2)]
    seeded = [release(of(name), vote, 200, SimulatedNoise(np.random.default_rng(7))).tolist() for _ in range(2)]
    assert secure[0] != secure[1]
    assert seeded[0] == seeded[1]


def test_the_papers_setting_is_a_coin_and_costs_what_its_worst_case_does() -> None:
    mechanism = Xor(10, 0.1 / 3_000)
    assert mechanism._flip / 2**64 == pytest.approx(0.49999, abs=1e-5)
    assert epsilon(mechanism.event(50_000), 0).upper == pytest.approx(100_000 * 0.1 / 3_000)


def test_laplace_noise_on_one_count_is_no_better_than_on_two() -> None:
    """The event has the whole L1 distance in one count; a moved vote has half of it in each of two."""
    for scale in (0.7, 2.0, 10.0):
        weights = {x: math.exp(-abs(x) / scale) for x in range(-150, 151)}
        total = sum(weights.values())
        one = {x: w / total for x, w in weights.items()}
        shifted = {x: one.get(x - 2, 0.0) for x in one}
        pairs = {(x, y): one[x] * one[y] for x in range(-70, 71) for y in range(-70, 71)}
        moved = {(x, y): one[x - 1] * one[y + 1] for x, y in pairs}
        for eps in np.linspace(0, 2 / scale, 9):
            assert cases.divergence(pairs, moved, eps) <= cases.divergence(one, shifted, eps) + 1e-9


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf])
@every_mechanism
def test_noise_that_is_none_is_refused(name: str, bad: float) -> None:
    field = {"xor": "theta", "randomized-response": "epsilon"}.get(name, "scale")
    settings = {"num_classes": 3, field: bad} if field != "scale" else {field: bad}
    with pytest.raises(ConfigError, match=r"is (0|-1.0|nan|inf); set it to a number") as refused:
        MECHANISMS[name](**settings)
    assert "\n" not in str(refused.value)


def test_noise_for_a_silo_covers_all_its_votes() -> None:
    for_silo = Laplace(25.0, votes_per_unit=2, unit=PrivacyUnit.SILO)
    assert epsilon(for_silo.event(1), 0).upper == pytest.approx(4 / 25)
