"""At the end of a run in which silos share labels: the student, its card, and its score next to the silos' vote.

It is distilled from the public set and its final labels, and from nothing else: what was promised of the labels holds
of it (Li, He, Song, IJCAI 2021, Algorithm 1, last line; Papernot et al., arXiv:1610.05755, §3.1).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from fedct_flwr.config import LearnerSettings, ModelDescription, RunConfig
from fedct_flwr.consensus.counting import plurality, tally, unanimous
from fedct_flwr.coordinator.questions import no_targets
from fedct_flwr.coordinator.study import Study, Subject
from fedct_flwr.datasets.federated import FederatedDataset, PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.files import write_atomically, write_json
from fedct_flwr.kinds.base import Kind
from fedct_flwr.labelers.students import transfer_for
from fedct_flwr.labelers.transfer import Students
from fedct_flwr.learners.base import Learner, Saveable
from fedct_flwr.learners.build import build_learner, untrained
from fedct_flwr.learners.catalog import UNSAVED
from fedct_flwr.learners.text import transformer_for
from fedct_flwr.models.card import STUDENT, as_markdown, card
from fedct_flwr.models.model_file import can_be_saved, save_model, suffix
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring import Predictor, both_accuracies
from fedct_flwr.seeding import generator, random_state
from fedct_flwr.text.printable import logger
from fedct_flwr.types import ABSTAIN, ConfigError, DataError, Features, HardLabels, RunError, SiloName

ModelPath: TypeAlias = Callable[[RunFolder, SiloName, str], Path]
FACT: Final = "global_model"
"""Where ``result.json`` tells of it."""


def add_global_model(
    study: Study,
    targets: HardLabels,
    title: str,
    kind: Kind,
    model_path: ModelPath,
    privacy: Mapping[str, Any],
) -> dict[str, Any]:
    """Train the student that the run config names on ``targets`` ``(num_public,)``, and keep it with its card.

    ``kind`` and ``model_path`` are the algorithm's; ``privacy`` is what the card says is promised. Returns what
    ``result.json`` tells: nothing where no student is wanted. Scores are of the pooled test set, where there is one;
    the vote is that of what a simulation keeps of the silos. Raises RunError if no example is labeled or the files
    cannot be written, TrainingError.
    """
    config, subject, folder = study.config, study.subject, study.folder
    if not config.student:
        return {}
    student = make_student(config, subject.schema, subject.public)
    labels = train_student(student, subject.public, targets)
    path = folder.global_model(suffix(student.learner))
    scores: dict[str, dict[str, float | None]] = {}
    most: float | None = None
    if subject.test.size:
        scores[STUDENT] = _scores(student.learner, subject)
        most = float(np.bincount(subject.test.y).max() / subject.test.size)
    if subject.test.size and (vote := silos_vote(study, kind, model_path)):
        scores["ensemble"] = _scores(vote, subject)
    try:
        path.parent.mkdir(exist_ok=True)
        description = description_of(config.study, subject, config.student_settings())
        content = save_model(path, student.learner, student.transformer, description)
        facts = card(
            config,
            title,
            public_fingerprint=study.terms.public_fingerprint.hex(),
            num_public=len(subject.public),
            labels=labels,
            rounds=folder.rounds(),
            privacy=privacy,
            file=path.name,
            content=content,
            scores=scores,
            most=most,
        )
        write_json(path.with_suffix(".json"), facts)
        write_atomically(path.with_suffix(".md"), as_markdown(facts).encode())
    except OSError as error:
        raise RunError(
            f"cannot write the global model to {path}: {error.strerror}; fix that, then resume the run"
        ) from error
    logger.info(
        "Global model: %s, trained on %s public labels%s", path, labels,
        "".join(f"; accuracy of the {name}: {s['accuracy']:.3f}" for name, s in scores.items())
        + ("" if most is None else f" (of the most frequent class alone: {most:.3f})"),
    )  # fmt: skip
    told = {"file": str(path.relative_to(folder.path)), "labels": labels, "scores": scores}
    return {FACT: told if most is None else {**told, "most_frequent_class": most}}


def description_of(study: str, subject: Subject, settings: LearnerSettings) -> ModelDescription:
    """What stands in the file of a model that ``settings`` describe, in a study of this name."""
    return ModelDescription.read(
        {
            "study": study,
            "classes": subject.schema.classes,
            "quantity": subject.schema.quantity,
            "columns": [(column.name, column.categories) for column in subject.schema.columns],
            "text": [column.name for column in subject.schema.columns if column.text],
            # An object in memory has an import path, and after it what tells it from others.
            "learner": settings.name.partition("@")[0],
            "params": settings.params,
            "shape": subject.public.X.shape[1:],
            **({"image-size": form.size, "image-mode": form.mode} if (form := subject.schema.images) else {}),
        },
        "the model's description",
    )


def _scores(model: Predictor, subject: Subject) -> dict[str, float | None]:
    accuracy, balanced = both_accuracies(model, subject.test)
    # Of one class alone there is none.
    return {"accuracy": accuracy, "balanced_accuracy": None if math.isnan(balanced) else balanced}


# --- the vote, which needs no training


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
    config, public, votes = study.config, dataset.public, study.config.method.votes
    transfer = config.method.transfer_settings(dataset.fewest_units)
    privacy = config.privacy_settings(config.asked_about(len(public)))
    students = []
    for position in positions:
        silo, learner = dataset.silos[position], config.learner_settings(position, len(dataset.silos))
        keep = study.folder.silo_students(silo.name)
        given = transfer, privacy, learner, silo.name, dataset.schema, public, silo.private.X, votes
        taught = transfer_for(*given, num_units=silo.units, keep=keep)
        students.append(taught.kept())
    return students


class Student(NamedTuple):
    """A learner and the transformer it looks at features through (None for none)."""

    learner: Learner
    transformer: Any


def check_student(config: RunConfig, schema: Schema, public: PublicSet) -> None:
    """Raise what ``make_student`` does, before anything runs, if the run config names a student."""
    if config.student:
        make_student(config, schema, public)


def make_student(config: RunConfig, schema: Schema, public: PublicSet) -> Student:
    """The untrained student of the run config. Raises ConfigError if it cannot be made or saved, DataError."""
    settings = config.student_settings()
    transformer = transformer_for(settings, schema, public.X)
    learner = untrained(
        settings,
        random_state(config.seed, "student"),
        schema.classes,
        public.X[:2],
        transformer,
        total_steps=config.local_steps * config.rounds,
    )
    if config.student in UNSAVED or not can_be_saved(learner):
        raise ConfigError(f"models of student = {config.student!r} cannot be saved: use another learner")
    return Student(learner, transformer)


def train_student(student: Student, public: PublicSet, targets: HardLabels) -> int:
    """Train on what ``targets`` ``(num_public,)`` label; returns how many. Raises RunError, TrainingError."""
    labeled = np.flatnonzero(targets != ABSTAIN)
    if not len(labeled):
        raise RunError(
            f"none of the {len(public)} public examples has a label, so there is nothing that a student could learn "
            "from: lower the quorum, ask more silos, or leave student out"
        )
    student.learner.fit(public.X[labeled], targets[labeled])
    return len(labeled)
