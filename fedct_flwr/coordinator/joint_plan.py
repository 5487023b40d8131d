"""The plan of a joint labeler, which coordinator and silos agree upon before the first step.

In a simulation it follows from the run's settings. Real silos have approved it as ``[joint]`` in ``study.toml``, so a
run has no say in it, and no silo tells how many records it has.
"""

from typing import Protocol

from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.study import Subject
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.kinds.joint import STEPS
from fedct_flwr.types import ConfigError
from fedct_flwr.wire.content import Joint


class Planned(Protocol):
    """The algorithm, as far as the plan follows from its settings."""

    @property
    def epsilon(self) -> float:
        """In total, for each record."""

    @property
    def delta(self) -> float:
        """The same."""

    @property
    def joint_labeler(self) -> str:
        """The kind of labeler."""

    @property
    def may_collude(self) -> int:
        """Silos that may collude with the coordinator."""

    def fewest_summands(self, num_silos: int) -> int:
        """Silos that a sum needs at least, of so many."""


def simulated_plan(method: Planned, config: RunConfig, dataset: FederatedDataset, num_silos: int) -> Joint:
    """The plan of a simulation with so many silos, without weights. Raises ConfigError."""
    from fedct_flwr.privacy.noise_shares import surely_honest

    silos = [silo for silo in dataset.silos if not config.roster or silo.name in config.roster]
    return Joint(
        records=sum(silo.private.size for silo in silos),
        steps=STEPS,
        epsilon=method.epsilon,
        delta=method.delta,
        honest=surely_honest(method.fewest_summands(num_silos), method.may_collude),
        columns=0 if method.joint_labeler == "linear" else len(dataset.schema.without_texts),
        seed=config.seed,
    )


def real_plan(subject: Subject, seed: int = 0) -> Joint:
    """The plan that real silos have approved, without weights. Raises ConfigError where their study has none."""
    if subject.joint is None:
        raise ConfigError(
            "the joint labeler needs [joint] in study.toml, with about how many records all silos have: add it and let "
            "the silos approve, or choose another algorithm"
        )
    return subject.joint._replace(seed=seed)
