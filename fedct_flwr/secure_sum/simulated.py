"""Keys and terms of a simulation's secure sums."""

from collections.abc import Sequence
from typing import Any, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedct_flwr.secure_sum.terms import SumTerms
from fedct_flwr.seeding import generator
from fedct_flwr.types import SiloName


class Simulation(Protocol):
    """The settings that sums depend on."""

    @property
    def seed(self) -> int:
        """The run's seed, from which keys follow."""

    @property
    def study(self) -> str:
        """The study's name."""

    @property
    def method(self) -> Any:
        """The algorithm, with its settings of sums."""


def simulated_key(config: Simulation, silo: SiloName) -> Ed25519PrivateKey:
    """A simulated silo's key, which follows from the seed like all else: a simulation protects no one."""
    return Ed25519PrivateKey.from_private_bytes(generator(config.seed, "key for sums", silo).bytes(32))


def simulated_terms(config: Simulation, silos: Sequence[SiloName]) -> SumTerms:
    """The terms of a simulation's sums. Raises ConfigError for too few silos."""
    keys = {silo: simulated_key(config, silo).public_key().public_bytes_raw() for silo in silos}
    return SumTerms(config.study, keys, config.method.fewest_summands(len(silos)), config.method.may_collude)
