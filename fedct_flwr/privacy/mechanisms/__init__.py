"""Mechanisms by name: each perturbs votes, and says what it protects and what it spends.

To add one, write it in a file of its own, enter it in ``MECHANISMS``, and describe its output probabilities in
``tests/privacy/mechanisms/cases.py``; the conformance tests do the rest.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from fedct_flwr.privacy.mechanisms.base import Mechanism, event_of
from fedct_flwr.privacy.mechanisms.confident_gaussian import ConfidentGaussian
from fedct_flwr.privacy.mechanisms.gaussian import Gaussian
from fedct_flwr.privacy.mechanisms.gumbel import Gumbel
from fedct_flwr.privacy.mechanisms.laplace import Laplace
from fedct_flwr.privacy.mechanisms.randomized_response import RandomizedResponse
from fedct_flwr.privacy.mechanisms.xor import Xor
from fedct_flwr.text.suggest import suggest
from fedct_flwr.types import ConfigError

__all__ = [
    "MECHANISMS",
    "ON_COUNTS",
    "ConfidentGaussian",
    "CountNoise",
    "Gaussian",
    "Gumbel",
    "Laplace",
    "Mechanism",
    "RandomizedResponse",
    "Xor",
    "event_of",
    "named",
]

MECHANISMS: Final[Mapping[str, type[Mechanism]]] = MappingProxyType(
    {
        "xor": Xor,
        "randomized-response": RandomizedResponse,
        "laplace": Laplace,
        "gaussian": Gaussian,
        "confident-gaussian": ConfidentGaussian,
        "gumbel": Gumbel,
    }
)

CountNoise: TypeAlias = Laplace | Gaussian | Gumbel
"""Noise on vote counts, of a scale in votes, for the class that has most of them to be told (``noisy_max``)."""

ON_COUNTS: Final[Mapping[str, type[Laplace] | type[Gaussian] | type[Gumbel]]] = MappingProxyType(
    {"laplace": Laplace, "gaussian": Gaussian, "gumbel": Gumbel}
)


def named(name: str, **settings: Any) -> Mechanism:
    """The mechanism of that name. Raises ConfigError for an unknown name, or settings that it does not have."""
    if name not in MECHANISMS:
        raise ConfigError(f"unknown mechanism {name!r}: {suggest(name, MECHANISMS)}")
    try:
        return MECHANISMS[name](**settings)
    except TypeError:
        raise ConfigError(f"the mechanism {name} has no such settings: {', '.join(settings) or 'none'}") from None
