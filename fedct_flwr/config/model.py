"""What a model file says of its model."""

import math
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from fedct_flwr.config.settings import Name, Settings
from fedct_flwr.config.tables import Side
from fedct_flwr.scoring.recalibration import RANKS, Recalibration

_MOST_FEATURES: Final = 3 * 4096 * 4096
"""Of one example: a color image of the largest size that a study takes."""
_LONGEST_NAME: Final = 200
"""Of a learner, which errors quote."""


class ModelDescription(Settings):
    """A model's study, columns and classes, and how its learner is made."""

    format: Literal[1] = 1
    study: Name
    classes: tuple[str, ...]
    """Names of the classes, as the model numbers them; empty where it predicts a quantity."""
    quantity: str = ""
    """Name of the number that the model predicts instead of a class."""
    columns: tuple[tuple[str, tuple[str, ...] | None], ...] = ()
    """Name and categories of each column, None for a numeric one; empty where features are no table."""
    text: tuple[str, ...] = ()
    """Names of the columns that hold text, which have no categories either."""
    learner: Annotated[str, Field(max_length=_LONGEST_NAME, pattern=r"^[\w.-]*$")]
    """Short name or import path."""
    params: dict[str, Any] = Field(default_factory=dict)
    shape: tuple[Annotated[int, Field(ge=1)], ...] = Field(min_length=1)
    """Of one example's features, before preprocessing."""
    time: str = ""
    """Name of the time to an event whose risk it ranks, where it does."""
    quantiles: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    """Of each numeric column, what it held where the model learned: new records are compared with it."""
    image_size: tuple[Side, Side] | None = None
    """For a folder of images: height and width that all images are scaled to."""
    image_mode: Literal["gray", "color"] = "color"
    chances: Recalibration | Literal["ranks, not chances"] = RANKS
    """How the model's probabilities become chances, if they can."""

    @property
    def recalibration(self) -> Recalibration | None:
        """How the model's probabilities become chances; None where they are ranks."""
        return self.chances if isinstance(self.chances, Recalibration) else None

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        # Memory is taken for it before anything else is known of the model.
        if math.prod(self.shape) > _MOST_FEATURES:
            raise ValueError(f"'shape' has more than {_MOST_FEATURES} features")
        if self.recalibration and len(self.recalibration.intercepts) != len(self.classes):
            raise ValueError("'chances' has another number of intercepts than there are classes")
        return self
