"""A study's data dictionary: the permitted values of each column."""

from datetime import date
from typing import Annotated, Final, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from fedct_flwr.config.settings import ClassName, Settings

EPOCH: Final = date(1970, 1, 1)
_LARGEST: Final = 2.0**53
"""From here on a float stands for several whole numbers."""


def _bound(value: object) -> object:
    """A date as days since 1970."""
    if isinstance(value, str) and "-" in value[1:]:
        value = date.fromisoformat(value)
    return (value - EPOCH).days if isinstance(value, date) else value


def _texts(values: object) -> object:
    return [str(value) for value in values] if isinstance(values, list | tuple) else values


Bound: TypeAlias = Annotated[float, BeforeValidator(_bound), Field(ge=-_LARGEST, le=_LARGEST)]


class ColumnForm(Settings):
    """Permitted values of one column, ``[columns.NAME]``."""

    kind: Literal["number", "integer", "date", "category"]
    """A date counts as whole days since 1970."""
    unit: str = ""
    """Of a number, for people."""
    range: tuple[Bound, Bound] | None = None
    """Least and largest plausible value; dates as 1950-12-31."""
    categories: Annotated[tuple[ClassName, ...], BeforeValidator(_texts)] = ()
    """All values of a category, as files write them."""
    missing: float = Field(default=0.0, ge=0, le=1)
    """Share of records without a value."""
    at_most: str = ""
    """Another column that this one never exceeds: of the diastolic pressure the systolic one."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.kind == "category":
            if self.range or self.at_most:
                raise ValueError("a category has neither a range nor at-most: leave them out")
            if not self.categories:
                raise ValueError("a category needs categories, all values that it may have: name them")
            if len(set(self.categories)) != len(self.categories):
                raise ValueError("its categories repeat: name each once")
            return self
        if self.categories:
            raise ValueError("only a category has categories: set kind to 'category', or leave them out")
        if not (self.range and self.range[0] < self.range[1]):
            raise ValueError(f"kind {self.kind!r} needs a range, the smaller value first, such as [0, 100]")
        if self.kind != "number" and any(bound % 1 for bound in self.range):
            raise ValueError(f"the range of kind {self.kind!r} needs whole numbers, or dates")
        return self

    @property
    def codes(self) -> NDArray[np.float64] | None:
        """The categories as sorted numbers, where files hold them as numbers; None otherwise."""
        try:
            return np.array(sorted(map(float, self.categories))) if self.categories else None
        except ValueError:
            return None
