"""The columns and the classes of a study, and what it predicts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.config import RunConfig
from fedct_flwr.scoring import BALANCED_ACCURACY, R_SQUARED, Measure
from fedct_flwr.text.printable import fault, formula_fault, listed, printable, quoted
from fedct_flwr.types import MAX_CLASSES, Answers, ConfigError, DataError, Examples


@dataclass(frozen=True)
class Classes:
    """One of several classes, by their ``names``. Models are compared by ``measure``; ``table`` is a run's file."""

    measure: ClassVar[Measure] = BALANCED_ACCURACY
    table: ClassVar[str] = "labels.csv"
    number: ClassVar[bool] = False

    names: tuple[str, ...]

    @property
    def words(self) -> str:
        """What there is to predict, in a table's cell."""
        return ", ".join(self.names)

    @property
    def facts(self) -> Mapping[str, str]:
        """What a run folder says of it besides its classes."""
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
        """Raise ConfigError with this sentence where there are no classes."""

    def check_settings(self, config: RunConfig, *names: str) -> None:
        """Raise ConfigError for those of these settings (none: of all) that need classes, where there are none."""

    def check_records(self, parts: Iterable[Examples], name: str) -> None:
        """Raise DataError for private records, of the data set ``name``, that are all of one class."""
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


Outcome: TypeAlias = Classes | Quantity
"""The outcome of a study's records, which models learn to predict."""


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


@dataclass(frozen=True)
class Column:
    """One feature of a table.

    ``categories`` is None for a numeric column. Otherwise the column holds the position of its value in
    ``categories``, or ``len(categories)`` for a value that the public set does not have.
    Missing values are NaN in both kinds. A column of ``text`` holds strings, empty where one is missing.
    """

    name: str
    categories: tuple[str, ...] | None = None
    text: bool = False

    @property
    def spelled(self) -> bool:
        """Whether files hold text in this column, whatever it looks like."""
        return self.text or self.categories is not None


class ImageForm(NamedTuple):
    """How folders of images are read: scaled to ``size`` (height, width), with 1 channel (gray) or 3 (color)."""

    size: tuple[int, int]
    mode: Literal["gray", "color"]


@dataclass(frozen=True)
class Schema:
    """The label space and the columns that all silos of a study share.

    ``classes[c]`` is the name of class ``c``. ``columns`` is empty where features are no table; of folders of images
    ``images`` is the form. Where a number
    is predicted, there are no classes, and ``quantity`` is the number's name.

    Raises DataError for fewer than two classes, too many, or names that repeat.
    """

    classes: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    quantity: str = ""
    images: ImageForm | None = None

    def __post_init__(self) -> None:
        """Check the label space."""
        self.outcome.check(self.classes)

    @property
    def outcome(self) -> Outcome:
        """What is predicted."""
        return outcome_of(self.classes, self.quantity)

    @classmethod
    def numeric(cls, classes: tuple[str, ...], names: tuple[str, ...]) -> Self:
        """A table of numeric columns only."""
        return cls(classes, tuple(Column(name) for name in names))

    def positive(self, name: str = "") -> int | None:
        """Of two classes, the number of the one called ``name``, or of the last one; None unless there are two.

        Raises ConfigError for a name that is none of two classes.
        """
        if name and (len(self.classes) != 2 or name not in self.classes):
            there = f"it has {listed(self.classes)}" if self.classes else f"{self.quantity!r} is a number"
            raise ConfigError(
                f"positive-class = {name!r} needs a study of two classes, one of which is called so, and {there}: "
                "correct it, or leave it out"
            )
        if len(self.classes) != 2:
            return None
        return self.classes.index(name) if name else 1

    @property
    def categorical(self) -> tuple[int, ...]:
        """Positions of the categorical columns."""
        return tuple(i for i, column in enumerate(self.columns) if column.categories is not None)

    @property
    def texts(self) -> tuple[int, ...]:
        """Positions of the columns of text."""
        return tuple(i for i, column in enumerate(self.columns) if column.text)

    @property
    def without_texts(self) -> tuple[int, ...]:
        """Positions of all other columns."""
        return tuple(i for i, column in enumerate(self.columns) if not column.text)


def check_names(columns: Iterable[Column], where: object, classes: Sequence[str] = ()) -> None:
    """Raise DataError for a name of a column, category or class that hides something or is too long.

    ``where`` they stand. The author of a study chooses them, and people decide by what they read.
    """
    for name in classes:
        _check_name(name, f"the class {quoted(name)} of {where}", formula_fault(name))
    for column in columns:
        _check_name(column.name, f"the column {quoted(column.name)} of {where}")
        for category in column.categories or ():
            _check_name(category, f"the value {quoted(category)} of the column {quoted(column.name)} of {where}")


def _check_name(name: str, what: str, other: str | None = None) -> None:
    if why := fault(name) or other:
        raise DataError(f"{what} cannot be taken, as {why}: rename it, or ask its author to")
