"""The label column of a table: class names, spelled alike however a file writes them, and their numbers."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedct_flwr.datasets.table_files import NUMBER, usual
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.text.spelling import normalized
from fedct_flwr.types import LABEL_DTYPE, DataError, HardLabels

_WHOLE: Final = re.compile(r"([+-]?)(0|[1-9][0-9]*)(?:\.0*)?")
_LARGEST: Final = float(2**53)
"""From here on a float stands for several whole numbers."""


def class_names(labels: pa.ChunkedArray, label: str, path: object) -> list[str]:
    """The class of each record; numbers and truth values are named alike however a file writes them.

    Raises DataError, which quotes no record, for missing labels, a column of another kind, or numbers that are no
    labels: whole ones too large for a float to tell apart, and infinite ones.
    """
    kind = labels.type
    if pa.types.is_nested(kind) or pa.types.is_temporal(kind) or pa.types.is_binary(kind):
        raise DataError(f"column {label!r} of {path} holds {quoted(str(kind))}: labels must be numbers or text")
    labels = usual(labels)
    # Each spelling is looked at once: a million records have a handful.
    spellings = pc.unique(labels)
    values = [None if value != value or _is_blank(value) else value for value in spellings.to_pylist()]
    if any(isinstance(value, float) and abs(value) > _LARGEST for value in values):
        raise DataError(
            f"column {label!r} of {path} holds numbers too large to tell apart: check that the label column is the "
            "right one, or write the labels as text"
        )
    names = np.array([None if value is None else class_name(_text(value)) for value in values], dtype=object)
    places = pc.index_in(labels, value_set=spellings)
    found = [name for piece in places.chunks for name in names[piece.to_numpy()].tolist()]
    if missing := found.count(None):
        raise DataError(f"{path} has {count(missing, 'record')} without a label: fill them in or take them out")
    return found


def class_name(text: str) -> str:
    """One name for all spellings: accents, blanks around it, ``1`` and ``1.0``, ``True`` and ``true``.

    Only plain whole numbers are one however they are written. Whatever else looks like a number to a program is text:
    ``1E50``, ``1_0``, ``0x10``, ``nan``, digits of another script. So is a code with zeros in front, such as ``01``.
    """
    text = normalized("NFC", text).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    if whole := _WHOLE.fullmatch(text):
        sign, digits = whole.groups()
        return f"-{digits}" if sign == "-" and digits != "0" else digits
    return text


def _is_blank(value: object) -> bool:
    """Whether it is text of blanks alone, which no class is called."""
    return isinstance(value, str) and not value.strip()


def _text(value: object) -> str:
    """A label as a CSV file would have it."""
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def all_classes(names: set[str]) -> tuple[str, ...]:
    """All labels found, numbers by value, text by alphabet."""
    if all(NUMBER.fullmatch(name) for name in names):
        return tuple(sorted(names, key=lambda name: (Decimal(name), name)))
    return tuple(sorted(names))


def encode_labels(names: Sequence[str], classes: Sequence[str]) -> HardLabels:
    """The number of each name in ``classes``, ``(n,)``. All names must be there."""
    code = {name: number for number, name in enumerate(classes)}
    return np.array([code[name] for name in names], dtype=LABEL_DTYPE)


def map_labels(
    names: Sequence[str], mapping: Mapping[str, str] | None, classes: Sequence[str], path: Path
) -> HardLabels:
    """The study's class of each name ``(n,)``, by the silo's ``mapping`` unless it is empty; None: there is no silo.

    Raises DataError, which quotes no label of the file, if one is unknown, the mapping leads to no class, or two
    spellings of the same label lead to different ones.
    """
    if wrong := sorted(set((mapping or {}).values()) - set(classes)):
        raise DataError(f"mapping leads to {listed(wrong)}, which is no class of the study: it has {listed(classes)}")
    into = _by_class_name(mapping or {}, "mapping") or _by_class_name({name: name for name in classes}, "the study")
    if unknown := sum(name not in into for name in names):
        what = "in mapping" if mapping else f"a class of the study ({listed(classes)})"
        advice = "" if mapping is None else ", and say under [data.mapping] which class each label means"
        raise DataError(
            f"{path} has {count(unknown, 'record')} whose label is not {what}: check that the label column is the "
            f"right one{advice}"
        )
    return encode_labels([into[name] for name in names], classes)


def _by_class_name(mapping: Mapping[str, str], where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for spelling, meant in mapping.items():
        if found.setdefault(class_name(spelling), meant) != meant:
            raise DataError(f"{where} has {class_name(spelling)!r} in two spellings with different classes: keep one")
    return found
