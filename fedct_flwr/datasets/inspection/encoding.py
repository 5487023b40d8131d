"""Words that were read in another encoding than they were written in: 'mÃ¼de', 'm\ufffdde', 'ear &amp; throat'."""

import html
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.profile import Profile
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import SiloName

_MOST_VALUES: Final = 2000
_LOST: Final = "\ufffd"
_ENTITY: Final = re.compile(r"&(amp|lt|gt|quot|nbsp|[a-zA-Z]uml|szlig|[a-zA-Z]acute|#\d{2,4});")


def damaged(table: Profile, silo: SiloName, say: Words) -> Iterator[Finding]:
    """Text columns with such words."""
    for name, text in table.texts.items():
        values = dict(zip(text.values.to_pylist(), text.counts.tolist(), strict=True))
        if len(values) <= _MOST_VALUES:
            yield from _said(say.column(name, silo), values, name, silo, say)


def damaged_classes(counts: Mapping[SiloName, Mapping[str, int]], label: str, say: Words) -> Iterator[Finding]:
    """Classes whose names are such words."""
    for silo, own in counts.items():
        yield from _said(say.column(label, silo), own, label, silo, say)


def _said(where: str, values: Mapping[str, int], name: str, silo: SiloName, say: Words) -> Iterator[Finding]:
    found = {value: number for value, number in values.items() if (right := _right(value)) is not None and right}
    if found:
        right = _right(next(iter(found)))
        instead = f" instead of {quoted(right)}" if right and say.values(found) and _LOST not in right else ""
        said = f"{where} has words that were read in a wrong encoding{say.values(found, 1)}{instead}"
        fix = "export the file again as UTF-8, or correct these words, at all silos alike"
        yield Finding("wrong-encoding", Severity.SAID, said, fix, name, silo)


def _right(word: str) -> str | None:
    """What a damaged word was; the word itself where a letter is lost, and None for a word that is as it should be.

    >>> _right("mÃ¼de"), _right("müde"), _right("ear &amp; throat")
    ('müde', None, 'ear & throat')
    """
    if _LOST in word:
        return word
    if _ENTITY.search(word):
        return html.unescape(word)
    if not word.isascii():
        for encoding in ("cp1252", "latin-1"):
            with suppress(UnicodeError):
                return word.encode(encoding).decode("utf-8")
    return None
