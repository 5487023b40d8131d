"""Mechanisms: each perturbs votes, and says what it protects and what it spends. ``config.mechanisms`` enters them."""

from collections.abc import Mapping
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Final

from fedct_flwr.config import protections as mechanisms
from fedct_flwr.privacy.mechanisms.base import CountNoise, Mechanism, event_of
from fedct_flwr.privacy.mechanisms.gaussian import Gaussian
from fedct_flwr.privacy.mechanisms.gumbel import Gumbel
from fedct_flwr.privacy.mechanisms.laplace import Laplace
from fedct_flwr.privacy.mechanisms.randomized_response import RandomizedResponse
from fedct_flwr.privacy.mechanisms.xor import Xor

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
    "event_of",
]

MECHANISMS: Final[Mapping[str, type[Mechanism]]] = MappingProxyType(
    {name: resolve_name(entry.made_by) for name, entry in mechanisms.MECHANISMS.items()}
)

ON_COUNTS: Final[Mapping[str, type[CountNoise]]] = MappingProxyType(
    {name: resolve_name(mechanisms.MECHANISMS[name].made_by) for name in mechanisms.ON_COUNTS}
)
"""Noise on vote counts for the class that has most of them to be told (``noisy_max``)."""
