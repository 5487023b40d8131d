"""What a study predicts: one of several classes, or a quantity, which is a number. All that differs stands here.

What silos answer, and how that travels, differs more: see ``kinds/``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.config import RunConfig
from fedct_flwr.scoring import BALANCED_ACCURACY, R_SQUARED, Measure
from fedct_flwr.text.printable import listed, printable
from fedct_flwr.types import MAX_CLASSES, Answers, ConfigError, DataError, Examples


class Outcome(Protocol):
    """The outcome of a study's records, which models learn to predict."""

    measure: ClassVar[Measure]
    """What models are compared by."""
    table: ClassVar[str]
    """The file of a run folder that holds what was decided on."""
    number: ClassVar[bool]
    """Whether it is a number, which regressors predict."""

    @property
    def words(self) -> str:
        """What there is to predict, in a table's cell."""

    @property
    def facts(self) -> Mapping[str, str]:
        """What a run folder says of it beside its classes."""

    def check(self, classes: Sequence[str]) -> None:
        """Raise DataError where a study that names these classes cannot have this outcome."""

    def check_classes(self, sentence: str) -> None:
        """Raise ConfigError with this sentence where there are no classes."""

    def check_settings(self, config: RunConfig, *names: str) -> None:
        """Raise ConfigError for those of these settings (none: of all) that need classes, where there are none."""

    def check_records(self, parts: Iterable[Examples], name: str) -> None:
        """Raise DataError for private records, of the data set ``name``, of which nothing can be learned."""

    def check_answers(self, answers: Answers) -> Answers:
        """What a model says ``(n,)``. Raises DataError for what a model of this study cannot say."""

    def counts(self, answers: Answers) -> dict[str, int]:
        """How many answers ``(n,)`` are each class; nothing where there are no classes."""

    def shown(self, answers: Answers) -> list[Any]:
        """Answers ``(n,)`` as a table of predictions has them."""

    def as_written(self, answers: Answers) -> NDArray[Any]:
        """Answers ``(n,)`` as whoever has labeled the records wrote them."""

    def read(self, cells: Iterable[str]) -> NDArray[Any]:
        """The same of the cells of ``table``, where empty ones hold no answer. Raises ValueError."""


@dataclass(frozen=True)
class Classes:
    """One of several classes, by their ``names``."""

    measure: ClassVar[Measure] = BALANCED_ACCURACY
    table: ClassVar[str] = "labels.csv"
    number: ClassVar[bool] = False

    names: tuple[str, ...]

    @property
    def words(self) -> str:
        """The names."""
        return ", ".join(self.names)

    @property
    def facts(self) -> Mapping[str, str]:
        """Nothing more."""
        return {}

    def check(self, classes: Sequence[str]) -> None:
        """Raise DataError for fewer than two classes, too many, or names that repeat."""
        if not 2 <= len(classes) <= MAX_CLASSES:
            # Too many are no classes but perhaps patients' names: none of them is quoted.
            only = f" ({classes[0]!r})" if len(classes) == 1 else ""
            raise DataError(
                f"a study needs between 2 and {MAX_CLASSES} classes, found {len(classes)}{only}: "
                "check that the label column is the right one"
            )
        if len(set(classes)) != len(classes):
            raise DataError(f"class names repeat: {listed(classes)}")

    def check_classes(self, sentence: str) -> None:
        """There are classes."""

    def check_settings(self, config: RunConfig, *names: str) -> None:
        """None needs anything else."""

    def check_records(self, parts: Iterable[Examples], name: str) -> None:
        """Raise DataError for records of one class."""
        seen = {int(c) for part in parts for c in np.unique(part.y)}
        if len(seen) < 2:
            raise DataError(
                f"all private records of {name!r} are of class {self.names[seen.pop()]!r}: at least two are needed"
            )

    def check_answers(self, answers: Answers) -> Answers:
        """Raise DataError for a number that no class has."""
        if not ((answers >= 0) & (answers < len(self.names))).all():
            raise DataError("the model predicts what is no class of its own study: the file is damaged or forged")
        return answers

    def counts(self, answers: Answers) -> dict[str, int]:
        """Of all classes, also of those that no answer is."""
        return dict(zip(self.names, np.bincount(answers, minlength=len(self.names)).tolist(), strict=True))

    def shown(self, answers: Answers) -> list[Any]:
        """Names of classes. Others have named them, and reading refuses what this would change."""
        names = [printable(name) for name in self.names]
        return [names[label] for label in answers]

    def as_written(self, answers: Answers) -> NDArray[Any]:
        """Names of classes, see ``as_labels``."""
        return as_labels([self.names[label] for label in answers])

    def read(self, cells: Iterable[str]) -> NDArray[Any]:
        """Names of classes, None for no label."""
        return as_labels(cell or None for cell in cells)


@dataclass(frozen=True)
class Quantity:
    """A number, which is called ``name``."""

    measure: ClassVar[Measure] = R_SQUARED
    table: ClassVar[str] = "values.csv"
    number: ClassVar[bool] = True

    name: str

    @property
    def words(self) -> str:
        """That there are no classes."""
        return f"none: {self.name} is a number"

    @property
    def facts(self) -> Mapping[str, str]:
        """The name."""
        return {"quantity": self.name}

    def check(self, classes: Sequence[str]) -> None:
        """Raise DataError for any class."""
        if classes:
            raise DataError(f"a study predicts classes or a quantity, found both {self.name!r} and classes")

    def check_classes(self, sentence: str) -> None:
        """Raise ConfigError with this sentence."""
        raise ConfigError(sentence)

    def check_settings(self, config: RunConfig, *names: str) -> None:
        """Raise ConfigError for those of these settings that need classes."""
        config.check_quantity(self.name, *names)

    def check_records(self, parts: Iterable[Examples], name: str) -> None:
        """Any numbers will do."""

    def check_answers(self, answers: Answers) -> Answers:
        """Any numbers will do."""
        return answers

    def counts(self, answers: Answers) -> dict[str, int]:
        """Nothing."""
        return {}

    def shown(self, answers: Answers) -> list[Any]:
        """The numbers."""
        return list(answers.tolist())

    def as_written(self, answers: Answers) -> NDArray[Any]:
        """The numbers."""
        return answers

    def read(self, cells: Iterable[str]) -> NDArray[Any]:
        """The numbers, NaN for none."""
        return np.array([float(cell) if cell else np.nan for cell in cells])


def outcome_of(classes: tuple[str, ...], quantity: str) -> Outcome:
    """What a study with these classes predicts, or with this ``quantity`` (empty: classes)."""
    return Quantity(quantity) if quantity else Classes(classes)


def as_labels(names: Iterable[str | None]) -> NDArray[Any]:
    """Classes by name as whoever has labeled the records wrote them: whole numbers, truth values, or text.

    None stands for no label.

    >>> as_labels(["0", "1"]), as_labels(["true", "false"]), as_labels(["ill", None])
    (array([0, 1]), array([ True, False]), array(['ill', None], dtype=object))
    """
    found = list(names)
    values = _values(sorted({name for name in found if name is not None}))
    labels = [None if name is None else values[name] for name in found]
    return np.array(labels, dtype=object) if None in labels else np.array(labels)


def _values(classes: Sequence[str]) -> dict[str, Any]:
    if set(classes) <= {"true", "false"}:
        return {name: name == "true" for name in classes}
    try:
        return {name: int(name) for name in classes}
    except ValueError:
        return {name: name for name in classes}
