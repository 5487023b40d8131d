"""How the cells of a text column look: numbers, dates, words for a missing value; and one spelling for equal words."""

import re
import unicodedata
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedct_flwr.text.normal_form import normalized

_PLAIN: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_COMMA: Final = r"^\s*[+-]?(\d*,\d+([eE][+-]?\d+)?|\d{1,3}([., '\x{2019}]\d{3})+([.,]\d+)?)\s*$"
_BOUND: Final = (
    r"^\s*(<|>|≤|≥|~|≈|ca\.?|ab|bis|über|unter)\s*=?\s*[+-]?\d+([.,]\d+)?\s*$|^\s*\d+([.,]\d+)?\s*[+*†<>?]+\s*$|"
    r"^\s*[€$£]\s*\d+([.,]\d+)*\s*$|^\s*\d+([.,]\d+)?\s*/\s*\d+([.,]\d+)?\s*$|"
    # Other signs for minus than a program's, numbers in brackets as in accounts, and full-width digits.
    r"^\s*[\x{2212}\x{2010}-\x{2015}\x{FE63}-]\s?\d+([.,]\d+)?\s*$|^\s*\(\d+([.,]\d+)?\)\s*$|"
    r"^\s*\d+([.,]\d+)?\s?[\x{2212}\x{2010}-\x{2015}-]\s*$|^\s*[\x{FF10}-\x{FF19}]+\s*$|"
    r"^\s*[+-]?\d+([.,]\d+)?(\s+\S{1,12}|\s*%|\s*[\pL°µμ]{2,6}(/[\pL\d]{1,6})?)\s*$"
)
_MISSING: Final = (
    r"(?i)^\s*(\?+|-+|–+|\.+|\*+|x+|n\.?/?\s?a\.?|nan|null|none|nil|unknown|unk|missing|miss|n\.?\s?d\.?|n\.?\s?b\.?|"
    r"k\.?\s?a\.?|unbekannt|fehlt|fehlend|inconnu|desconocido|not (done|known|available|measured|applicable)|pending|"
    r"tba|tbd|#.*|error|err|inf|-inf)\s*$"
)
_MONTH: Final = r"(?:jan|feb|m[aä]r|mrz|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])\pL*"
_DATE: Final = (
    r"(?i)^\s*(\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2})|\d{4}[./-]\d{1,2}[./-]\d{1,2}|(19|20)\d{2}[/-](0[1-9]|1[0-2])|"
    rf"\d{{1,2}}[. -]*{_MONTH}[., -]*\d{{2,4}}|{_MONTH}[., -]*\d{{1,2}}[., -]+\d{{4}}|"
    rf"{_MONTH}[., -]*(19|20)\d{{2}}|\d{{1,3}}:[0-5]\d(:[0-5]\d)?)([ T,]+\d{{1,2}}:\d{{2}}.*)?\s*$"
)


@dataclass(frozen=True, eq=False)
class Looks:
    """Of each distinct value ``(values,)``, whether it looks like a number, and so on; no value looks like two."""

    plain: NDArray[np.bool_]
    """A number as programs write it."""
    comma: NDArray[np.bool_]
    """A number with a decimal comma, or with marks between thousands."""
    bound: NDArray[np.bool_]
    """A number with a sign such as ``<``, with a unit, or with a second one."""
    missing: NDArray[np.bool_]

    @classmethod
    def of(cls, values: pa.Array) -> "Looks":
        """How these texts look."""
        if not _match(values, r"\d").any():
            # Nothing to tell numbers from; most text columns of a wide table are so.
            nothing = np.zeros(len(values), dtype=bool)
            return cls(nothing, nothing, nothing, nothing)
        # To a regular expression, a blank that does not break is none.
        values = pc.replace_substring_regex(values, r"[\x{A0}\x{2007}\x{2009}\x{202F}]", " ")
        plain = _match(values, _PLAIN)
        comma = _match(values, _COMMA) & ~plain
        missing = _match(values, _MISSING) & ~(plain | comma)
        return cls(plain, comma, _match(values, _BOUND) & ~(plain | comma | missing), missing)

    @property
    def number(self) -> NDArray[np.bool_]:
        """A number in any spelling."""
        return self.plain | self.comma | self.bound


def _match(values: pa.Array, pattern: str) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.match_substring_regex(values, pattern).to_numpy(zero_copy_only=False).astype(bool)
    return found


def are_dates(values: Collection[str]) -> NDArray[np.bool_]:
    """Which of the texts are dates."""
    texts = pa.array([*values], pa.string())
    # Compiling the pattern takes milliseconds, and most text columns of a wide table hold words.
    return _match(texts, _DATE) if _match(texts, r"\d").any() else np.zeros(len(texts), dtype=bool)


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


def twice_named(names: Collection[str]) -> tuple[str, str] | None:
    """Two words that mean the same, where all words are of truth, or of sex; None without such.

    >>> twice_named(["M", "male", "female"]), twice_named(["m", "f"]), twice_named(["yes", "no", "0", "1"])
    (('M', 'male'), None, ('no', '0'))
    >>> twice_named(["N", "F"]) is None
    True
    """
    for meanings in _MEANINGS:
        if len(names) > len(meanings):
            continue
        meant = {name: meanings.get(folded(name)) for name in names if name.strip()}
        # Neither N nor F says no where nothing says yes.
        if {*meant.values()} == {True, False}:
            first: dict[bool | None, str] = {}
            twice = [(one, name) for name in meant if (one := first.setdefault(meant[name], name)) != name]
            return twice[0] if twice else None
    return None
