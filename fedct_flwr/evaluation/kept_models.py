"""The models that a run has kept, read from its folder, and what makes their files say how they are to be used.

During a run a silo writes its bare model. At the end each file gets what it takes to read new records without the run's
data: columns with their categories, the classes or the quantity, and the preprocessing of networks.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final
from warnings import warn

from fedct_flwr.algorithms.table import find_algorithm
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.global_model import description_of
from fedct_flwr.coordinator.study import Subject
from fedct_flwr.datasets import FederatedDataset
from fedct_flwr.learners.base import Layered, Learner, Saveable
from fedct_flwr.learners.build import build_learner
from fedct_flwr.learners.catalog import packages
from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.models.model_file import can_be_saved, describe, load_model
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring import Predictor
from fedct_flwr.text.log import logger
from fedct_flwr.text.suggest import suggest
from fedct_flwr.types import ConfigError, DataError, SiloName

SUFFIXES: Final = (".skops", ".safetensors")
_MOST_NAMED: Final = 3


def kept_model(
    config: RunConfig, dataset: FederatedDataset, position: int, folder: RunFolder, tell: Callable[[str], None] = warn
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
            # What silos' networks were made into may be wider than each of them.
            return learner.load_any_width(path) if isinstance(learner, Layered) else learner.load(path)
    except DataError as error:
        tell(f"the model of silo {silo.name!r} cannot be read, and is left out: {error}")
    return None


def student(config: RunConfig, folder: RunFolder, tell: Callable[[str], None]) -> Predictor | None:
    """The global model; None where there is none, or where it cannot be read, which ``tell`` reports."""
    path = next((path for suffix in SUFFIXES if (path := folder.global_model(suffix)).is_file()), None)
    try:
        return load_model(path, packages(config.student)).learner if path else None
    except (ConfigError, DataError) as error:
        tell(f"the student cannot be read, and has no score: {error}")
        return None


def describe_model(
    config: RunConfig, dataset: FederatedDataset, position: int, folder: RunFolder, kept: Learner
) -> None:
    """Make the file of ``kept``, the model that the silo at ``position`` ended with, say how it is to be used.

    Where silos end with the same weights, each gets a file with its own preprocessing. Never raises.
    """
    silo = dataset.silos[position].name
    if not (isinstance(kept, Saveable) and can_be_saved(kept)):
        return
    path, own = find_algorithm(config).model_path(folder, silo, kept.suffix), folder.silo_model(silo, kept.suffix)
    settings = config.learner_settings(position, len(dataset.silos))
    if not path.exists():
        logger.info("The model of silo %s is in this process alone, as no file can hold it", silo)
        return
    try:
        described = description_of(config.study, Subject.simulated(dataset), settings)
        description = described.model_copy(update={"any_width": isinstance(kept, Layered) and bool(kept.layers)})
        for target in {own, path} if position == 0 else {own}:
            describe(path, kept, getattr(kept, "transformer", None), description, target)
    except Exception as error:  # whatever libraries raise; what they say may quote data
        logger.warning("The model of silo %s cannot be used by 'fedct predict': %s", silo, type(error).__name__)


def model_in(folder: RunFolder, silo: SiloName = "") -> Path:
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
        f"the run {folder.path} has kept no model of silo {silo!r} that can be used: save-models keeps those of the "
        "silos that end the run, unless their algorithm leaves them none"
        if silo
        else f"the run {folder.path} has no global model, as no student was set: name a silo with --silo, such as "
        f"{', '.join(silos[:_MOST_NAMED])}"
    )
