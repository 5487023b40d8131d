"""Everything one silo works with: its data, its copy of the public set, its learner."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fedct_flwr import datasets
from fedct_flwr.config import NodeConfig, RunConfig
from fedct_flwr.learners.base import Learner, Saveable
from fedct_flwr.learners.build import build_learner
from fedct_flwr.learners.catalog import check_allowed
from fedct_flwr.public_set import PublicSet
from fedct_flwr.run_folder import RunFolder, default_path
from fedct_flwr.scoring import accuracy, balanced_accuracy
from fedct_flwr.types import ConfigError, Examples, SiloName
from fedct_flwr.wire.codec import Scores, Terms


@dataclass(frozen=True, eq=False)
class Site:
    """One silo. ``terms`` are what it has agreed to; a message with others is refused."""

    silo: SiloName
    private: Examples
    own_test: Examples
    pooled_test: Examples
    public: PublicSet
    learner: Learner
    terms: Terms

    def scores(self) -> Scores:
        """How good the model is now on the test data at hand."""
        tests = (self.own_test, self.pooled_test)
        return Scores(*(score(self.learner, test) for test in tests for score in (accuracy, balanced_accuracy)))


# A process that serves many rounds reads the data and fits the preprocessing once.
@lru_cache(maxsize=128)
def open_site(config: RunConfig, silo: SiloName) -> Site:
    """The silo's site. Raises ConfigError or DataError."""
    dataset = datasets.load(config)
    position = dataset.position(silo)
    data = dataset.silos[position]
    learner = build_learner(config, dataset, position, data.private.X)
    terms = Terms(config.study, dataset.public.fingerprint, len(dataset.public), dataset.schema.classes)
    return Site(silo, data.private, data.test, dataset.test, dataset.public, learner, terms)


def silo_name(config: RunConfig, node: NodeConfig) -> SiloName:
    """The silo a node stands for. Raises ConfigError if the data set has no silo for this partition."""
    if node.silo:
        return node.silo
    silos = datasets.load(config).silos
    position = node.partition_id or 0
    if position >= len(silos):
        raise ConfigError(f"there are {len(silos)} silos but this is node {position + 1}: lower num-supernodes")
    return silos[position].name


def check_agreed(config: RunConfig, node: NodeConfig) -> None:
    """Raise ConfigError if the run config asks a named silo for what only its own node may decide."""
    if node.is_simulated:
        return
    if config.data == "files":
        raise ConfigError("data = 'files' is for simulation: a named silo reads no folder that the run config names")
    for name in config.learner:
        check_allowed(name, node.learner_packages)


def model_path(config: RunConfig, node: NodeConfig, site: Site, run_id: int) -> Path | None:
    """Where the silo's model is kept, if it can be: its own state folder, or the run folder when all is simulated."""
    if not isinstance(site.learner, Saveable):
        return None
    if node.state_dir:
        return node.state_dir / f"{config.study}{site.learner.suffix}"
    if not node.is_simulated or not config.save_models:
        return None
    run = RunFolder(Path(config.run_dir) if config.run_dir else default_path(config.study, run_id))
    # Only where a coordinator on this machine has begun a run: the run config alone names no place to write to.
    return run.silo_model(site.silo, site.learner.suffix) if run.exists() else None
