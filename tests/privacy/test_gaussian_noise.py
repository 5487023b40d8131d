"""Gaussian noise in floating point: its distribution and tails, and that its bits come from the given noise."""

import math

import numpy as np
import pytest
from scipy import stats

from fedct_flwr.privacy.randomness import SimulatedNoise, _pairs, gaussians


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
