"""The columns and the classes of a study, and what it predicts."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.scoring import BALANCED_ACCURACY, CONCORDANCE, R_SQUARED, Measure
from fedct_flwr.text.printable import fault, formula_fault, listed, printable, quoted, suggest
from fedct_flwr.types import MAX_CLASSES, Answers, ConfigError, DataError, Examples, Features
from fedct_flwr.wire.content import Grid, Terms

if TYPE_CHECKING:
    from fedct_flwr.config.run import RunConfig


class FollowUp(NamedTuple):
    """Time to an event: the columns of a silo's table, and the ``horizons`` at which chances are scored.

    Records have signed times (``survival.Times``), and classes are the grades of risk that silos give public examples.
    """

    time: str
    event: str
    horizons: tuple[float, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """Outcome that a study predicts: one of several ``classes``, a number called ``quantity``, or time to an event.

    ``given`` are the labels of the classes as tables in memory hold them; empty for labels of files.
    """

    classes: tuple[str, ...] = ()
    quantity: str = ""
    follow_up: FollowUp | None = None
    given: tuple[Any, ...] = ()

    @property
    def number(self) -> bool:
        """Whether a record's outcome is a number: a quantity, or a signed time."""
        return bool(self.quantity or self.follow_up)

    @property
    def measure(self) -> Measure:
        """Name of the score by which models are compared."""
        return CONCORDANCE if self.follow_up else R_SQUARED if self.number else BALANCED_ACCURACY

    @property
    def table(self) -> str:
        """A run's file of decisions."""
        return "values.csv" if self.quantity else "labels.csv"

    @property
    def words(self) -> str:
        """The outcome as a table's cell."""
        if self.follow_up:
            return f"grades of risk, {self.classes[0]} to {self.classes[-1]}"
        return f"none: {self.quantity} is a number" if self.number else ", ".join(self.classes)

    @property
    def named(self) -> str:
        """The number's name, or that of the time to an event."""
        return self.follow_up.time if self.follow_up else self.quantity

    def check(self) -> None:
        """Raise DataError for fewer than two classes, too many, names that repeat, or classes of a number."""
        classes = self.classes
        if self.quantity:
            if classes:
                raise DataError(f"a study predicts classes or a quantity, found both {self.quantity!r} and classes")
            return
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
        if self.number:
            raise ConfigError(sentence)

    def check_settings(self, config: "RunConfig", *names: str) -> None:
        """Raise ConfigError for those of these settings (none: of all) that need classes, where there are none."""
        if not names:
            config.check_grades(wanted=bool(self.follow_up))
        if self.number:
            config.check_quantity(self.named, *names)

    def check_records(self, parts: Iterable[Examples], name: str) -> None:
        """Raise DataError for private records, of the data set ``name``, that are all of one class."""
        seen = set() if self.number else {int(c) for part in parts for c in np.unique(part.y)}
        if len(seen) == 1:
            raise DataError(
                f"all private records of {name!r} are of class {self.classes[seen.pop()]!r}: at least two are needed"
            )

    def check_answers(self, answers: Answers) -> Answers:
        """Raise DataError for an answer that is not a class; every quantity is valid."""
        if not (self.number or ((answers >= 0) & (answers < len(self.classes))).all()):
            raise DataError("the model predicts what is no class of its own study: the file is damaged or forged")
        return answers

    def counts(self, answers: Answers) -> dict[str, int]:
        """Counts of all classes, also of absent ones; empty for a quantity."""
        if self.number:
            return {}
        return dict(zip(self.classes, np.bincount(answers, minlength=len(self.classes)).tolist(), strict=True))

    def shown(self, answers: Answers) -> list[Any]:
        """Numbers, or names of classes. Others have named them, and reading refuses what this would change."""
        names = [printable(name) for name in self.classes]
        return list(answers.tolist()) if self.number else [names[label] for label in answers]

    def as_written(self, answers: Answers) -> NDArray[Any]:
        """Numbers, or names of classes, see ``as_labels``."""
        return answers if self.number else self._labels(self.classes[label] for label in answers)

    def read(self, cells: Iterable[str]) -> NDArray[Any]:
        """Numbers, NaN for none; or names of classes, None for no label."""
        if self.quantity:
            return np.array([float(cell) if cell else np.nan for cell in cells])
        return self._labels(cell or None for cell in cells)

    def _labels(self, names: Iterable[str | None]) -> NDArray[Any]:
        return as_labels(names, self.classes, self.given)


_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]*")


def as_labels(names: Iterable[str | None], classes: Sequence[str] = (), given: Sequence[Any] = ()) -> NDArray[Any]:
    """Classes by name as the records' labels are written: whole numbers, truth values, or text.

    ``classes`` are all that a label can be, unless each is among the ``names``; ``given`` are their labels, where they
    are known. None stands for no label.

    >>> as_labels(["0", "1"]), as_labels(["true", "false"]), as_labels(["ill", None])
    (array([0, 1]), array([ True, False]), array(['ill', None], dtype=object))
    """
    found = list(names)
    known = dict(zip(classes, given, strict=True)) if given else {}
    values = known or _values(classes or sorted({name for name in found if name is not None}))
    labels = [None if name is None else values[name] for name in found]
    return np.array(labels, dtype=object if None in labels else np.array([*values.values()]).dtype)


def _values(classes: Sequence[str]) -> dict[str, Any]:
    if set(classes) <= {"true", "false"}:
        return {name: name == "true" for name in classes}
    # Codes such as 01 are text.
    whole = all(_WHOLE.fullmatch(name) for name in classes)
    return {name: int(name) if whole else name for name in classes}


class Held(NamedTuple):
    """The form of a column in the table that it was read from, for a user's own code.

    ``dtype`` is ``int64`` or ``bool`` where no cell is missing, ``days`` of dates, ``category``, or empty. A category
    has all of its ``values`` in their order, the ``names`` that they have as text, and perhaps ``ordered`` ones.
    """

    dtype: Literal["", "int64", "bool", "days", "category"] = ""
    names: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()
    ordered: bool = False


@dataclass(frozen=True)
class Column:
    """One feature of a table.

    ``categories`` is None for a numeric column. Otherwise the column holds the position of its value in
    ``categories``, or ``len(categories)`` for a value that the public set does not have.
    Missing values are NaN in both kinds. A column of ``text`` holds strings, empty where one is missing.
    ``held`` is part of no file and no digest.
    """

    name: str
    categories: tuple[str, ...] | None = None
    text: bool = False
    held: Held = field(default=Held(), compare=False, repr=False)

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

    ``classes[c]`` is the name of class ``c``. ``columns`` is empty if features are not a table; ``images`` is the form
    of images in folders. For regression there are no classes, and ``quantity`` is the name of the number to predict.

    Raises DataError for a single class, more than fit on the wire, or names that repeat.
    """

    classes: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    quantity: str = ""
    images: ImageForm | None = None
    grid: Grid | None = None
    """The values that the number may have, where the study says."""
    follow_up: FollowUp | None = None
    """Of a study of time to an event, whose ``classes`` are grades of risk."""
    given: tuple[Any, ...] = ()
    """The classes' labels as tables in memory hold them; empty for labels of files."""

    def __post_init__(self) -> None:
        self.outcome.check()

    @property
    def outcome(self) -> Outcome:
        """The predicted outcome."""
        return Outcome(self.classes, self.quantity, self.follow_up, self.given)

    @classmethod
    def numeric(cls, classes: tuple[str, ...], names: tuple[str, ...]) -> Self:
        """A table of numeric columns only."""
        return cls(classes, tuple(Column(name) for name in names))

    def terms(self, study: str, num_public: int, fingerprint: bytes) -> Terms:
        """The terms of a study with these classes, or this quantity, and a public set of this size and fingerprint."""
        return Terms(study, fingerprint, num_public, self.classes, self.quantity, self.grid)

    def positive(self, name: str = "") -> int | None:
        """Number of the positive class: the one called ``name``, or the last; None unless there are two classes.

        Raises ConfigError for a name that is not one of two classes.
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

    def values(self, name: str, X: Features) -> list[str]:
        """The values of a column of examples ``(n, columns)``, as text. Raises DataError for another name."""
        names = [column.name for column in self.columns]
        if name not in names:
            raise DataError(f"no feature is called {quoted(name)}: {suggest(name, names)}")
        place = names.index(name)
        categories = self.columns[place].categories
        known = dict(enumerate((*categories, "unknown"))) if categories else {}
        return ["missing" if cell != cell else known.get(cell, str(cell)) for cell in X[:, place].tolist()]

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


_LEVELS: Final = np.arange(0.01, 1, 0.02)
"""Levels of quantiles, without the smallest and the largest value, which are single records'."""
_MOST_COLUMNS: Final = 10_000
"""Columns with quantiles: a model file's description has an end."""


def quantiles(schema: Schema, *learned: Features) -> dict[str, tuple[float, ...]]:
    """Of each numeric column of tables ``(n, columns)``, without those that hold nothing."""
    found = {}
    for at, column in enumerate(schema.columns[:_MOST_COLUMNS] if learned else ()):
        if not column.spelled:
            values = np.concatenate([X[:, at] for X in learned]).astype(np.float64)
            known = values[~np.isnan(values)]
            if len(known):
                found[column.name] = tuple(float(f"{value:.6g}") for value in np.quantile(known, _LEVELS))
    return found
