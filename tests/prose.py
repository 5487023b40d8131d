"""The sentences of a Markdown page: without code, comments and addresses."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_FENCED: Final = re.compile(r"^(?P<fence>`{3,}).*?^(?P=fence)$", re.MULTILINE | re.DOTALL)
_NOT_PROSE: Final = [
    (re.compile(r"<!--.*?-->", re.DOTALL), " "),
    (re.compile(r"<[^>\n]+>"), " "),
    (re.compile(r"!\[([^\]]*)\]\([^)]*\)"), r"\1."),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"\*\*|__"), ""),
    (re.compile(r"https?://\S+"), "address"),
    # Its parts are no words of the sentence.
    (re.compile(r"`[^`]*`"), "`code`"),
]
_RULE: Final = re.compile(r"^[\s|:-]+$")
_ITEM: Final = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
_OPTIONS: Final = re.compile(r"^\s*(?::::|[a-z_]+:(?: |$))")
_HEADING: Final = re.compile(r"^#+\s+")
_END: Final = re.compile(r"(?<=[.!?])[)\"'”]?\s+(?=[\"'“(`]?[A-Z0-9`])")
# A dot after these ends no sentence.
_SHORT: Final = re.compile(r"\b(e\.g|i\.e|et al|vs|cf|[A-Z])\.(?=\s)")


@dataclass(frozen=True)
class Sentence:
    """One sentence, item, cell or heading."""

    text: str
    is_heading: bool = False

    @property
    def words(self) -> int:
        return sum(any(letter.isalnum() for letter in word) for word in self.text.split())

    @property
    def opening(self) -> str:
        found = re.match(r"\W*(\w+)", self.text)
        return found[1] if found else ""

    @property
    def is_question(self) -> bool:
        return self.text.rstrip(" )\"'").endswith("?")


def sentences(markdown: str) -> Iterator[Sentence]:
    """In the order of the page."""
    for passage, is_heading in _passages(_FENCED.sub("\n", markdown)):
        text = _SHORT.sub(r"\1", " ".join(passage.split()))
        # A list of keys is no sentence.
        if not text.startswith("Keys: "):
            yield from (Sentence(part, is_heading) for part in _END.split(text) if re.search(r"\w", part))


def _passages(text: str) -> Iterator[tuple[str, bool]]:
    """Paragraphs, items and cells, and whether they are headings."""
    for pattern, instead in _NOT_PROSE:
        text = pattern.sub(instead, text)
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        is_cells, is_heading = line.lstrip().startswith("|"), bool(_HEADING.match(line))
        if is_cells or is_heading or not line.strip() or _ITEM.match(line) or _OPTIONS.match(line):
            yield " ".join(lines), False
            lines = []
        if _OPTIONS.match(line) or _RULE.match(line):
            continue
        if is_cells:
            yield from ((cell, False) for cell in line.strip().strip("|").split("|"))
        elif is_heading:
            yield _HEADING.sub("", line), True
        else:
            lines.append(_ITEM.sub("", line))
