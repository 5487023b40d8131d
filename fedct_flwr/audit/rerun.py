"""One refit: the run's settings once more in this process, on half of the candidates, with all that travelled."""

import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from client_app.main import app as client_app
from fedct_flwr import datasets
from fedct_flwr.algorithms.table import find_algorithm
from fedct_flwr.audit.transcript import Forge, Transcript
from fedct_flwr.baselines.weight_sharing import WeightSharing
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.learners.base import Learner, Resumable, Saveable
from fedct_flwr.learners.build import build_learner
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.silo.site import simulated_site
from fedct_flwr.types import RunError, SiloName
from fedct_flwr.wire.content import Terms
from server_app.main import app as server_app

_NAME: Final = "audited"
_FIXED: Final[Mapping[str, Any]] = {
    "data": _NAME, "bad-silos": "", "baselines": "none", "resume": False,
    "tracking": "none", "report-scores": False, "student": "", "student-params": "{}", "run-dir": "", "roster": "",
}  # fmt: skip
"""The data set that is handed in has been read and corrupted already, and nobody wants its models."""
_IN_THE_OPEN: Final[Mapping[str, Any]] = {"secure": False, "min-summands": 0, "may-collude": 1}
"""Sums have exactly the votes that travel without them, and then each silo's are there to be added up. Where silos add
noise to their votes, sums stay: in the open the coordinator would add it."""


@dataclass(frozen=True, eq=False)
class Refit:
    """What travelled, and the model that each silo ended with, in a run whose members are known."""

    dataset: FederatedDataset
    transcript: Transcript
    models: Mapping[SiloName, Learner]
    in_sums: bool = False
    """Whether the coordinator sees no silo's answers but their sum."""


def rerun(config: RunConfig, dataset: FederatedDataset, seed: int, forge: Forge | None = None) -> Refit:
    """Run these settings on this data set, with another seed. Raises RunError where the run fails."""
    transcript = Transcript(client_app, Terms.of(config.study, dataset.public, dataset.schema), forge)
    with tempfile.TemporaryDirectory(prefix="fedct-audit-") as folder, _named(dataset), _silent():
        path = Path(folder) / "run"
        averages = isinstance(find_algorithm(config), WeightSharing)
        defaults = RunConfig.defaults()
        in_sums = config.method.in_sums and not config.method.trains_together
        again = RunConfig.from_flower(
            {
                **config.to_flower(),
                **_FIXED,
                **{key: defaults[key] for used in datasets.SETTINGS.values() for key in used},
                **(_IN_THE_OPEN if in_sums and not config.method.noise_in_shares else {}),
                "seed": seed,
                "run-dir": str(path),
                "save-models": averages,
            }
        )
        networks = isinstance(simulated_site(again, 0).learner, Resumable)
        run_loopback(
            server_app, transcript.app, again.to_flower(), simulated_nodes(len(dataset.silos)), 1 if networks else None
        )
        result = RunFolder(path).read_json("result.json")
        if result.get("status") != "completed" or len(transcript.silos) < len(dataset.silos):
            raise RunError(f"a refit of the run failed: {result.get('reason', 'a silo sent no answer')}")
        models = {silo.name: simulated_site(again, number).learner for number, silo in enumerate(dataset.silos)}
        if averages:
            models = dict.fromkeys(models, _global_model(again, dataset, path))
        simulated_site.cache_clear()
    return Refit(dataset, transcript, models, in_sums)


def _global_model(config: RunConfig, dataset: FederatedDataset, path: Path) -> Learner:
    """Of an algorithm that averages weights: what all silos end with."""
    learner = build_learner(config, dataset, 0, dataset.silos[0].private.X)
    if not isinstance(learner, Saveable):
        raise RunError(f"a {type(learner).__name__} is in no file, and the global model is read from one")
    return learner.load(RunFolder(path).global_model(learner.suffix))


@contextmanager
def _named(dataset: FederatedDataset) -> Iterator[None]:
    """Let the two apps find the data set by name, as they find all others, in this process alone."""
    datasets.LOADERS[_NAME] = lambda config: dataset
    # The apps read a data set once for each config.
    datasets.load.cache_clear()
    simulated_site.cache_clear()
    try:
        yield
    finally:
        del datasets.LOADERS[_NAME]
        datasets.load.cache_clear()


@contextmanager
def _silent() -> Iterator[None]:
    """Keep each refit's log from the terminal: the run that is audited has its own."""
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
