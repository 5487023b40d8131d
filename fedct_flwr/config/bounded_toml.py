"""TOML that others have written, refused before it is parsed where parsing could take minutes or all memory.

Python 3.11 to 3.13 keep every beginning of a dotted key: one key of 20,000 parts, 40 kB of text, took 8 s and 1.5 GB,
and ten times as many parts would take a hundred times as much.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

MOST_BYTES: Final = 1 << 20
"""Of one file. The name of each of 30,000 classes fits in."""
MOST_PARTS: Final = 32
"""Of one key, such as ``a.b.c``. No settings of ours have more than four."""

# One pass from left to right, and what does not end goes to the end of its line or of the file, as for the parser: no
# text makes this slow, or hides a key from it that the parser would find.
_STRING_OR_COMMENT: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?(?:"{3,5}|\\?\Z)'
    r"|'''.*?(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\[^\n])*"?'
    r"|'[^'\n]*'?"
    r"|\#[^\n]*",
    re.DOTALL,
)
_BETWEEN_KEYS: Final = re.compile(r"[=,\[\]{}\n]")


class TooLargeError(ValueError):
    """A file or a key is longer than any that somebody needs; the text says which and what to do, without the file."""


def read_bounded(path: Path) -> dict[str, Any]:
    """What a TOML file says. Raises TooLargeError, and whatever ``open`` and ``tomllib`` raise."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise TooLargeError(f"has more than {MOST_BYTES:,} bytes, and no settings need so many: name the right file")
    text = content.decode("utf-8-sig").replace("\r\n", "\n")
    if most_parts(text) > MOST_PARTS:
        raise TooLargeError(f"has a key of more than {MOST_PARTS} parts with points between them: take it out")
    return tomllib.loads(text)


def most_parts(text: str) -> int:
    """An upper bound on the parts of the longest key, in time proportional to the text.

    >>> most_parts('a.b."c.d" = "e.f.g.h.i" # j.k.l.m.n')
    3
    """
    bare = _STRING_OR_COMMENT.sub("", text)
    return 1 + max(between.count(".") for between in _BETWEEN_KEYS.split(bare))
