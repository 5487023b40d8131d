"""Randomized response on the personal model's labels."""

import math

import numpy as np
import pytest

from fedct_flwr.labelers.labeler import Asked
from fedct_flwr.labelers.randomized import RandomizedLabeler
from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.randomness import SecureNoise
from fedct_flwr.types import Examples


def asked(votes: list[int]) -> Asked:
    nothing = Examples(np.empty((0, 1)), np.empty(0, np.int16))
    return Asked(nothing, np.zeros((len(votes), 1)), np.zeros(0, np.int16), np.int16(votes), np.arange(len(votes)))


def test_without_delta_each_label_has_its_share_of_epsilon() -> None:
    found = RandomizedLabeler(3, num_queries=10, epsilon=5.0, delta=0.0)
    assert found.label_epsilon == pytest.approx(0.5, rel=2e-3)
    assert epsilon(found.event(asked([0] * 10)), 0).upper <= 5 * (1 + 1e-9)


def test_labels_are_kept_as_often_as_their_epsilon_allows() -> None:
    found = RandomizedLabeler(4, num_queries=10, epsilon=10.0, delta=0.0)
    labels = found.answer(asked([2] * 40_000), SecureNoise())
    kept = math.exp(found.label_epsilon) / (math.exp(found.label_epsilon) + 3)
    assert (labels == 2).mean() == pytest.approx(kept, abs=0.015)
