"""At the end of a run in which silos share labels: the student, its card and its score.

It is distilled from the public set and its final labels, and from nothing else: what was promised of the labels holds
of it (Li, He, Song, IJCAI 2021, Algorithm 1, last line; Papernot et al., arXiv:1610.05755, §3.1).
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from fedct_flwr import models
from fedct_flwr.files import write_json
from fedct_flwr.learners import Learner, Saveable
from fedct_flwr.learners.build import untrained
from fedct_flwr.learners.catalog import UNSAVED
from fedct_flwr.learners.text import transformer_for
from fedct_flwr.runs.records import GLOBAL_MODEL
from fedct_flwr.scoring import Predictor, both_accuracies
from fedct_flwr.seeding import random_state
from fedct_flwr.text.printable import logger
from fedct_flwr.types import ABSTAIN, ConfigError, HardLabels, RunError

if TYPE_CHECKING:
    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.coordinator.study import Study, Subject
    from fedct_flwr.datasets.federated import PublicSet
    from fedct_flwr.datasets.schema import Schema


def add_global_model(
    study: "Study",
    targets: HardLabels,
    title: str,
    privacy: Mapping[str, Any],
) -> dict[str, Any]:
    """Train the student that the run config names on ``targets`` ``(num_public,)``, and keep it with its card.

    ``privacy`` is what the card says is promised. Returns what ``result.json`` tells.
    Scores are of the pooled test set, where there is one. Raises RunError if no example is labeled or the files
    cannot be written, TrainingError.
    """
    config, subject, folder = study.config, study.subject, study.folder
    student = make_student(config, subject.schema, subject.public)
    labels = train_student(student, subject.public, targets)
    path = folder.global_model(cast(Saveable, student.learner).suffix)
    scores: dict[str, dict[str, float | None]] = {}
    most: float | None = None
    if subject.test.size:
        scores["student"] = _scores(student.learner, subject)
        most = float(np.bincount(subject.test.y).max() / subject.test.size)
    try:
        path.parent.mkdir(exist_ok=True)
        description = models.description_of(config.study, subject.schema, config.student_settings(), subject.public.X)
        content = models.save_model(path, student.learner, student.transformer, description)
        facts = models.card_of(
            config,
            title,
            public_fingerprint=study.terms.public_fingerprint.hex(),
            num_public=len(subject.public),
            labels=labels,
            rounds=len(folder.rounds()),
            privacy=privacy,
            file=path.name,
            content=content,
        )
        write_json(path.with_suffix(".json"), facts)
    except OSError as error:
        raise RunError(
            f"cannot write the global model to {path}: {error.strerror}; fix that, then resume the run"
        ) from error
    logger.info(
        "Global model: %s, trained on %s public labels%s", path, labels,
        "".join(f"; accuracy of the {name}: {s['accuracy']:.3f}" for name, s in scores.items())
        + ("" if most is None else f" (of the most frequent class alone: {most:.3f})"),
    )  # fmt: skip
    result = {"file": str(path.relative_to(folder.path)), "labels": labels, "scores": scores}
    return {GLOBAL_MODEL: result if most is None else {**result, "most_frequent_class": most}}


def _scores(model: Predictor, subject: "Subject") -> dict[str, float | None]:
    accuracy, balanced = both_accuracies(model, subject.test)
    # Of one class alone there is none.
    return {"accuracy": accuracy, "balanced_accuracy": None if math.isnan(balanced) else balanced}


class Student(NamedTuple):
    """A learner and the transformer it looks at features through (None for none)."""

    learner: Learner
    transformer: Any


def make_student(config: "RunConfig", schema: "Schema", public: "PublicSet") -> Student:
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
    if config.student in UNSAVED or not models.can_be_saved(learner):
        raise ConfigError(f"models of student = {config.student!r} cannot be saved: use another learner")
    return Student(learner, transformer)


def train_student(student: Student, public: "PublicSet", targets: HardLabels) -> int:
    """Train on what ``targets`` ``(num_public,)`` label; returns how many. Raises RunError, TrainingError."""
    labeled = np.flatnonzero(targets != ABSTAIN)
    if not len(labeled):
        raise RunError(
            f"none of the {len(public)} public examples has a label, so there is nothing that a student could learn "
            "from: lower the quorum, ask more silos, or leave student out"
        )
    student.learner.fit(public.X[labeled], targets[labeled])
    return len(labeled)
