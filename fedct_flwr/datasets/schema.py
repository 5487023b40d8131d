"""What the columns and the classes of a study mean, so that every silo's numbers mean the same."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

from fedct_flwr.datasets.outcome import Outcome, outcome_of
from fedct_flwr.text.printable import fault, formula_fault, listed, quoted
from fedct_flwr.types import ConfigError, DataError


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
