"""Shares of noise: that their sums are what is accounted for, exactly where it can be computed, and by sampling."""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, norm

from fedct_flwr.config.privacy import NoisePlan
from fedct_flwr.coordinator.summing import opened
from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.budget import WHOLE_SILO, Budget, PrivacyUnit, Spending
from fedct_flwr.privacy.events import composed
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.privacy.mechanisms import ON_COUNTS, Laplace
from fedct_flwr.privacy.noise_shares import (
    NoiseShares,
    VoteShares,
    calibrated,
    noisiest,
    shares_for,
    spent_on_sum,
    surely_honest,
    unlike_one,
)
from fedct_flwr.privacy.randomness import SecureNoise, SimulatedNoise
from fedct_flwr.privacy.tally_noise import noise_for, spent_by, tally_mechanism
from fedct_flwr.silo.noisy_sum import NoiseAdder, with_noise
from fedct_flwr.silo.release import Purse
from fedct_flwr.types import ABSTAIN, ConfigError, Refusal, Refused
from fedct_flwr.wire.content import Instruction, Query, Terms
from fedct_flwr.wire.sums import SUMS_WITH_NOISE


def pmf(scale: float, reach: int) -> np.ndarray:
    """Of the discrete Gaussian on -reach..reach."""
    weights = np.exp(-(np.arange(-reach, reach + 1, dtype=np.float64) ** 2) / (2 * scale**2))
    return weights / weights.sum()


def sum_of(scale: float, shares: int, reach: int) -> np.ndarray:
    """Distribution of the sum of so many discrete Gaussians, on ``-shares * reach..``."""
    total = one = pmf(scale, reach)
    for _ in range(shares - 1):
        total = np.convolve(total, one)
    return total


@pytest.mark.parametrize("scale", [0.6, 0.8, 1.0])
@pytest.mark.parametrize("shares", [2, 3, 5])
def test_a_sum_is_as_close_to_one_discrete_gaussian_as_theorem_1_says(scale: float, shares: int) -> None:
    reach = 40
    found = sum_of(scale, shares, reach)
    one = pmf(scale * math.sqrt(shares), shares * reach)
    likely = one > 1e-12  # beyond that, rounding of floating-point sums decides
    ratio = np.abs(np.log(found[likely] / one[likely])).max()
    assert 0 < ratio <= unlike_one(scale, shares)


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0, 5.0, 50.0])
def test_one_discrete_gaussian_is_as_close_to_a_rounded_one_as_the_guarantee_says(scale: float) -> None:
    reach = int(40 * scale)
    numbers = np.arange(-reach, reach + 1)
    rounded = norm.cdf((numbers + 0.5) / scale) - norm.cdf((numbers - 0.5) / scale)
    assert np.abs(pmf(scale, reach) - rounded).sum() / 2 < 1 / (4 * scale**2)


def hockey_stick(shares: int, scale: float, shift: int, epsilon: float) -> float:
    """The exact delta at epsilon of the sum of so many shares, moved by ``shift`` or not."""
    total = sum_of(scale, shares, int(40 * scale))
    padded, moved = np.pad(total, (0, shift)), np.pad(total, (shift, 0))
    return float(np.maximum(0, moved - math.exp(epsilon) * padded).sum())


@pytest.mark.parametrize("honest", [1, 2, 4])
def test_the_exact_delta_of_a_sum_is_within_what_is_promised(honest: int) -> None:
    shares = NoiseShares(multiplier=1.5, sensitivity=60, sums=1, numbers=1, honest=honest)
    for delta in (1e-2, 1e-3, 1e-4):
        promised = epsilon(shares.event(), delta).upper
        exact = hockey_stick(honest, shares.share_scale, 60, promised)
        assert exact <= delta + shares.slack(promised)
        # With the noise of one silo missing it is not.
        if honest > 1:
            assert hockey_stick(honest - 1, shares.share_scale, 60, promised) > delta + shares.slack(promised)


def test_all_sums_together_cost_the_epsilon_that_was_asked_for() -> None:
    shares = calibrated(1.0, 1e-5, sensitivity=2.0**40, sums=15, numbers=2_000, honest=3)
    spent = epsilon(composed(*[shares.event()] * 15), 1e-5).upper
    assert 0.99 < spent <= 1
    assert get_epsilon_gaussian(shares.multiplier, 1e-5) <= 1
    assert shares.slack(1.0) < 1e-5 * 2**-10


def test_a_grid_that_is_too_coarse_for_delta_is_refused() -> None:
    with pytest.raises(ConfigError, match="too coarse for delta 1e-05"):
        calibrated(1.0, 1e-5, sensitivity=20.0, sums=10, numbers=1_000, honest=3)


@given(
    honest=st.integers(1, 30),
    sums=st.integers(1, 40),
    sensitivity=st.floats(2.0**20, 2.0**42),
    multiplier=st.floats(0.5, 100),
)
@settings(max_examples=200, deadline=None)
def test_shares_of_the_honest_are_never_too_little(
    honest: int, sums: int, sensitivity: float, multiplier: float
) -> None:
    shares = NoiseShares(multiplier, sensitivity, sums, 10, honest)
    least = (multiplier * sensitivity) ** 2 * sums
    assert shares.share_scale**2 * honest >= least
    assert shares.share_scale**2 * honest <= least * (1 + 1e-12)
    assert shares.event().noise_multiplier ** -2 * sums == pytest.approx(multiplier**-2)


def test_only_silos_that_cannot_collude_or_drop_out_are_counted() -> None:
    assert surely_honest(4, 1) == 3
    assert surely_honest(3, 0) == 3
    for min_summands, may_collude in ((3, 3), (3, 4), (3, -1)):
        with pytest.raises(ConfigError, match="may-collude is"):
            surely_honest(min_summands, may_collude)


@pytest.mark.parametrize(
    "wrong",
    [{"sums": 0}, {"numbers": 0}, {"honest": 0}, {"multiplier": 0.0}, {"multiplier": math.inf},
     {"multiplier": math.nan}, {"sensitivity": 0.0}, {"sensitivity": 2.0**60}, {"sensitivity": 0.1}],
)  # fmt: skip
def test_impossible_numbers_are_refused(wrong: dict[str, float]) -> None:
    fine = {"multiplier": 3.0, "sensitivity": 2.0**30, "sums": 5, "numbers": 10, "honest": 3}
    NoiseShares(**fine)
    with pytest.raises(ConfigError):
        NoiseShares(**{**fine, **wrong})


FALSE_ALARMS = 1e-6
FINE, COARSE = VoteShares(0.5, 200, 10, 3), VoteShares(30.0, 200, 10, 3)
JOINT = NoiseShares(1.5, 40.0, 2, 2_000, 3)
KINDS = {"fine grid": FINE, "grid of votes": COARSE, "gradients": JOINT}


def whole_scale(shares: VoteShares | NoiseShares) -> float:
    """Of the noise that is accounted for, on the grid."""
    return shares.scale if isinstance(shares, NoiseShares) else shares.grid * shares.scale


def plan(epsilon: float = 8.0, delta: float = 1e-5, gamma: float = 0.0) -> NoisePlan:
    return NoisePlan("gaussian", epsilon, delta, gamma)


def simulated(count: int) -> list[SimulatedNoise]:
    return [SimulatedNoise(np.random.default_rng([7, number])) for number in range(count)]


def differs(drawn: np.ndarray, scale: float) -> bool:
    """Whether numbers are not drawn from the discrete Gaussian, by a chi-squared test on cells of 50 or more."""
    reach = math.ceil(12 * scale)
    expected = pmf(scale, reach) * drawn.size
    edges = [-reach]
    filled = 0.0
    for value, number in zip(range(-reach, reach + 1), expected, strict=True):
        filled += number
        if filled >= 50:
            edges.append(value + 1)
            filled = 0.0
    edges[-1] = reach + 1
    wanted = np.array([expected[low + reach : high + reach].sum() for low, high in pairwise(edges)])
    found = np.array([((low <= drawn) & (drawn < high)).sum() for low, high in pairwise(edges)])
    statistic = ((found - wanted) ** 2 / wanted).sum() + drawn.size - found.sum()
    return bool(statistic > chi2.isf(FALSE_ALARMS, len(wanted) - 1))


@pytest.mark.parametrize("shares", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("secure", [True, False])
def test_the_honest_silos_noise_is_one_discrete_gaussian(shares: VoteShares | NoiseShares, secure: bool) -> None:
    noises: list[Any] = [SecureNoise() for _ in range(3)] if secure else simulated(3)
    drawn = np.sum([shares.share(noise) for noise in noises], axis=0)
    assert drawn.size == 2_000
    assert not differs(drawn.ravel(), whole_scale(shares))


@pytest.mark.parametrize("planted", ["half the noise", "divided by all silos", "one silo adds none"])
@pytest.mark.parametrize("shares", KINDS.values(), ids=KINDS)
def test_planted_mistakes_are_seen(shares: VoteShares | NoiseShares, planted: str) -> None:
    silos, honest = 5, shares.honest
    scale = {"half the noise": shares.share_scale / 2, "divided by all silos": shares.share_scale * (3 / 5) ** 0.5}
    adding = honest - 1 if planted == "one silo adds none" else honest
    assert silos > honest
    drawn = np.sum(
        [noise.discrete_gaussian(scale.get(planted, shares.share_scale), (200, 10)) for noise in simulated(adding)],
        axis=0,
    )
    assert differs(drawn.ravel(), whole_scale(shares))


@pytest.mark.parametrize("honest", [1, 2, 4])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_the_exact_delta_of_one_count_is_within_what_is_promised(honest: int, scale: float) -> None:
    shares = VoteShares(scale, 1, 2, honest)
    count = shares.event().event
    for delta in (1e-2, 1e-4):
        promised = epsilon(count, delta).upper
        assert hockey_stick(honest, shares.share_scale, shares.grid, promised) <= delta
        if honest > 1:
            assert hockey_stick(honest - 1, shares.share_scale, shares.grid, promised) > delta


@given(
    scale=st.floats(2.0**-10, 2.0**20),
    queries=st.integers(1, 100_000),
    classes=st.integers(2, 100),
    honest=st.integers(1, 99),
)
@settings(max_examples=300, deadline=None)
def test_shares_are_never_too_little_nor_too_coarse_nor_too_large_for_a_sum(
    scale: float, queries: int, classes: int, honest: int
) -> None:
    shares = VoteShares(scale, queries, classes, honest)
    assert shares.grid == 1 << int(math.log2(shares.grid))
    least = (shares.grid * scale) ** 2
    assert least <= shares.share_scale**2 * honest <= least * (1 + 1e-12) <= shares.share_scale**2 * (honest + 1)
    assert shares.unlikeness < 1e-50
    # 100 silos' votes and ten standard deviations of their noise fit into 32 bits with a sign.
    assert 100 * shares.grid + 10 * shares.share_scale * 10 < 2**31


@pytest.mark.parametrize("votes", [1, 3])
def test_noise_is_the_least_that_keeps_the_budget_of_a_silo(votes: int, tmp_path: Path) -> None:
    shares = shares_for(plan(), votes, 100, 4, 5)
    spent = spent_on_sum(shares, votes, 1e-5, 2)
    assert 7.9 < spent.epsilon <= 8
    assert spent.noise is not None
    assert (spent.unit, spent.where, spent.noise.honest) == (PrivacyUnit.SILO, "silos together", 5)
    assert spent.noise.scale == pytest.approx(votes * shares.scale)
    assert Spending.from_result(spent.to_result()) == spent
    with Ledger(tmp_path) as ledger:
        ledger.charge("study", "whole silo", Budget(8.0, 1e-5, PrivacyUnit.SILO), shares.event())


def test_the_coordinator_decides_on_what_it_opens_and_adds_nothing() -> None:
    counts = np.array([[5, -3, 4], [-7, -2, -9], [0, 3, 3]])
    decided = [noisiest(counts, np.zeros(3, np.int16), np.random.default_rng(seed)) for seed in range(50)]
    assert {tuple(labels[:2]) for labels in decided} == {(0, 1)}
    assert {labels[2] for labels in decided} == {1, 2}


def adder(path: Path, noise: Any, *, secure: bool, most: float = 20.0) -> NoiseAdder:
    budget = Budget(most, 1e-5, PrivacyUnit.SILO)
    return NoiseAdder(Purse(Ledger(path), budget, lambda question: noise, real=secure), 2)


def test_noise_that_protects_cannot_be_predicted(tmp_path: Path) -> None:
    adder(tmp_path, SecureNoise(), secure=True)
    adder(tmp_path, simulated(1)[0], secure=False)
    with pytest.raises(ConfigError, match="can be predicted"):
        adder(tmp_path, simulated(1)[0], secure=True)


TERMS = Terms("study", bytes(32), 50, ("a", "b", "c"))
QUESTION = Instruction(1, Query(0, 50), np.full(50, ABSTAIN, dtype=np.int16), summed=True, noise=10.0)


def test_what_is_added_is_the_votes_on_the_grid_and_a_share(tmp_path: Path) -> None:
    class Known:
        secure = False

        def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> np.ndarray:
            assert scale == VoteShares(10.0, 50, 3, 2).share_scale
            return np.full(shape, -3)

    vector = np.tile(np.uint64([1, 0, 0]), 50)
    added = with_noise(vector, QUESTION, TERMS, adder(tmp_path, Known(), secure=False), b"1")
    total = opened(SUMS_WITH_NOISE["hard"], added + added, QUESTION, TERMS, 2)
    assert total.tolist() == [[-4, -6, -6]] * 50


@pytest.mark.parametrize("noise", [10.0, 0.01, 2.0**-10])
def test_a_sum_that_is_dearer_than_the_budget_is_refused_at_once_and_charges_nothing(
    tmp_path: Path, noise: float
) -> None:
    """Also one so dear that its loss distribution would fill the memory."""
    made = adder(tmp_path, SecureNoise(), secure=True, most=1.0)
    with pytest.raises(Refused) as refused:
        with_noise(np.zeros(150, np.uint64), replace(QUESTION, noise=noise), TERMS, made, b"1")
    assert refused.value.reason is Refusal.PRIVACY_BUDGET
    with made.purse.ledger as ledger:
        found = ledger.spent("study", WHOLE_SILO)
    assert found is None or found.charges == 0


# --- the coordinator's noise


SIMULATED = noise_for(real=False)
NOBODY = np.full(1000, ABSTAIN, dtype=np.int16)


def tally_plan(mechanism: str, epsilon: float = 1.0, delta: float = 1e-5, **settings: Any) -> NoisePlan:
    return NoisePlan(mechanism, epsilon, delta, **settings)


def test_real_silos_have_secure_noise_and_simulated_ones_that_of_the_seed() -> None:
    assert noise_for(real=True)(np.random.default_rng(0)).secure
    first, second = (SIMULATED(np.random.default_rng(0)) for _ in range(2))
    assert not first.secure
    assert first.octets(8) == second.octets(8)


def test_noise_is_calibrated_to_the_budget_for_all_votes_of_a_silo() -> None:
    for votes in (1, 3):
        mechanism = tally_mechanism(tally_plan("laplace", epsilon=60.0), votes, 50)
        assert mechanism.unit is PrivacyUnit.SILO
        assert 59 < spent_by(mechanism, 50, 1e-5).epsilon <= 60


def test_partitions_at_a_silo_compose() -> None:
    spent, longer = spent_by(Laplace(25.0), 37, 1e-5, partitions=2), spent_by(Laplace(25.0), 74, 1e-5)
    assert spent.epsilon == longer.epsilon
    assert (spent.unit, spent.where) == (PrivacyUnit.EXAMPLE, "silo")


def test_golden_numbers() -> None:
    """Where FedKT's paper has 5.14 for 148 queries with gamma .04."""
    found = {noise: spent_by(ON_COUNTS[noise](25.0), 148, 1e-5).epsilon for noise in ("laplace", "gumbel")}
    assert found == {"laplace": pytest.approx(4.145, abs=0.005), "gumbel": pytest.approx(2.102, abs=0.005)}


def test_a_silo_of_two_students_has_twice_the_votes() -> None:
    silo = spent_by(Laplace(20.0, 2, PrivacyUnit.SILO), 40, 1e-5)
    assert silo.epsilon == pytest.approx(spent_by(Laplace(10.0), 40, 1e-5).epsilon, rel=0.01)
