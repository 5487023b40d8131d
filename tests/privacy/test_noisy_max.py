"""The class that leads after the noise."""

import numpy as np
import pytest

from fedct_flwr.privacy.mechanisms import Gaussian, Gumbel, Laplace, Mechanism
from fedct_flwr.privacy.mechanisms.base import noisy_max
from fedct_flwr.privacy.randomness import SimulatedNoise


def noise() -> SimulatedNoise:
    return SimulatedNoise(np.random.default_rng(0))


@pytest.mark.parametrize("mechanism", [Laplace(0.5), Gaussian(0.5), Gumbel(0.5)])
def test_a_clear_majority_wins(mechanism: Mechanism) -> None:
    counts = np.tile(np.int32([0, 40, 3]), (50, 1))
    labels = noisy_max(mechanism, counts, noise())
    assert labels.dtype == np.int16
    assert (labels == 1).all()


@pytest.mark.parametrize("mechanism", [Laplace(0.01), Gaussian(0.01), Gumbel(0.01)])
def test_a_tie_goes_to_any_of_its_classes(mechanism: Mechanism) -> None:
    """Noise of a hundredth of a vote adds nothing to counts."""
    labels = noisy_max(mechanism, np.tile(np.int32([1, 7, 7, 7]), (3000, 1)), noise())
    assert np.abs(np.bincount(labels, minlength=4) - [0, 1000, 1000, 1000]).max() < 130
