"""One spelling for equal words."""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Final

from fedct_flwr.text.printable import normalized


def folded(text: str) -> str:
    """One spelling for all that differ in case, blanks or form of Unicode alone.

    >>> folded("  Yes"), folded("STRASSE") == folded("Straße")
    ('yes', True)
    """
    plain = "".join(char for char in normalized("NFKC", text) if unicodedata.category(char) != "Cf")
    return re.sub(r"\s+", " ", normalized("NFKC", plain.casefold())).strip()


def without_accents(text: str) -> str:
    """One spelling for all that differ in accents, umlauts or signs as well, or were once read in a wrong encoding.

    >>> without_accents("Décédé"), without_accents("Uebelkeit"), without_accents("Ãœbelkeit")
    ('decede', 'ubelkeit', 'ubelkeit')
    >>> without_accents("Stage-1"), without_accents("stage_1."), without_accents("ER+/PR-")
    ('stage 1', 'stage 1', 'er+/pr-')
    """
    with suppress(UnicodeError):
        text = text.encode("cp1252").decode("utf-8")
    bare = "".join(char for char in normalized("NFKD", folded(text)) if not unicodedata.combining(char))
    return re.sub(r"(?<=\w)[\s_.\-–]+(?=\w)", " ", re.sub("([aou])e", r"\1", bare).rstrip("."))


_YES: Final = ("1", "yes", "y", "true", "t", "ja", "j", "wahr", "oui", "si", "sí", "sì", "pos", "positive", "positiv")
_NO: Final = ("0", "no", "n", "false", "f", "nein", "falsch", "non", "neg", "negative", "negativ")
_MALE: Final = ("m", "male", "man", "boy", "männlich", "mann", "masculin", "homme", "masculino", "hombre")
_FEMALE: Final = ("f", "w", "female", "woman", "girl", "weiblich", "frau", "féminin", "femme", "femenino", "mujer")
_MEANINGS: Final = (
    {**dict.fromkeys((*_YES, "+"), True), **dict.fromkeys((*_NO, "-"), False)},
    {**dict.fromkeys(_MALE, True), **dict.fromkeys(_FEMALE, False)},
)
"""Words of truth, and of sex."""


def spelled_alike(names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Pairs of words that differ in spelling alone, or mean the same where all words are of truth, or of sex.

    >>> [*spelled_alike(["M", "male", "female"])], [*spelled_alike(["m", "f"])], next(spelled_alike(["yes", "no", "0"]))
    ([('M', 'male')], [], ('no', '0'))
    >>> [*spelled_alike(["N", "F"])], [*spelled_alike(["Décédé", "vivant", "decede"])]
    ([], [('Décédé', 'decede')])
    """
    for meanings in _MEANINGS if len(names) <= len(_MEANINGS[0]) else ():
        meant = {name: meanings.get(folded(name)) for name in names if name.strip()}
        # Neither N nor F says no where nothing says yes.
        if {*meant.values()} == {True, False}:
            yield from _alike(meant)
    yield from _alike({name: without_accents(name) for name in names})


def _alike(keys: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    first: dict[object, str] = {}
    for name, key in keys.items():
        if first.setdefault(key, name) != name:
            yield first[key], name
