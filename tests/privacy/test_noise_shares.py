"""Shares of noise: that their sums are what is accounted for, exactly where it can be computed, and by sampling."""

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, norm

from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.events import composed
from fedct_flwr.privacy.noise_shares import NoiseShares, calibrated, surely_honest, unlike_one
from fedct_flwr.privacy.randomness import SecureNoise, SimulatedNoise
from fedct_flwr.types import ConfigError


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


def has_too_little_noise(shares: NoiseShares, drawn: np.ndarray) -> bool:
    """Whether sums ``(n,)`` of shares vary less than accounted for, at a confidence of 1 - 1e-6."""
    statistic = float((drawn / shares.scale) @ (drawn / shares.scale))
    return statistic < chi2.ppf(1e-6, len(drawn))


@pytest.mark.parametrize("make", ["secure", "simulated"])
def test_silos_noise_adds_up_to_what_is_accounted_for(make: str) -> None:
    shares = NoiseShares(3.73, 2.0**40, 15, 2_000, 3)
    noises = [SecureNoise() if make == "secure" else SimulatedNoise(np.random.default_rng(i)) for i in range(3)]
    drawn = np.sum([shares.share(noise) for noise in noises], axis=0) / 1.0
    assert not has_too_little_noise(shares, drawn)
    assert drawn.std() == pytest.approx(shares.scale, rel=0.1)
    assert abs(drawn.mean()) < 5 * shares.scale / math.sqrt(len(drawn))


@pytest.mark.parametrize("planted", ["half of it", "one silo adds none", "dropouts are counted"])
def test_planted_too_little_noise_is_noticed(planted: str) -> None:
    shares = NoiseShares(3.73, 2.0**40, 15, 2_000, 3)
    adding, used = 3, shares
    if planted == "half of it":
        used = replace(shares, multiplier=shares.multiplier / 2)
    elif planted == "one silo adds none":
        adding = 2
    else:
        used = replace(shares, honest=4)
    drawn = np.sum([used.share(SimulatedNoise(np.random.default_rng(i))) for i in range(adding)], axis=0) / 1.0
    assert has_too_little_noise(shares, drawn)


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
