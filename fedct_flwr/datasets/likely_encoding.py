"""The encoding that text in no UTF-8 is most likely in, by how its letters look in each."""

import unicodedata
from typing import Final, NamedTuple


class Guess(NamedTuple):
    """An encoding by Python's name, and the programs that write it."""

    encoding: str
    written_by: str


GUESSES: Final = (
    Guess("cp1252", "Windows writes in Western Europe"),
    Guess("cp850", "DOS programs write in Western Europe"),
    Guess("mac_roman", "old Macs write in Western Europe"),
)
_WITHIN_WORDS: Final = frozenset("'\u2019-\xb7")


def likely_encoding(text: bytes) -> Guess:
    """The guess in which the fewest signs look wrong: the first of those that are equally good."""
    return min(GUESSES, key=lambda guess: _wrong_signs(text, guess.encoding))


def _wrong_signs(text: bytes, encoding: str) -> int:
    """Signs beyond ASCII that no word has where they stand: within a word, a capital letter or no letter."""
    decoded = text.decode(encoding, errors="replace")
    return sum(
        1
        for before, sign, after in zip(" " + decoded, decoded, decoded[1:] + " ", strict=False)
        if not sign.isascii() and _is_wrong(before, sign, after)
    )


def _is_wrong(before: str, sign: str, after: str) -> bool:
    if sign == "\ufffd" or unicodedata.category(sign) == "Cc":
        return True
    if not sign.isalpha():
        return before.isalpha() and after.isalpha() and sign not in _WITHIN_WORDS
    return sign.isupper() and (before.islower() or (before.isalpha() and after.islower()))
