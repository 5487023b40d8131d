"""The plan of a joint labeler, which coordinator and silos agree upon before the first step.

In a simulation it follows from the run's settings. Real silos have approved it as ``[joint]`` in ``study.toml``, so a
run has no say in it, and no silo tells how many records it has.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from fedct_flwr import privacy
from fedct_flwr.config.run import RunConfig, of_run
from fedct_flwr.coordinator.algorithm import Algorithm, SiloCount
from fedct_flwr.types import ConfigError
from fedct_flwr.wire.content import STEPS, Joint

if TYPE_CHECKING:
    from fedct_flwr.coordinator.study import (
        Subject,
    )  # takes a second, which an algorithm as an object does not wait for
    from fedct_flwr.datasets.federated import FederatedDataset


@dataclass(frozen=True)
class JointSettings(Algorithm):
    """The settings of the algorithm that the plan follows from."""

    epsilon: float = of_run("epsilon")
    """In total, for each record."""
    delta: float = of_run("delta")
    joint_labeler: Literal["linear", "additive"] = "linear"
    """A linear model on features of the public set, or one that adds up a curve for each column."""
    min_summands: SiloCount = field(default=0, kw_only=True)
    """Fewest silos whose sum is opened; 0: all."""
    may_collude: SiloCount = field(default=1, kw_only=True)
    """Silos that may collude with the coordinator, and learn no other silo's gradient."""

    def fewest_summands(self, num_silos: int) -> int:
        """All silos, whose noise adds up, unless fewer are named."""
        return self.min_summands or num_silos


def simulated_plan(method: JointSettings, config: RunConfig, dataset: "FederatedDataset", num_silos: int) -> Joint:
    """The plan of a simulation with ``num_silos`` silos, without weights. Raises ConfigError."""
    silos = [silo for silo in dataset.silos if not config.roster or silo.name in config.roster]
    return Joint(
        records=sum(silo.units for silo in silos),
        steps=STEPS,
        epsilon=method.epsilon,
        delta=method.delta,
        honest=privacy.surely_honest(method.fewest_summands(num_silos), method.may_collude),
        columns=0 if method.joint_labeler == "linear" else len(dataset.schema.without_texts),
        seed=config.seed,
    )


def real_plan(subject: "Subject", seed: int = 0) -> Joint:
    """The plan that real silos have approved, without weights. Raises ConfigError where their study has none."""
    if subject.joint is None:
        raise ConfigError(
            "the joint labeler needs [joint] in study.toml, with about how many records all silos have: add it and let "
            "the silos approve, or choose another algorithm"
        )
    return subject.joint._replace(seed=seed)
