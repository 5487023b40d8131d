"""The models that are compared: those a run has kept, a silo alone, and all private records in one place.

During a run a silo writes its bare model. At the end each file gets what it takes to read new records without the run's
data: columns with their categories, the classes or the quantity, and the preprocessing of networks.
"""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias
from warnings import warn

import numpy as np

from fedct_flwr import learners, models
from fedct_flwr.config.run import STUDY, RunConfig
from fedct_flwr.coordinator.algorithm import find_algorithm
from fedct_flwr.datasets.federated import FederatedDataset, pool
from fedct_flwr.learners import Choosing, Learner, Resumable, Saveable
from fedct_flwr.learners.build import build_learner
from fedct_flwr.learners.catalog import packages
from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.runs.scores import METHODS
from fedct_flwr.scoring.assessment import RANKS, Recalibration
from fedct_flwr.silo import simulated_site, train_alone
from fedct_flwr.text.printable import logger, suggest
from fedct_flwr.types import ConfigError, DataError, Examples, Groups, SiloName, TrainingError

if TYPE_CHECKING:
    from fedct_flwr.runs.run_folder import RunFolder
    from fedct_flwr.scoring import Predictor

Baseline: TypeAlias = Callable[[RunConfig, FederatedDataset, int], Learner]
_AT_ONCE: Final = 32
"""Silos whose networks are trained in one go, and held until they are scored."""


def local_only(config: RunConfig, dataset: FederatedDataset, position: int) -> Learner:
    """The learner of the silo at ``position`` trained on its private records alone. Raises TrainingError."""
    silo = dataset.silos[position]
    return _trained_alone(config, dataset, position, silo.private, silo.groups)


def centralized(config: RunConfig, dataset: FederatedDataset, position: int) -> Learner:
    """The same learner trained on all silos' private records, as if none colluded. Raises TrainingError."""
    everything = pool([silo.private for silo in dataset.silos])
    return _trained_alone(config, dataset, position, everything, _all_groups(dataset))


def _trained_alone(
    config: RunConfig, dataset: FederatedDataset, position: int, records: Examples, groups: Groups | None
) -> Learner:
    """The learner of the silo at ``position``, trained on ``records`` as in the run, but for what others say."""
    learner = build_learner(config, dataset, position, records.X)
    if isinstance(learner, Resumable) and "warm-up-rounds" in config.method.used and not config.epochs:
        site = replace(simulated_site(config, position), learner=learner, private=records, groups=groups)
        train_alone(site, config.rounds, promised=site.privacy.enabled or config.method.noise_in_shares)
        return learner
    if isinstance(learner, Choosing):
        learner.choose(records, groups)
    learner.fit(*records)
    return learner


def _all_groups(dataset: FederatedDataset) -> Groups | None:
    """The groups of all silos' records, of which none is in two silos."""
    if all(silo.groups is None for silo in dataset.silos):
        return None
    found: list[Groups] = []
    for silo in dataset.silos:
        own = np.arange(silo.private.size) if silo.groups is None else silo.groups
        found.append(np.unique(own, return_inverse=True)[1] + sum(map(len, found)))
    return np.concatenate(found)


def methods_of(config: RunConfig) -> tuple[str, ...]:
    """The models that a run scores: its own, and the baselines it is compared with; real silos have none of these."""
    kept = "none" if config.data == STUDY else config.baselines
    return {"all": METHODS, "local": ("local", "federated"), "none": ("federated",)}[kept]


class References:
    """The baselines of one run; pooled records are one model per learner, of the first silo's random state."""

    def __init__(self, config: RunConfig, dataset: FederatedDataset) -> None:
        self._config, self._dataset = config, dataset
        self._pooled: dict[str, Learner | None] = {}
        self._alone: dict[int, Learner | None] = {}

    def of(self, position: int) -> dict[str, Learner]:
        """Those of the silo at ``position`` by name; one whose training fails is left out."""
        baselines = {"local": self._local, "centralized": self._centralized}
        found = {name: train(position) for name, train in baselines.items() if name in methods_of(self._config)}
        return {name: model for name, model in found.items() if model is not None}

    def _local(self, position: int) -> Learner | None:
        """The silo's learner alone. Networks of the silos after it are trained along with it."""
        if position not in self._alone:
            silos, train = self._dataset.silos, partial(self._trained, local_only)
            learner = build_learner(self._config, self._dataset, position, silos[position].private.X)
            if isinstance(learner, Resumable):
                every = range(position, min(position + _AT_ONCE, len(silos)))
                found = learners.together(
                    [partial(train, each) for each in every], learners.Stacks(self._config.silos_at_once).train
                )
                self._alone |= dict(zip(every, found, strict=True))
            else:
                self._alone[position] = train(position)
        return self._alone.pop(position)

    def _centralized(self, position: int) -> Learner | None:
        learner = self._config.learner_settings(position, len(self._dataset.silos)).model_dump_json()
        if learner not in self._pooled:
            self._pooled[learner] = self._trained(centralized, position)
        return self._pooled[learner]

    def _trained(self, baseline: Baseline, position: int) -> Learner | None:
        # A learner that manages with pseudo-labels may fail without; what it says may quote data.
        with contextlib.suppress(TrainingError):
            return baseline(self._config, self._dataset, position)
        return None


SUFFIXES: Final = (".skops", ".safetensors")
_MOST_NAMED: Final = 3


def kept_model(
    config: RunConfig, dataset: FederatedDataset, position: int, folder: "RunFolder", tell: Callable[[str], None] = warn
) -> Learner | None:
    """The model that the silo at ``position`` ended with; None where none was kept.

    Also None for a file that cannot be read, which ``tell`` reports. Raises ConfigError.
    """
    silo = dataset.silos[position]
    learner = build_learner(config, dataset, position, silo.private.X)
    if not isinstance(learner, Saveable):
        return None
    path = find_algorithm(config).model_path(folder, silo.name, learner.suffix)
    try:
        if learner.has(path) if isinstance(learner, SklearnLearner) else path.exists():
            return learner.load(path)
    except DataError as error:
        tell(f"the model of silo {silo.name!r} cannot be read, and is left out: {error}")
    return None


def student(config: RunConfig, folder: "RunFolder", tell: Callable[[str], None]) -> "Predictor | None":
    """The global model; None where there is none, or where it cannot be read, which ``tell`` reports."""
    path = next((path for suffix in SUFFIXES if (path := folder.global_model(suffix)).is_file()), None)
    try:
        return models.load_model(path, packages(config.student)).learner if path else None
    except (ConfigError, DataError) as error:
        tell(f"the student cannot be read, and has no score: {error}")
        return None


def describe_model(
    config: RunConfig,
    dataset: FederatedDataset,
    position: int,
    folder: "RunFolder",
    kept: Learner,
    how: Recalibration | None = None,
) -> None:
    """Make the file of ``kept``, the model that the silo at ``position`` ended with, say how it is to be used.

    ``how`` makes chances of its probabilities.

    Where silos end with the same weights, each gets a file with its own preprocessing. Never raises.
    """
    silo = dataset.silos[position].name
    if not (isinstance(kept, Saveable) and models.can_be_saved(kept)):
        return
    path, own = find_algorithm(config).model_path(folder, silo, kept.suffix), folder.silo_model(silo, kept.suffix)
    settings = config.learner_settings(position, len(dataset.silos))
    if not path.exists():
        logger.info("The model of silo %s is in this process alone, as no file can hold it", silo)
        return
    try:
        learned = dataset.public.X, dataset.silos[position].private.X
        description = models.description_of(config.study, dataset.schema, settings, *learned)
        description = description.model_copy(update={"chances": how or RANKS})
        for target in {own, path} if position == 0 else {own}:
            models.describe(path, kept, getattr(kept, "transformer", None), description, target)
    except Exception as error:  # whatever libraries raise; what they say may quote data
        logger.warning("The model of silo %s cannot be used by 'fedct predict': %s", silo, type(error).__name__)


def model_in(folder: "RunFolder", silo: SiloName = "") -> Path:
    """The file of a silo's model in a run folder, or of the global model.

    Raises ConfigError for an unknown silo, DataError where no model was kept, RunError for a folder that holds no run.
    """
    silos = folder.silos
    if silo and silo not in silos:
        raise ConfigError(f"no silo {silo!r} in the run {folder.path}: {suggest(silo, silos)}")
    for suffix in SUFFIXES:
        path = folder.silo_model(silo, suffix) if silo else folder.global_model(suffix)
        if path.is_file():
            return path
    raise DataError(
        f"the run {folder.path} has kept no model of silo {silo!r} that can be used: either no file can hold one "
        f"of its learner {folder.settings().get('learner')!r}, its algorithm leaves silos none, "
        "the silo did not end the run, or save-models was off"
        if silo
        else f"the run {folder.path} has no global model, as no student was set: name a silo with --silo, such as "
        f"{', '.join(silos[:_MOST_NAMED])}"
    )
