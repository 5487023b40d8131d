"""The data dictionary of a study: the permitted values of each column.

It is read from ``[columns]`` of a TOML file, from a frictionless Table Schema (JSON, https://specs.frictionlessdata.io)
or from a data dictionary as REDCap exports it (CSV). None of them needs a record.
"""

import csv
import json
from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import numpy as np
import pyarrow as pa
import tomli_w
from pydantic import model_validator

from fedct_flwr.config.settings import MOST_BYTES, Settings, VisibleName
from fedct_flwr.config.study import StudyConfig
from fedct_flwr.config.tables import EPOCH, ColumnForm
from fedct_flwr.datasets.study_folder import STUDY_FILE
from fedct_flwr.text.printable import listed, quoted, suggest
from fedct_flwr.types import ConfigError

MOST_COLUMNS: Final = 200
"""With more columns, the noise that they share hides the data."""
_EXAMPLES: Final = 100
_KINDS: Final = {"integer": "integer", "year": "integer", "number": "number", "date": "date", "datetime": "date"}
"""Types of a Table Schema, and first parts of REDCap's text validations."""
_REDCAP: Final = ("Variable / Field Name", "field_name")
"""The first header of the file that people download, and of REDCap's API."""
_PLACES: Final = (0, 3, 5, 7, 8, 9, 10)
"""In both: name, field type, choices, validation, smallest and largest value, and whether it identifies a person."""


class Dictionary(Settings):
    """All columns but the label, in their order. Raises ConfigError for what no set can be drawn of."""

    columns: dict[VisibleName, ColumnForm]
    left_out: tuple[str, ...] = ()
    """Fields of a foreign dictionary that are free text, files, calculated or identifiers."""

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if not 1 <= len(self.columns) <= MOST_COLUMNS:
            raise ValueError(
                f"it has {len(self.columns)} columns, and sets are drawn of 1 to {MOST_COLUMNS} numbers, dates and "
                "categories, not of images, free text or omics: leave columns out, or use a public set of real examples"
            )
        for name, form in self.columns.items():
            other = self.columns.get(form.at_most)
            if form.at_most and (other is None or other.kind == "category" or form.at_most == name):
                raise ValueError(f"{quoted(name)} has at-most {quoted(form.at_most)}: name another column of numbers")
        return self

    def example(self) -> pa.Table:
        """A table in which each category occurs, and each column of numbers spans its range."""
        rows = max(_EXAMPLES, *(len(form.categories) for form in self.columns.values()))
        found = {}
        for name, form in self.columns.items():
            values = form.codes if form.codes is not None else form.categories
            found[name] = np.resize(values, rows) if form.range is None else np.linspace(*form.range, rows)
        return pa.table({name: pa.array(values.tolist()) for name, values in found.items()})

    def without(self, names: Collection[str]) -> Self:
        """The dictionary without these columns. Raises ConfigError for an unknown name."""
        if unknown := next((name for name in names if name not in self.columns), None):
            raise ConfigError(f"the data dictionary has no column {quoted(unknown)}: {suggest(unknown, self.columns)}")
        kept = {name: form for name, form in self.columns.items() if name not in names}
        return type(self)(columns=kept, **{"left-out": self.left_out})

    def to_toml(self) -> str:
        """The text of ``[columns]``, which ``of_file`` reads."""
        columns = {}
        for name, form in self.columns.items():
            columns[name] = form.model_dump(exclude_defaults=True, by_alias=True)
            if form.range and form.kind == "date":
                columns[name]["range"] = [EPOCH + timedelta(days=bound) for bound in form.range]
        return tomli_w.dumps({"columns": columns})

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Read a file by its ending: ``.toml``, ``.json`` (Table Schema) or ``.csv`` (REDCap's). Raises ConfigError."""
        if path.name == STUDY_FILE:
            return cls.read({"columns": StudyConfig.read_toml(path).columns}, f"[columns] in {path}")
        if path.suffix == ".toml":
            return cls.read_toml(path)
        try:
            if path.stat().st_size > MOST_BYTES:
                raise ConfigError(f"{path} has more than {MOST_BYTES:,} bytes, too many for a data dictionary")
            text = path.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the data dictionary {path}: {type(error).__name__}") from None
        return cls.of_text(text, str(path))

    @classmethod
    def of_setting(cls, given: str) -> Self:
        """Read a file's path, or JSON text. Raises ConfigError."""
        return cls.of_text(given) if given.startswith("{") else cls.of_file(Path(given))

    @classmethod
    def of_text(cls, text: str, where: str = "the data dictionary") -> Self:
        """A Table Schema, the JSON of a Dictionary, or REDCap's CSV. Raises ConfigError."""
        try:
            content = json.loads(text) if text.lstrip().startswith("{") else None
        except (ValueError, RecursionError):
            raise ConfigError(f"{where} is not JSON: correct it") from None
        if content is None:
            fields = _of_redcap(text)
        elif "fields" not in content:
            return cls.read(content, where)
        else:
            fields = _of_schema(content["fields"])
        try:
            found = dict(fields)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError, csv.Error):
            raise ConfigError(
                f"{where} is neither a Table Schema (JSON with fields) nor a REDCap data dictionary (CSV): give one of "
                "them, or [columns] in a TOML file"
            ) from None
        columns = {name: form for name, form in found.items() if form is not None}
        if bare := [name for name, form in columns.items() if form["kind"] != "category" and None in form["range"]]:
            raise ConfigError(f"{where} gives no range of {listed(bare)}: add least and largest values")
        return cls.read({"columns": columns, "left-out": [name for name in found if name not in columns]}, where)


_Field: TypeAlias = tuple[str, dict[str, Any] | None]
"""A name and its ``[columns.NAME]``; None if the column cannot be drawn."""


def _of_schema(fields: list[Mapping[str, Any]]) -> Iterator[_Field]:
    for field in fields:
        limits = field.get("constraints", {})
        values = limits.get("enum") or field.get("categories") or []
        values = [value["value"] if isinstance(value, dict) else value for value in values]
        kind = field.get("type", "string")
        if kind == "boolean":
            values = ["false", "true"]
        yield field["name"], _form(_KINDS.get(kind), limits.get("minimum"), limits.get("maximum"), values)


def _of_redcap(text: str) -> Iterator[_Field]:
    header, *lines = csv.reader(text.splitlines(), strict=True)
    if header[0] not in _REDCAP:
        raise KeyError(header[0])
    for line in lines:
        name, kind, choices, valid, low, high, identifier = (line[place].strip() for place in _PLACES)
        codes = [choice.partition(",")[0].strip() for choice in choices.split("|")]
        if identifier.lower() == "y":
            yield name, None
        elif kind == "checkbox":
            # A column's name has no minus: code -9 is in sym____9.
            names = [f"{name}___{code.lower().replace('-', '_')}" for code in codes]
            yield from ((each, _form(None, low, high, ["0", "1"])) for each in names)
        elif kind in ("radio", "dropdown", "yesno", "truefalse"):
            yield name, _form(None, low, high, codes if kind in ("radio", "dropdown") else ["0", "1"])
        elif kind == "slider":
            yield name, _form("integer", low or 0, high or 100, [])
        else:
            yield name, _form(_KINDS.get(valid.partition("_")[0]) if kind == "text" else None, low, high, [])


def _form(kind: str | None, low: Any, high: Any, categories: list[Any]) -> dict[str, Any] | None:
    if categories:
        return {"kind": "category", "categories": categories}
    limits = [None if bound in ("", None) else bound for bound in (low, high)]
    return None if kind is None else {"kind": kind, "range": limits}
