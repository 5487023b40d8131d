"""How the cells of a text column look: numbers, dates, words for a missing value."""

from collections.abc import Collection
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_PLAIN: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_COMMA: Final = r"^\s*[+-]?(\d*,\d+([eE][+-]?\d+)?|\d{1,3}([., '\x{2019}]\d{3})+([.,]\d+)?)\s*$"
_DIGITS: Final = r"[\d\x{FF10}-\x{FF19}]+([.,]\d+)?"
# With signs around, as bounds, currencies, other minus signs and accounts have; with a unit, or a second number.
_BOUND: Final = (
    rf"^\s*([^\d\pL\s.,]{{0,2}}|ca\.?|ab|bis|über|unter)\s*=?\s*{_DIGITS}(\s*/\s*{_DIGITS}|([.,]\d+)+)?"
    r"\s*([^\pL\d\s.,]{1,3}|\s\S{1,12}|[\pL°µμ]{2,6}(/[\pL\d]{1,6})?)?\s*$"
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


class Looks(NamedTuple):
    """Of each distinct value ``(values,)``, whether it looks like a number, and so on; no value looks like two.

    ``plain``: a number as programs write it; ``comma``: with a decimal comma or with marks between thousands;
    ``bound``: with a sign such as ``<``, a unit or a second number; ``missing``: a word for a missing value.
    """

    plain: NDArray[np.bool_]
    comma: NDArray[np.bool_]
    bound: NDArray[np.bool_]
    missing: NDArray[np.bool_]

    @property
    def number(self) -> NDArray[np.bool_]:
        """A number in any spelling."""
        return self.plain | self.comma | self.bound


def looks_of(words: Collection[str]) -> Looks:
    """How these texts look."""
    # To a regular expression, a blank that does not break is none.
    values = pc.replace_substring_regex(pa.array([*words], pa.string()), r"[\x{A0}\x{2007}\x{2009}\x{202F}]", " ")
    plain, comma, missing, bound = (_match(values, pattern) for pattern in (_PLAIN, _COMMA, _MISSING, _BOUND))
    comma &= ~plain
    missing &= ~(plain | comma)
    return Looks(plain, comma, bound & ~(plain | comma | missing), missing)


def _match(values: pa.Array, pattern: str) -> NDArray[np.bool_]:
    """Which texts match; none where no text has a digit, as in most columns, as compiling a pattern takes its time."""
    if not pc.any(pc.match_substring_regex(values, r"\d")).as_py():
        return np.zeros(len(values), dtype=bool)
    found: NDArray[np.bool_] = pc.match_substring_regex(values, pattern).to_numpy(zero_copy_only=False).astype(bool)
    return found


def are_dates(values: Collection[str]) -> NDArray[np.bool_]:
    """Which of the texts are dates."""
    return _match(pa.array([*values], pa.string()), _DATE)
