"""Mechanisms: each perturbs votes, and says what it protects and what it spends."""

from collections.abc import Mapping
from typing import Final

from fedct_flwr.privacy.mechanisms.base import CountNoise, Mechanism
from fedct_flwr.privacy.mechanisms.on_counts import Gaussian, Gumbel, Laplace
from fedct_flwr.privacy.mechanisms.on_labels import RandomizedResponse, Xor

__all__ = [
    "MECHANISMS",
    "ON_COUNTS",
    "CountNoise",
    "Gaussian",
    "Gumbel",
    "Laplace",
    "Mechanism",
    "RandomizedResponse",
    "Xor",
]

ON_COUNTS: Final[Mapping[str, type[CountNoise]]] = {kind.name: kind for kind in (Laplace, Gaussian, Gumbel)}
"""Noise on vote counts for the class that has most of them to be told (``noisy_max``)."""

MECHANISMS: Final[Mapping[str, type[Mechanism]]] = {
    "xor": Xor,
    "randomized-response": RandomizedResponse,
    **ON_COUNTS,
}
