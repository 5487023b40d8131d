"""Exact coins: the boundary of each, and what a source of noise must not do."""

import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.stats import chi2

from fedct_flwr.privacy.randomness import (
    ONE,
    SecureNoise,
    SimulatedNoise,
    _pairs,
    bernoulli,
    chance_of_exp,
    chance_of_noise,
    gaussians,
    uniform_below,
)


class Scripted(SecureNoise):
    """Gives out the bytes it was made with."""

    def __init__(self, *parts: bytes) -> None:
        self._parts: Iterator[bytes] = iter(parts)

    def octets(self, count: int) -> bytes:
        part = next(self._parts)
        assert len(part) == count
        return part


@pytest.mark.parametrize("chance", [0, 1, ONE // 3, ONE // 2, (7 << 56) + 5, ONE - 1, ONE])
def test_a_coin_is_true_for_just_the_words_below_its_chance(chance: int) -> None:
    for word in {0, 1, chance - 1, chance, chance + 1, ONE // 2, ONE - 1}:
        if 0 <= word < ONE:
            first, rest = divmod(word, 1 << 56)
            tail = (rest << 8).to_bytes(8, "little")
            coin = bernoulli(Scripted(bytes([first]), tail), chance, 1)
            assert coin.tolist() == [word < chance]


@pytest.mark.parametrize("bound", [1, 2, 3, 9, 10, 255, 256, 257, 1000])
def test_integers_below_a_bound_are_uniform(bound: int) -> None:
    drawn = uniform_below(SecureNoise(), bound, 100 * bound)
    assert drawn.min() >= 0
    seen = np.bincount(drawn, minlength=bound)
    assert len(seen) == bound
    if bound > 1:
        assert chi2.sf(((seen - 100) ** 2 / 100).sum(), bound - 1) > 1e-6


def test_remainders_of_the_last_part_are_drawn_again() -> None:
    assert uniform_below(Scripted(bytes([255, 7]), bytes([5])), 3, 2).tolist() == [2, 1]


@pytest.mark.parametrize("epsilon", [1e-9, 3.3e-5, 0.1, 1.0, 7.5, 40.0, 1000.0])
@pytest.mark.parametrize("others", [1, 2, 9])
def test_rounding_never_makes_an_output_more_likely_than_epsilon_allows(epsilon: float, others: int) -> None:
    noise = chance_of_noise(epsilon, others)
    assert 0 < noise <= ONE
    with localcontext(prec=80):
        kept_over_lost = Fraction((ONE - noise) * others, noise)
        exact = Fraction(Decimal(epsilon).exp())
    assert kept_over_lost <= exact
    if epsilon <= 7.5:
        assert math.log(kept_over_lost) == pytest.approx(epsilon, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("exponent", [-1e-30, -0.04, -1.0, -40.0, -1000.0])
def test_the_chance_to_take_a_class_is_never_too_small(exponent: float) -> None:
    with localcontext(prec=80):
        assert Fraction(chance_of_exp(exponent), ONE) >= Fraction(Decimal(exponent).exp())
    assert chance_of_exp(exponent) / ONE == pytest.approx(math.exp(exponent), rel=1e-12, abs=2 / ONE)


@pytest.mark.parametrize("scale", [0.3, 1.0, 25.0])
def test_simulated_noise_has_the_variance_of_the_secure_one(scale: float) -> None:
    for draw in ("discrete_laplace", "discrete_gaussian"):
        noise = getattr(SimulatedNoise(np.random.default_rng(0)), draw)(scale, (200_000,)).astype(float)
        weight = {
            "discrete_laplace": lambda x: np.exp(-abs(x) / scale),
            "discrete_gaussian": lambda x: np.exp(-(x**2) / (2 * scale**2)),
        }[draw]
        x = np.arange(-2000, 2001)
        variance = (x**2 * weight(x)).sum() / weight(x).sum()
        assert noise.var() == pytest.approx(variance, rel=0.05)


def seeded(seed: int = 0) -> SimulatedNoise:
    return SimulatedNoise(np.random.default_rng(seed))


@pytest.mark.parametrize("std", [1.0, 0.003, 40.0])
def test_they_are_normal_with_the_standard_deviation_that_was_asked_for(std: float) -> None:
    drawn = gaussians(seeded(), 300_000, std)
    assert stats.kstest(drawn, "norm", args=(0, std)).pvalue > 0.01
    # A statistic of the scale alone, which a test of the whole distribution hardly sees.
    assert math.isclose(drawn.std(), std, rel_tol=0.006)


def test_the_two_of_a_pair_and_their_squares_are_independent() -> None:
    first, second = gaussians(seeded(), 400_000, 1.0).reshape(2, -1)
    for a, b in ((first, second), (first**2, second**2), (first[1:], first[:-1])):
        assert abs(np.corrcoef(a, b)[0, 1]) < 4 / math.sqrt(len(a))


def test_tails_are_as_heavy_as_they_should_be() -> None:
    drawn = np.abs(gaussians(seeded(1), 4_000_000, 1.0))
    expected = 4_000_000 * 2 * stats.norm.sf(4.5)
    assert stats.poisson.cdf(np.count_nonzero(drawn > 4.5), expected) > 0.001
    assert stats.poisson.sf(np.count_nonzero(drawn > 4.5), expected) > 0.001


@pytest.mark.parametrize("word", [0, 1, 1 << 31, (1 << 32) - 1])
def test_the_most_extreme_bits_give_finite_numbers(word: int) -> None:
    drawn = _pairs(np.full(24, word, np.uint32), np.float32(1))
    assert np.isfinite(drawn).all()
    assert np.abs(drawn).max() < 9.6
