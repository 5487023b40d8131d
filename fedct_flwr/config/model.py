"""What stands in a model file beside the model: all that is needed to use it without the run."""

from typing import Annotated, Any, Literal

from pydantic import Field

from fedct_flwr.config.settings import NAME_PATTERN, Settings


class ModelDescription(Settings):
    """A model's study, columns and classes, and how its learner is made."""

    format: Literal[1] = 1
    study: str = Field(pattern=NAME_PATTERN)
    classes: tuple[str, ...]
    """Names of the classes, as the model numbers them."""
    columns: tuple[tuple[str, tuple[str, ...] | None], ...] = ()
    """Name and categories of each column, None for a numeric one; empty where features are no table."""
    learner: str
    """Short name or import path."""
    params: dict[str, Any] = Field(default_factory=dict)
    shape: tuple[Annotated[int, Field(ge=1)], ...] = Field(min_length=1)
    """Of one example's features, before preprocessing."""
    image_size: tuple[int, int] | None = None
    """For a folder of images: height and width that all images are scaled to."""
    image_mode: Literal["gray", "color"] = "color"
