"""Mechanisms: each perturbs votes, and says what it protects and what it spends."""

from collections.abc import Mapping
from typing import Final

from fedct_flwr.privacy.mechanisms.base import CountNoise, Mechanism
from fedct_flwr.privacy.mechanisms.on_counts import Gaussian, Gumbel, Laplace
from fedct_flwr.privacy.mechanisms.randomized_response import RandomizedResponse

__all__ = [
    "ON_COUNTS",
    "CountNoise",
    "Gaussian",
    "Gumbel",
    "Laplace",
    "Mechanism",
    "RandomizedResponse",
]

ON_COUNTS: Final[Mapping[str, type[CountNoise]]] = {kind.name: kind for kind in (Laplace, Gaussian, Gumbel)}
"""Noise on vote counts for the class that has most of them to be told (``noisy_max``)."""
