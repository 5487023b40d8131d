"""The global "model" that needs no training: the vote of the silos' models, or of their students, in a simulation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fedct_flwr.consensus.counting import plurality, tally, unanimous
from fedct_flwr.coordinator.asking import no_targets
from fedct_flwr.coordinator.study import Study
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.kinds.base import Kind
from fedct_flwr.labelers.transfer import Students
from fedct_flwr.learners.base import Saveable
from fedct_flwr.learners.build import build_learner
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring import Predictor
from fedct_flwr.seeding import generator
from fedct_flwr.types import DataError, Features, HardLabels, SiloName

ModelPath: TypeAlias = Callable[[RunFolder, SiloName, str], Path]


@dataclass(frozen=True)
class Ensemble:
    """The vote of several models: the class that most of them see, ties by lot."""

    models: Sequence[Predictor]
    num_classes: int
    seed: int

    def predict(self, X: Features) -> HardLabels:
        """The class of each example."""
        counts = tally((model.predict(X) for model in self.models), len(X), self.num_classes)
        return plurality(counts, no_targets(len(X)), generator(self.seed, "ensemble"))


@dataclass(frozen=True)
class StudentEnsemble:
    """FedKT's vote, of the students of several silos: the class that most silos see whose students all agree.

    Ties by lot. Elsewhere the class that most students see. Without the coordinator's noise (FedKT-L1).
    """

    silos: Sequence[Students]
    num_classes: int
    seed: int

    def predict(self, X: Features) -> HardLabels:
        """The class of each example."""
        votes = [(students.votes(X), len(students.learners)) for students in self.silos]
        consistent = tally((unanimous(*vote) for vote in votes), len(X), self.num_classes)
        everybody = np.sum([counts for counts, _ in votes], axis=0)
        inconsistent = ~consistent.any(axis=1)
        consistent[inconsistent] = everybody[inconsistent]
        return plurality(consistent, no_targets(len(X)), generator(self.seed, "ensemble"))


def silos_vote(study: Study, kind: Kind, model_path: ModelPath) -> Predictor | None:
    """The vote of the silos of the last round, where a simulation has kept all of their models, or all students.

    ``kind`` and ``model_path`` are the algorithm's. None where something was not kept. Raises ConfigError.
    """
    config, dataset = study.config, study.dataset
    if dataset is None:
        return None
    last = study.folder.rounds()[-1]["silos"]
    positions = [position for position, silo in enumerate(dataset.silos) if silo.name in last]
    num_classes = len(dataset.schema.classes)
    try:
        if kind.own_model:
            return Ensemble(_models(study, dataset, positions, model_path), num_classes, config.seed)
        return StudentEnsemble(_students(study, dataset, positions), num_classes, config.seed)
    except DataError:
        return None


def _models(
    study: Study, dataset: FederatedDataset, positions: Sequence[int], model_path: ModelPath
) -> list[Predictor]:
    models: list[Predictor] = []
    for position in positions:
        silo = dataset.silos[position]
        learner = build_learner(study.config, dataset, position, silo.private.X)
        if not isinstance(learner, Saveable):
            raise DataError("models of this learner cannot be kept")
        models.append(learner.load(model_path(study.folder, silo.name, learner.suffix)))
    return models


def _students(study: Study, dataset: FederatedDataset, positions: Sequence[int]) -> list[Students]:
    # joblib takes its time to import.
    from fedct_flwr.labelers.students import transfer_for

    config, public, votes = study.config, dataset.public, study.config.method.votes
    transfer = config.method.transfer_settings(dataset.fewest_records)
    privacy = config.privacy_settings(config.asked_about(len(public)))
    students = []
    for position in positions:
        silo, learner = dataset.silos[position], config.learner_settings(position, len(dataset.silos))
        keep = study.folder.silo_students(silo.name)
        taught = transfer_for(
            transfer, privacy, learner, silo.name, dataset.schema, public, silo.private.X, votes, keep=keep
        )
        students.append(taught.kept())
    return students
