"""How tables and images are to be read, and a study's data dictionary: the permitted values of each column.

``data.toml``, ``[tables]`` in ``study.toml`` and ``silo.toml``; ``[columns]`` in ``study.toml``.
"""

import json
import re
import string
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from fedct_flwr.config.settings import ClassName, Name, Names, Settings, kebab
from fedct_flwr.text.printable import normalized

DATA_FILE: Final = "data.toml"
"""The file's name, next to the tables that it describes."""

EVERY: Final = "*"
"""Stands for all columns under ``missing``."""
_NO_SEPARATORS: Final = frozenset(string.ascii_letters + string.digits + "\"'\r\n+-_.")
_PROBE: Final = datetime(2003, 2, 28, tzinfo=UTC)

Side = Annotated[int, Field(ge=1, le=4096)]
"""Pixels along one side of an image."""


def _group_pattern(pattern: str) -> str:
    try:
        tells_a_group = not pattern or re.compile(pattern).groups == 1
    except re.error:
        tells_a_group = False
    if not tells_a_group:
        raise ValueError("it must be a regular expression with one pair of parentheses, such as '^(p[0-9]+)_'")
    return pattern


class GroupedImages(Settings):
    """Which images in folders belong together, ``[data.images]`` in ``silo.toml``."""

    group_pattern: Annotated[str, AfterValidator(_group_pattern)] = ""
    """Regular expression for names of files. The part in parentheses says which images belong together, such as a
    patient's number: '^(p[0-9]+)_'. All images of one group stay on one side of every split."""


class ImageSettings(GroupedImages):
    """The form that images in folders are brought into, ``[images]`` in ``data.toml``."""

    size: tuple[Side, Side] | None = None
    """Height and width that all images are scaled to; empty: those of most images of the public set."""
    mode: Literal["", "gray", "color"] = ""
    """One channel or three; empty: color if an image of the public set has any."""


def _separator(sign: str) -> str:
    if sign in _NO_SEPARATORS or not sign.isascii():
        raise ValueError('it cannot stand between fields: write "," or ";" or "\\t" (a tab), as the file has it')
    return sign


def _encoding(name: str) -> str:
    try:
        # Python calls more than text's encodings so, and only these encode text.
        "text".encode(name)
    except (LookupError, ValueError):
        raise ValueError("Python knows no such encoding of text: try utf-8, cp1252 or latin-1") from None
    return name


def _form_of_dates(form: str) -> str:
    try:
        tells_the_day = not form or datetime.strptime(_PROBE.strftime(form), form).date() == _PROBE.date()
    except (ValueError, re.error):  # of a directive that comes twice, Python makes a wrong regular expression
        tells_the_day = False
    if not tells_the_day:
        raise ValueError("it must have a year, a month and a day, such as '%d.%m.%Y' for 31.12.2024")
    return form


def _as_written(value: object) -> object:
    """Numbers among the entries as text: ``missing = [-9]``, also for a column: ``missing = {chol = [0]}``."""
    if isinstance(value, Mapping):
        return {name: _listed(codes) for name, codes in value.items()}
    return _listed(value)


def _listed(codes: object) -> object:
    if isinstance(codes, list | tuple) and all(isinstance(code, str | int | float) for code in codes):
        return tuple(map(str, codes))
    if not isinstance(codes, str):
        raise ValueError('write a list, such as ["-9"], or one for each column, such as {chol = ["0"]}')
    return codes


class TableForm(Settings):
    """How to read one table from a file. Columns have the names of the file's header."""

    separator: Annotated[str, AfterValidator(_separator)] = Field(default="", max_length=1)
    """Character between the fields of a CSV file; empty: a comma, or what the file's ending says."""
    decimal: Literal[".", ","] = "."
    """Decimal sign of numbers."""
    encoding: Annotated[str, AfterValidator(_encoding)] = "utf-8"
    """Encoding of text, by Python's name."""
    sheet: str = ""
    """Name of an Excel file's sheet; empty: the first one."""
    dates: Annotated[str, AfterValidator(_form_of_dates)] = ""
    """Form of dates, as in strptime ('%d.%m.%Y'): such columns become numbers, days since 1970; empty: refused."""
    missing: Annotated[Names | dict[str, Names], BeforeValidator(_as_written)] = ()
    """Cells that mean a missing value, besides empty ones and, in CSV and Excel files, words such as NA and null.
    A list holds for all columns, the label too. {chol = ["0"], "*" = ["-9"]} adds 0 in the column chol alone."""
    leave_out: Names = ()
    """Columns that are not used."""

    def missing_in(self, column: str) -> tuple[str, ...]:
        """The cells of a column that mean a missing value."""
        if isinstance(self.missing, tuple):
            return self.missing
        return tuple(code for name in (EVERY, column) for code in self.missing.get(name, ()))

    @property
    def named(self) -> dict[str, tuple[str, ...]]:
        """The columns that each key names."""
        coded = () if isinstance(self.missing, tuple) else tuple(name for name in self.missing if name != EVERY)
        return {key: names for key, names in {"leave-out": self.leave_out, "missing": coded}.items() if names}


class FileForm(TableForm):
    """Settings of one file in ``data.toml``: keys that are given here replace those for all files."""

    silo: Name | Literal[""] = ""
    """The silo whose records the file holds; empty: the file is named after it."""


class TableSettings(TableForm):
    """The form of tables in files, and what their columns are."""

    categories: Names = ()
    """Columns of numbers that are names: codes of wards, say."""
    text: Names = ()
    """Columns of free text, which only learners for text read."""
    group: str = ""
    """Column that says which records belong together, on one side of a split: a patient's number, and no feature."""
    accept: Names = ()
    """Findings of the inspection that are accepted, by name, or by name and column: 'one-per-record:ward'."""

    place: ClassVar[str] = DATA_FILE
    """Where these settings are written, for messages."""
    _places: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def places(self) -> Mapping[str, str]:
        """Where keys are written, or are to be, that hold for one file alone."""
        return self._places

    def place_of(self, key: str) -> str:
        """Where this key is to be written, for messages."""
        return self._places.get(key, self.place)

    @property
    def named(self) -> dict[str, tuple[str, ...]]:
        """The columns that each key names."""
        group = (self.group,) if self.group else ()
        found = {"categories": self.categories, "text": self.text, "group": group}
        return super().named | {key: names for key, names in found.items() if names}

    @property
    def empties_labels(self) -> str:
        """Advice where labels are missing, for the end of a sentence: cells of all columns may have been emptied."""
        advised = f", or write missing = {{NAME = [...]}} in {self.place_of('missing')}, as a list empties labels too"
        return advised if self.missing_in(EVERY) else ""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.decimal == self.separator:
            raise ValueError("decimal and separator are both a comma: set one of them to another character")
        claimed: dict[str, str] = {}
        for key, names in self.named.items():
            for name in names if key != "missing" else ():
                if claimed.setdefault(name, key) != key:
                    raise ValueError(f"{claimed[name]} and {key} both name {name!r}: keep one of them")
        return self

    @classmethod
    def of_folder(cls, folder: Path) -> "FolderTables":
        """Read ``data.toml`` in a folder; the defaults without one. Raises ConfigError."""
        path = folder / DATA_FILE
        return FolderTables.read_toml(path) if path.is_file() else FolderTables()


class FolderTables(TableSettings):
    """``data.toml``: what holds for all tables of its folder, and for each file by its name; or for its images."""

    files: dict[str, FileForm] = Field(default_factory=dict)
    images: ImageSettings = ImageSettings()
    """Where there are folders of images instead of tables."""

    def form(self, name: str) -> FileForm | None:
        """The settings of the file ``name`` alone."""
        return next(
            (form for known, form in self.files.items() if normalized("NFC", known) == normalized("NFC", name)), None
        )

    def of(self, name: str) -> TableSettings:
        """The settings of the file ``name``. Raises ConfigError where the two parts do not go together."""
        own = _given(self.form(name) or FileForm())
        found = TableSettings.read(_given(self) | own, f'{self.place} for "{name}"')
        # A silo's file may be unlike all others. The public one is read first, and shows how most are.
        alone = {*own, *(() if name.casefold().startswith("public.") else _BY_FILE)}
        found._places = dict.fromkeys(alone, f"{self.place} under [files.{json.dumps(name, ensure_ascii=False)}]")
        return found


Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class StudyTables(TableSettings):
    """``[tables]`` in ``study.toml``: the public set and the study's test file."""

    class_shares: dict[str, tuple[Share, Share]] = Field(default_factory=dict)
    """Smallest and largest usual share of a class at a silo: 'yes = [0.1, 0.4]' under [tables.class-shares]."""

    place: ClassVar[str] = "study.toml under [tables]"

    @property
    def decides(self) -> dict[str, object]:
        """The part that silos approve, as JSON types: the columns' meaning. The rest shows in the public set itself.

        Empty for a study that says nothing of its tables, as all did before they could.
        """
        settings = self.model_dump(mode="json", by_alias=True, exclude={"separator", "decimal", "encoding", "sheet"})
        return {key: settings[key] for key in self.given if key in settings}


class SiloTables(TableSettings):
    """``[data.tables]`` in ``silo.toml``: the silo's own records, and its test file."""

    place: ClassVar[str] = "silo.toml under [data.tables]"

    @model_validator(mode="after")
    def _leave_to_the_study(self) -> Self:
        if misplaced := [key for key in ("categories", "text") if getattr(self, key)]:
            raise ValueError(f"the study says what its columns are: leave {misplaced[0]} out")
        return self


_BY_FILE: Final = "separator", "decimal", "encoding", "sheet", "dates"


def _given(settings: TableForm) -> dict[str, object]:
    given = settings.model_fields_set & set(TableSettings.model_fields)
    return {kebab(name): getattr(settings, name) for name in given}


PLAIN: Final = TableSettings()
"""The form of a table without settings."""

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
