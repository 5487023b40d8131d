"""The papers as a table: how the pipeline tally, perturb, decide is put together for each algorithm."""

from collections.abc import Callable
from functools import partial
from typing import Final

from fedct_flwr.config import RunConfig
from fedct_flwr.consensus import Consensus, counting, plurality, qualified
from fedct_flwr.suggest import suggest
from fedct_flwr.types import ConfigError

Build = Callable[[RunConfig, int], Consensus]


def _fedct(config: RunConfig, num_classes: int) -> Consensus:
    """FedCT: every silo's hard label counts, the plurality wins (Abourayya et al., arXiv:2310.05696, Alg. 1)."""
    return counting(num_classes, plurality)


def _fedct_qualified(config: RunConfig, num_classes: int) -> Consensus:
    """FedCT with a qualified majority: labels below the quorum are dropped for the round (ibid., §5)."""
    return counting(num_classes, partial(qualified, quorum=config.quorum))


ALGORITHMS: Final[dict[str, Build]] = {"fedct": _fedct, "fedct-qualified": _fedct_qualified}


def build_consensus(config: RunConfig, num_classes: int) -> Consensus:
    """The consensus of the algorithm that the run config names. Raises ConfigError for an unknown name."""
    if config.algorithm not in ALGORITHMS:
        raise ConfigError(f"unknown algorithm {config.algorithm!r}: {suggest(config.algorithm, ALGORITHMS)}")
    return ALGORITHMS[config.algorithm](config, num_classes)
