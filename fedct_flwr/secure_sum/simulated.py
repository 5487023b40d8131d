"""Keys and terms of a simulation's secure sums."""

from collections.abc import Sequence
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedct_flwr.config.run import RunConfig
from fedct_flwr.secure_sum.terms import SumTerms
from fedct_flwr.seeding import generator
from fedct_flwr.types import SiloName


def simulated_key(config: RunConfig, silo: SiloName) -> Ed25519PrivateKey:
    """A simulated silo's key, which follows from the seed like all else: a simulation protects no one."""
    return Ed25519PrivateKey.from_private_bytes(generator(config.seed, "key for sums", silo).bytes(32))


def simulated_terms(config: RunConfig, silos: Sequence[SiloName]) -> SumTerms:
    """The terms of a simulation's sums. Raises ConfigError for too few silos."""
    keys = {silo: simulated_key(config, silo).public_key().public_bytes_raw() for silo in silos}
    method: Any = config.method
    return SumTerms(config.study, keys, method.fewest_summands(len(silos)), method.may_collude)
