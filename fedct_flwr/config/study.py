"""``study.toml``: what a coordinator and its silos agree upon before the first message."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from fedct_flwr.config.settings import (
    NAME_PATTERN,
    ClassName,
    OptionalVisiblePath,
    Settings,
    VisibleName,
    VisiblePath,
)
from fedct_flwr.config.tables import Side, StudyTables


class StudyConfig(Settings):
    """A study's folder holds this file and the public set. Relative paths start at its folder.

    All of it comes from the coordinator, and silos approve what they read of it: names and paths that hide something
    are refused.
    """

    study: str = Field(pattern=NAME_PATTERN)
    """Name of the study; messages of another study are refused."""
    classes: tuple[ClassName, ...] = Field(min_length=2)
    """Names of the classes, in the order that messages number them."""
    public: VisiblePath = Path("public.csv")
    """The public set: a table in a file, without labels, or a folder of images."""
    test_file: OptionalVisiblePath = None
    """Labeled records that all silos score their models with, if any (a table, for experiments)."""
    test_label: VisibleName = ""
    """The label column of ``test-file``."""
    image_size: tuple[Side, Side] | None = None
    """For a folder of images: height and width that all images are scaled to."""
    image_mode: Literal["gray", "color"] = "color"
    tables: StudyTables = StudyTables()
    """The form of the public set and the test file, where they are tables."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if bool(self.test_file) != bool(self.test_label):
            raise ValueError("test-file and test-label belong together: give both or neither")
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("classes repeat")
        if self.image_size and self.tables.given:
            raise ValueError("tables is for tables, and image-size for images: leave one of them out")
        return self
