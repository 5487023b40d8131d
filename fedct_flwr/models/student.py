"""One global model, distilled from the public set and its final labels, and from nothing else.

So what was promised of the labels holds of it (Li, He, Song, IJCAI 2021, Algorithm 1, last line; Papernot et al.,
arXiv:1610.05755, §3.1).
"""

from typing import Any, NamedTuple

import numpy as np

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners.base import Learner
from fedct_flwr.learners.build import untrained
from fedct_flwr.learners.catalog import UNSAVED
from fedct_flwr.learners.text import transformer_for
from fedct_flwr.models.model_file import can_be_saved
from fedct_flwr.seeding import random_state
from fedct_flwr.types import ABSTAIN, ConfigError, HardLabels, RunError


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
