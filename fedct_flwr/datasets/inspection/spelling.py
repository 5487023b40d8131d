"""How the cells of a text column look: numbers, dates, codes, words for a missing value."""

import re
import unicodedata
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedct_flwr.text.normal_form import normalized

_DIGIT: Final = r"\d"
_PLAIN: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_COMMA: Final = r"^\s*[+-]?(\d*,\d+([eE][+-]?\d+)?|\d{1,3}([., '\x{2019}]\d{3})+([.,]\d+)?)\s*$"
_BOUND: Final = (
    r"^\s*(<|>|≤|≥|~|≈|ca\.?|ab|bis|über|unter)\s*=?\s*[+-]?\d+([.,]\d+)?\s*$|^\s*\d+([.,]\d+)?\s*[+*†<>?]+\s*$|"
    r"^\s*[€$£]\s*\d+([.,]\d+)*\s*$|"
    # Other signs for minus than a program's, numbers in brackets as in accounts, and full-width digits.
    r"^\s*[\x{2212}\x{2010}-\x{2015}\x{FE63}-]\s?\d+([.,]\d+)?\s*$|^\s*\(\d+([.,]\d+)?\)\s*$|"
    r"^\s*\d+([.,]\d+)?\s?[\x{2212}\x{2010}-\x{2015}-]\s*$|^\s*[\x{FF10}-\x{FF19}]+\s*$"
)
_UNIT: Final = r"^\s*[+-]?\d+([.,]\d+)?(\s+\S{1,12}|\s*%|\s*[\pL°µμ]{2,6}(/[\pL\d]{1,6})?)\s*$"
_MISSING: Final = (
    r"(?i)^\s*(\?+|-+|–+|\.+|\*+|x+|n\.?/?\s?a\.?|nan|null|none|nil|unknown|unk|missing|miss|n\.?\s?d\.?|n\.?\s?b\.?|"
    r"k\.?\s?a\.?|unbekannt|fehlt|fehlend|inconnu|desconocido|not (done|known|available|measured|applicable)|pending|"
    r"tba|tbd|#.*|error|err|inf|-inf)\s*$"
)
_CODE: Final = r"^\s*([\pL]{1,3}[-.]?\d[\d.\-/\pL]*|\d+[-.]?[\pL]{1,2}\d*)\s*$"
_PAIR: Final = r"^\s*\d+([.,]\d+)?\s*/\s*\d+([.,]\d+)?\s*$"
_FREQUENT: Final = 0.05
_RARER: Final = 10
"""Times rarer than the other word, from which a word counts as a misspelling of it."""
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
    """A number with a sign such as ``<``, or with a unit."""
    missing: NDArray[np.bool_]
    code: NDArray[np.bool_]
    """Letters and digits, as codes of diseases."""

    @classmethod
    def of(cls, values: pa.Array) -> "Looks":
        """How these texts look."""
        if not matching(values, _DIGIT).any():
            # Nothing to tell numbers from; most text columns of a wide table are so.
            nothing = np.zeros(len(values), dtype=bool)
            return cls(nothing, nothing, nothing, nothing, nothing)
        values = _with_plain_blanks(values)
        plain = matching(values, _PLAIN)
        comma = matching(values, _COMMA) & ~plain
        taken = plain | comma
        missing = matching(values, _MISSING) & ~taken
        bound = (matching(values, _BOUND) | matching(values, _UNIT)) & ~taken & ~missing
        code = matching(values, _CODE) & ~(taken | missing | bound)
        return cls(plain, comma, bound, missing, code)

    @property
    def number(self) -> NDArray[np.bool_]:
        """A number in any spelling."""
        return self.plain | self.comma | self.bound


def matching(values: pa.Array, pattern: str) -> NDArray[np.bool_]:
    """Which of the texts match."""
    found: NDArray[np.bool_] = pc.match_substring_regex(values, pattern).to_numpy(zero_copy_only=False).astype(bool)
    return found


def are_dates(values: pa.Array) -> NDArray[np.bool_]:
    """Which of the texts are dates."""
    # Compiling the pattern takes milliseconds, and most text columns of a wide table hold words.
    return matching(values, _DATE) if matching(values, _DIGIT).any() else np.zeros(len(values), dtype=bool)


def are_pairs(values: pa.Array) -> NDArray[np.bool_]:
    """Which of the texts are two numbers."""
    return matching(values, _PAIR)


def _with_plain_blanks(values: pa.Array) -> pa.Array:
    """The texts, where a blank that does not break, which is none to a regular expression, is a plain one."""
    return pc.replace_substring_regex(values, r"[\x{A0}\x{2007}\x{2009}\x{202F}]", " ")


def folded(text: str) -> str:
    """One spelling for all that differ in case, blanks or form of Unicode alone.

    >>> folded("  Yes"), folded("STRASSE") == folded("Straße")
    ('yes', True)
    """
    plain = "".join(char for char in normalized("NFKC", text) if unicodedata.category(char) != "Cf")
    return re.sub(r"\s+", " ", normalized("NFKC", plain.casefold())).strip()


def without_accents(text: str) -> str:
    """One spelling for all that differ in accents or umlauts as well, or that were read in a wrong encoding once.

    >>> without_accents("Décédé"), without_accents("Uebelkeit"), without_accents("Ãœbelkeit")
    ('decede', 'ubelkeit', 'ubelkeit')
    """
    with suppress(UnicodeError):
        text = text.encode("cp1252").decode("utf-8")
    bare = "".join(char for char in normalized("NFKD", folded(text)) if not unicodedata.combining(char))
    return re.sub("([aou])e", r"\1", bare)


def misspelled(names: Mapping[str, int], letters: int = 2) -> tuple[str, str] | None:
    """A rare word and the frequent one from which one letter, or two exchanged ones, tell it; None without one.

    Words with a digit are codes, whose digits tell them apart. Shorter ones than ``letters`` are left aside.

    >>> misspelled({"yes": 200, "no": 200, "yse": 3}), misspelled({"yes": 200, "no": 200, "maybe": 3})
    (('yse', 'yes'), None)
    >>> misspelled({"typical": 200, "atypical": 3}) is None
    True
    """
    total = sum(names.values())
    words = {name: folded(name) for name in names if not re.search(r"\d", name)}
    frequent = [name for name in words if names[name] >= _FREQUENT * total]
    for rare, word in words.items():
        for name in frequent:
            long_enough = min(len(word), len(words[name])) >= letters
            if long_enough and names[rare] * _RARER <= names[name] and _one_apart(word, words[name]):
                return rare, name
    return None


def _one_apart(one: str, other: str) -> bool:
    """Whether a letter is lost, added or wrong, or two next to each other are exchanged; a prefix is another word."""
    short, long = sorted((one, other), key=len)
    start = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if start == 0 or not (short[start:] + long[start:]).replace(" ", "").isalpha():
        return False
    if len(short) < len(long):
        return short[start:] == long[start + 1 :]
    exchanged = short[start : start + 2] == long[start : start + 2][::-1] and short[start + 2 :] == long[start + 2 :]
    return one != other and (exchanged or short[start + 1 :] == long[start + 1 :])


def without_signs(text: str) -> str:
    """One spelling for all that differ in signs between words as well, or in a full stop at the end.

    >>> without_signs("Stage-1"), without_signs("stage_1."), without_signs("ER+/PR-")
    ('stage 1', 'stage 1', 'er+/pr-')
    """
    return re.sub(r"(?<=\w)[\s_.\-–]+(?=\w)", " ", folded(text).rstrip("."))


_TRUTH: Final[dict[str, bool]] = {
    **dict.fromkeys(
        ("1", "yes", "y", "true", "t", "ja", "j", "wahr", "oui", "si", "sí", "sì", "pos", "positive", "positiv", "+"),
        True,
    ),
    **dict.fromkeys(("0", "no", "n", "false", "f", "nein", "falsch", "non", "neg", "negative", "negativ", "-"), False),
}


def truth(name: str) -> bool | None:
    """What a word says of truth; None for another word.

    >>> truth("Ja"), truth("0"), truth("maybe")
    (True, False, None)
    """
    return _TRUTH.get(folded(name))


_SEXES: Final[dict[str, str]] = {
    **dict.fromkeys(("m", "male", "man", "boy", "männlich", "mann", "masculin", "homme", "masculino", "hombre"), "m"),
    **dict.fromkeys(
        ("f", "w", "female", "woman", "girl", "weiblich", "frau", "féminin", "femme", "femenino", "mujer"), "f"
    ),
}


_MEANINGS: Final = 2
"""Yes and no, male and female."""


def twice_named(names: Collection[str]) -> tuple[str, str] | None:
    """Two words that mean the same, where all words are of truth, or of sex; None without such.

    >>> twice_named(["M", "male", "female"]), twice_named(["m", "f"]), twice_named(["yes", "no", "0", "1"])
    (('M', 'male'), None, ('no', '0'))
    >>> twice_named(["N", "F"]) is None
    True
    """
    for meanings in (_TRUTH, _SEXES):
        seen: dict[object, str] = {}
        meant = [(name, meanings.get(folded(name))) for name in names if name.strip()]
        # Neither N nor F says no where nothing says yes.
        if len({meaning for _, meaning in meant}) != _MEANINGS or any(meaning is None for _, meaning in meant):
            continue
        for name, meaning in meant:
            if (other := seen.setdefault(meaning, name)) != name:
                return other, name
    return None
