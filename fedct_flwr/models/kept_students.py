"""Bare models in files, which a simulation keeps to see how well they vote on its test set. A real silo keeps none."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedct_flwr.consensus.counting import tally
from fedct_flwr.learners.base import Learner, Saveable
from fedct_flwr.learners.preprocessing import transformed
from fedct_flwr.text.log import logger
from fedct_flwr.types import DataError, Features, TrainingError, VoteCounts


class Students(NamedTuple):
    """Trained students of one silo, and the ``transformer`` that all of them look through (None for none)."""

    learners: Sequence[Learner]
    transformer: Any
    num_classes: int

    def votes(self, X: Features) -> VoteCounts:
        """How many vote for each class, ``(examples, classes)``; rows sum to their number. Raises TrainingError."""
        X = transformed(self.transformer, X)
        return tally((learner.predict(X) for learner in self.learners), len(X), self.num_classes)


def keep_student(folder: Path, number: int, student: Learner) -> None:
    """Write a trained student, if its models can be written. Never raises for it: its votes are good all the same."""
    if not isinstance(student, Saveable):
        return
    path = _file(folder, number, student)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        student.save(path)
    except (TrainingError, OSError) as error:
        path.unlink(missing_ok=True)
        logger.warning("The student was not kept in %s: %s", path, error)


def kept_student(folder: Path, number: int, student: Learner) -> Learner:
    """An untrained student, trained as the one that was kept. Raises DataError if none was."""
    if not isinstance(student, Saveable):
        raise DataError("models of this learner cannot be kept")
    return student.load(_file(folder, number, student))


def _file(folder: Path, number: int, student: Saveable) -> Path:
    return folder / f"student-{number + 1}{student.suffix}"
