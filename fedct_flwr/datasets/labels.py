"""The label column of a table: class names, spelled alike however a file writes them, and their numbers."""

import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.types import LABEL_DTYPE, DataError, HardLabels


def class_names(labels: pa.ChunkedArray, label: str, path: object) -> list[str]:
    """The class of each record; numbers and truth values are named alike however a file writes them.

    Raises DataError, which quotes no record, for missing labels or a column of another kind.
    """
    kind = labels.type
    if pa.types.is_nested(kind) or pa.types.is_temporal(kind) or pa.types.is_binary(kind):
        raise DataError(f"column {label!r} of {path} holds {quoted(str(kind))}: labels must be numbers or text")
    values = [None if value != value else value for value in labels.to_pylist()]
    if missing := values.count(None):
        raise DataError(f"{path} has {count(missing, 'record')} without a label: fill them in or take them out")
    return [class_name(str(value)) for value in values]


def class_name(text: str) -> str:
    """One name for all spellings: accents, blanks around it, ``1`` and ``1.0``, ``True`` and ``true``."""
    text = unicodedata.normalize("NFC", text).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() else text


def all_classes(names: set[str]) -> tuple[str, ...]:
    """All labels found, numbers by value, text by alphabet."""
    try:
        return tuple(sorted(names, key=float))
    except ValueError:
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
