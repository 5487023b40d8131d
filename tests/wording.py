"""Wording that users see, recorded next to the tests in ``__snapshots__``: a sentence a line, however it was wrapped.

A test asserts codes, fields and numbers by itself, and compares a page or a message with the fixture ``wording``. After
a change of words, ``python -m pytest FILE --snapshot-update`` records them anew, and the commit shows the difference.
"""

import re
from pathlib import Path
from typing import Any, Final

from syrupy.extensions.amber import AmberSnapshotExtension

_SENTENCE: Final = re.compile(r"(?<=[.:;?]) (?=\S)")
_FRAMES: Final = re.compile(r"[─-╿━]+")
_CHANGING: Final = [
    (re.compile(r"SHA256:[\w+/=-]{20,}"), "<fingerprint>"),
    (re.compile(r"\b[0-9a-f]{16,}\b"), "<hash>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?: ?UTC|Z|\+00:00)?)?"), "<time>"),
    (re.compile(r"(?<=-)\d{8}-\d{6}\b"), "<time>"),
    (re.compile(r"[\d,]+(?= MB are free)"), "<number>"),
    (re.compile(r"\([\d.]+ s\)"), "(<seconds>)"),
    (re.compile(r"(?<=Python )\d+\.\d+\.\d+(?= on )"), "<version>"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d{4,5}|(?<=localhost:)\d{4,5}"), "<port>"),
]
"""What differs from run to run."""


def by_sentence(text: str, folder: Path) -> str:
    """The text with a line for each sentence, ``<tmp>`` for the folder of the tests, and names for what changes."""
    below = re.compile(re.escape(str(folder)) + r"(?:/popen-gw\d+)?(?:/[\w.\[\]-]*?\d+(?=[/\s'\",:;)]|$))?")
    told = below.sub("<tmp>", " ".join(_FRAMES.sub(" ", text).split()))
    for changing, name in _CHANGING:
        told = changing.sub(name, told)
    return _SENTENCE.sub("\n", told)


def extension(folder: Path) -> type[AmberSnapshotExtension]:
    """Serializes text by its sentences, and what holds text by what it holds."""

    def plain(data: Any) -> Any:
        if isinstance(data, str):
            return by_sentence(data, folder)
        if isinstance(data, dict):
            return {key: plain(value) for key, value in data.items()}
        return [plain(one) for one in data] if isinstance(data, list | tuple) else data

    class BySentence(AmberSnapshotExtension):
        def serialize(self, data: Any, **options: Any) -> str:
            return super().serialize(plain(data), **options)

    return BySentence
