"""``data.toml``, and ``[tables]`` in ``study.toml`` and ``silo.toml``: how tables and images are to be read."""

from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from fedct_flwr.config.settings import Names, Settings

DATA_FILE: Final = "data.toml"
"""The file's name, next to the tables that it describes."""


Side = Annotated[int, Field(ge=1, le=4096)]
"""Pixels along one side of an image."""


class ImageSettings(Settings):
    """The form that images in folders are brought into, ``[images]`` in ``data.toml``."""

    size: tuple[Side, Side] | None = None
    """Height and width that all images are scaled to; empty: those of most images of the public set."""
    mode: Literal["", "gray", "color"] = ""
    """One channel or three; empty: color if an image of the public set has any."""


class TableSettings(Settings):
    """The form of tables in files, and what their columns are. Columns are named as the files' headers name them."""

    separator: str = Field(default="", max_length=1)
    """Character between the fields of a CSV file; empty: a comma, or what the file's ending says."""
    decimal: Literal[".", ","] = "."
    """Decimal sign of numbers."""
    encoding: str = "utf-8"
    """Encoding of text, by Python's name."""
    dates: str = ""
    """Form of dates, as in strptime ('%d.%m.%Y'): such columns become numbers, days since 1970; empty: refused."""
    missing: Names = ()
    """Cells that mean a missing value, besides the empty one."""
    leave_out: Names = ()
    """Columns that are not used."""
    categories: Names = ()
    """Columns of numbers that are names: codes of wards, say."""
    text: Names = ()
    """Columns of free text, which only learners for text read."""
    group: str = ""
    """Column that says which records belong together, such as a patient's number: no feature, and all records of one
    group stay on one side of every split."""
    images: ImageSettings = ImageSettings()
    """Where there are folders of images in place of tables."""
    accept: Names = ()
    """Findings of the inspection that are meant so, by name, or by name and column: 'one-per-record:ward'."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.decimal == "," and self.separator == ",":
            raise ValueError("decimal and separator are both a comma: set one of them to another character")
        return self

    @classmethod
    def of_folder(cls, folder: Path) -> Self:
        """What ``data.toml`` in a folder says, or the defaults without one. Raises ConfigError."""
        path = folder / DATA_FILE
        return cls.read_toml(path) if path.is_file() else cls()
