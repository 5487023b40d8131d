"""Text that hides nothing: names as they are read, and any text as it is printed.

A study's names come from its coordinator, who could otherwise write what a terminal obeys: clear the screen, turn the
direction of a line, or draw another page over the one that a hospital approves.

Formal guarantee: what ``printable`` returns holds no character of the Unicode categories Cc, Cf, Cn, Co, Cs, Zl and Zp
but those to keep, none that shows as nothing, and no more than ``MOST_MARKS`` combining marks in a row. Not covered:
letters that only look alike, and the order in which a terminal puts letters that are written from right to left.

Also what messages are made of (the logger, counts with their nouns, the nearest known name), and Unicode's normal forms
in time that is proportional to the text.
"""

import difflib
import json
import logging
import math
import re
import shlex
import sys
import traceback
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Literal

logger: Final = logging.getLogger("flwr.fedct")
"""A child of Flower's logger, with its form of lines."""
LONGEST_NAME: Final = 256
"""Characters of the name of a class, a column or a category."""
LONGEST_PATH: Final = 1024
MOST_MARKS: Final = 4
"""Combining marks on one character: written languages stack fewer, and a flood of them covers the lines around it."""
HIDDEN_BELOW: Final = 5
"""Smaller counts are hidden at a real silo, as they may identify a person."""
_MOST_IN_WRITING: Final = 30
"""On one letter, as in Unicode's stream-safe text format (UAX #15): no written language has as many."""
_SHOWN: Final = 40
_LONGEST_WARNING: Final = 1000
_LISTED: Final = 10
_SUGGESTED: Final = 60

# Also unassigned ones (Cn): terminals of the future may act on them, and no name needs them.
_CONTROLS: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_MARKS: Final = frozenset({"Mn", "Me"})
# Letters, marks and symbols that show as nothing all the same: joiners, fillers, variation selectors, an empty Braille
# pattern. Unicode calls most of them "default ignorable"; Python's tables do not have that property.
_NOTHING: Final = frozenset(
    (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, 0xFFA0)
) | {*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}
_UNUSUAL: Final = re.compile(r"[^\x20-\x7e]+")
# A sign in front, also as East Asian spreadsheets take it, and a function's call behind it, or what stands in another
# file or program: '\\host\[a.xlsx]b'!A1, or cmd|'/C calc'!A0.
_FORMULA: Final = re.compile(r"\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20](?s:.*)(?:\w\s*\(|!)")
_BLANKS: Final = re.compile(r"(?<=\s) |[^\S ]")


@lru_cache(maxsize=4096)
def _is_hidden(char: str) -> bool:
    return unicodedata.category(char) in _CONTROLS or ord(char) in _NOTHING


@lru_cache(maxsize=4096)
def _is_mark(char: str) -> bool:
    return unicodedata.category(char) in _MARKS


def printable(text: str, keep: str = "") -> str:
    r"""The text with each character escaped that a terminal would obey or hide, but for those to ``keep``.

    >>> print(printable("ill\x1b[2J\u202e\n"))
    ill\x1b[2J\u202e\n
    """
    return _replaced(text, keep, _escape)


def printable_json(text: str) -> str:
    r"""A JSON document whose strings hold the same, in JSON's own escapes.

    >>> print(printable_json('{"class": "ill\u202e"}'))
    {"class": "ill\u202e"}
    """
    # Outside of its strings JSON has no such character but the line feed.
    return _replaced(text, "\n", _json_escape)


def json_text(document: Any) -> str:
    """A document as JSON with a newline at its end; numbers in full precision, hidden characters in JSON's escapes.

    JSON has neither NaN nor infinity: they are null.

    >>> print(json_text({"epsilon": float("inf"), "file": Path("a")}), end="")
    {
      "epsilon": null,
      "file": "a"
    }
    """
    # Other values of a table, such as dates, become text.
    text = json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False, default=str)
    return printable_json(text) + "\n"


def plain(value: Any) -> Any:
    """The value as JSON types, also for dataclasses, paths, enumerations and numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def cut(text: str, longest: int) -> str:
    """The text, or its beginning and how much is missing.

    >>> cut("abcdef", 4)
    'abcd… (2 more characters)'
    """
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text) - longest:,} more characters)"


def quoted(name: str, longest: int = _SHOWN) -> str:
    r"""A name given by others, in quotation marks that it cannot end, on one line, cut if it is long.

    Blanks that could push what follows to another line are escaped as well.

    >>> print(quoted("it's  ill"), quoted("x" * 50, 3))
    'it\'s \x20ill' 'xxx…' (47 more characters)
    """
    shown = name[:longest].replace("\\", "\\\\").replace("'", "\\'")
    shown = printable(_BLANKS.sub(lambda found: _escape(found[0]), shown))
    # A mark at the beginning would sit on the quotation mark.
    shown = _escape(shown[0]) + shown[1:] if shown and _is_mark(shown[0]) else shown
    more = len(name) - longest
    return f"'{shown}…' ({more:,} more characters)" if more > 0 else f"'{shown}'"


def listed(names: Sequence[str], most: int = _LISTED) -> str:
    """Names, quoted, the first of them if there are many.

    >>> listed(["a", "b", "c"], 2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(quoted(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def fault(name: str, longest: int = LONGEST_NAME) -> str | None:
    r"""Why a name is not taken, as a clause that does not quote it; None if nothing is wrong with it.

    >>> fault("ill"), fault("ill\u202e")
    (None, 'it holds the hidden character U+202E (RIGHT-TO-LEFT OVERRIDE)')
    """
    if len(name) > longest:
        return f"it has {len(name):,} characters, and {longest} are the most"
    if name.isascii() and name.isprintable():
        return None
    marks = MOST_MARKS if name[:1] and _is_mark(name[0]) else 0
    for char in name:
        if _is_hidden(char):
            return f"it holds the hidden character {_code(char)}"
        marks = marks + 1 if _is_mark(char) else 0
        if marks > MOST_MARKS:
            return f"the combining mark {_code(char)} stands on nothing, or on more than {MOST_MARKS - 1} others"
    return None


def formula_fault(name: str) -> str | None:
    """Why a name is not written into tables, as a clause; None for one that no spreadsheet would run.

    A class name is a cell of its own in the CSV files of predictions. Signs alone, as ``+`` for a positive test, pass.

    >>> formula_fault('=WEBSERVICE ("http://a/"&A2)'), formula_fault("+ (weak)")
    ('a spreadsheet would run it as a formula', None)
    """
    # Where commas are decimal signs, a spreadsheet cuts lines at semicolons. Longer names are refused anyway.
    runs = any(map(_FORMULA.match, name[:LONGEST_NAME].split(";")))
    return "a spreadsheet would run it as a formula" if runs else None


class PrintableLogs(logging.Filter):
    """Escapes what is logged: names in it come from others, and logs are read in terminals."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, as one line and with a traceback that hides nothing."""
        try:
            record.msg, record.args = printable(record.getMessage()), ()
        except (TypeError, ValueError):
            record.msg, record.args = "a message that could not be put into words", ()
        if record.exc_info and not record.exc_text:
            text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            record.exc_text = printable(text, keep="\n")
        return True


# Here, as all that log import this logger.
logger.addFilter(PrintableLogs())


def escape_warnings() -> None:
    """Have Python print each warning of this process on one line that hides nothing.

    Libraries quote in them what a file holds, such as the version that a model says it was written with.
    """

    def one_line(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        return f"{filename}:{lineno}: {category.__name__}: {printable(cut(str(message), _LONGEST_WARNING))}\n"

    warnings.formatwarning = one_line


def _replaced(text: str, keep: str, escape: Callable[[str], str]) -> str:
    def run(found: re.Match[str]) -> str:
        marks, kept = 0, []
        for char in found[0]:
            marks = marks + 1 if _is_mark(char) else 0
            shown = char in keep or not (_is_hidden(char) or marks > MOST_MARKS)
            kept.append(char if shown else escape(char))
        return "".join(kept)

    return _UNUSUAL.sub(run, text)


def _escape(char: str) -> str:
    return r"\x20" if char == " " else char.encode("unicode_escape").decode()


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _code(char: str) -> str:
    name = unicodedata.name(char, "")
    return f"U+{ord(char):04X}" + (f" ({name})" if name else "")


def in_shell(path: Path) -> str:
    """A path as a shell takes it, for commands that a person may copy.

    >>> in_shell(Path("my silo")), in_shell(Path("silo"))
    ("'my silo'", 'silo')
    """
    return shlex.quote(str(path))


def from_here(path: Path) -> Path:
    """The path for display: relative to the working folder, if it lies below that."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def count(number: int, noun: str) -> str:
    """A number and what it counts.

    >>> count(1, "silo"), count(1000, "round")
    ('1 silo', '1,000 rounds')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def rounded(number: int) -> str:
    """A count of records or cells that may be e-mailed: to tens, and hidden where it may point at a patient.

    >>> rounded(4), rounded(5), rounded(1164)
    ('<5', '10', '1,160')
    """
    return f"{max(10, round(number, -1)):,}" if number >= HIDDEN_BELOW else f"<{HIDDEN_BELOW}"


def suggest(name: str, known: Iterable[str]) -> str:
    """A half sentence that helps with an unknown name.

    >>> suggest("hart-disease", ["heart-disease", "breast-cancer"])
    "did you mean 'heart-disease'?"
    >>> suggest("xyz", ["heart-disease", "breast-cancer"])
    'there are heart-disease, breast-cancer'
    """
    names = list(known)
    folded = {known.casefold(): known for known in names}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    if near:
        return f"did you mean {folded[near[0]]!r}?"
    more = f" and {len(names) - _SUGGESTED:,} more" if len(names) > _SUGGESTED else ""
    return f"there are {', '.join(names[:_SUGGESTED]) or 'none'}{more}"


def normalized(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    r"""The text in this form. One with more marks on a letter than any language has stays as it is.

    Python sorts the marks on one letter by comparing each with all before it: a million of them would take an hour.

    >>> normalized("NFC", "e\u0301")
    'é'
    """
    if text.isascii() or _flood().search(text):
        return text
    return unicodedata.normalize(form, text)


@cache
def _flood() -> re.Pattern[str]:
    """Too many marks in a row."""
    marks = "".join(char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.combining(char))
    return re.compile(f"[{marks}]{{{_MOST_IN_WRITING + 1}}}")
