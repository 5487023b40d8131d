"""The test of noise in sums: too little of it is always found, and correct noise is hardly ever accused."""

import numpy as np
import pytest
from scipy.stats import chi2

from fedct_flwr.audit.bounds import GAME_CONFIDENCE
from fedct_flwr.audit.noise_found import find_noise
from fedct_flwr.audit.sum_game import FEWEST_PAIRS
from tests.audit.games import noise

SCALE = 8.0
FEWEST = 2 * FEWEST_PAIRS
"""Sums, where time is short."""


def drawn(*seed: int, scale: float = SCALE, sums: int = FEWEST, examples: int = 4) -> np.ndarray:
    return noise(*seed).discrete_gaussian(scale, (sums, examples, 2)).astype(float)


def test_correct_noise_is_accused_as_rarely_as_is_said() -> None:
    games = 600
    found = [find_noise(drawn(seed, sums=40, examples=2), SCALE, 0.9) for seed in range(games)]
    # The tests are not independent, so fewer than a tenth are accused, but not many fewer.
    assert 0.03 < np.mean([one.broken for one in found]) < 0.1 + 3 * np.sqrt(0.1 * 0.9 / games)
    rng, games = np.random.default_rng(0), 4000
    normal = (np.rint(rng.normal(scale=SCALE, size=(FEWEST, 4, 2))) for _ in range(games))
    accused = np.mean([find_noise(one, SCALE, GAME_CONFIDENCE).broken for one in normal])
    assert accused < 0.001 + 3 * np.sqrt(0.001 / games)


def test_half_the_noise_escapes_with_less_than_one_in_a_million() -> None:
    # With the fewest sums there are, and by one of the three tests alone: its statistic is a fourth as large.
    least = chi2.ppf((1 - GAME_CONFIDENCE) / 9, FEWEST - 1)
    assert chi2.sf(least / 0.5**2, FEWEST - 1) < 1e-6
    assert all(find_noise(drawn(seed, scale=SCALE / 2), SCALE, GAME_CONFIDENCE).broken for seed in range(60))


def test_noise_that_is_all_there_but_is_shared_or_repeated_is_found() -> None:
    fresh = drawn(0)
    between_classes = np.repeat(fresh[:, :, :1], 2, axis=2)
    between_examples = np.repeat(fresh[:, :1], 4, axis=1)
    in_all_sums = np.repeat(fresh[:1], FEWEST, axis=0)
    for shared in (between_classes, between_examples, in_all_sums):
        assert find_noise(shared, SCALE, GAME_CONFIDENCE).high < 0.1


def test_what_is_always_added_hides_nothing() -> None:
    hidden = drawn(0, scale=SCALE / 2) + np.arange(8).reshape(4, 2) * 100
    assert find_noise(hidden, SCALE, GAME_CONFIDENCE).ratio == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("shape", [(1, 4, 2), (4, 4, 1)])
def test_noise_without_a_variance_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"two sums|two classes"):
        find_noise(np.zeros(shape), SCALE, 0.99)
