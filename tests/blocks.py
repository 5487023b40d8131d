"""The fenced blocks of README, docs and examples, and what the comment right before each says of it.

A block in ``console`` is run, line by line, and so is one in ``python``. What else a block may be is said before it:

    <!-- output -->               what the block before it prints; ``...`` stands for lines that are left out, and
                                  numbers may differ, but not where it says ``output to the letter``
    <!-- changes FILE -->         what somebody changes in a settings file
    <!-- with make or Flower's engine -->  commands that tests/engine runs in a fresh clone
    <!-- not run: REASON -->      one of ``REASONS``
    <!-- anything else -->        what a test looks for that takes the block from the page: so commands in ``sh``
                                  are run, which need real processes, containers or a browser

A ``toml`` block is read as settings. A block with a title is a file, which the commands after it find.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.readme import ROOT

PAGES: Final = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
]

REASONS: Final = {
    "a picture",
    "a formula",
    "the file as it is in the repository",
    "what each hospital writes into its own file",
    "it needs a wheelhouse",
}
"""Why a block is not run."""

_FENCE: Final = re.compile(
    r"(?:^<!-- (?P<said>[^\n]+?) -->\n+)?^(?P<fence>`{3,})(?P<kind>[a-z]*)(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    page: Path
    kind: str
    title: str
    said: str
    text: str

    @property
    def place(self) -> str:
        """Where it is, for who has to look."""
        return f"{self.page.relative_to(ROOT)}: {self.text.splitlines()[0] if self.text else 'an empty block'}"

    @property
    def is_output(self) -> bool:
        return self.said == "output" or self.to_the_letter

    @property
    def to_the_letter(self) -> bool:
        return self.said == "output to the letter"

    @property
    def is_for_the_engine(self) -> bool:
        """Whether ``tests/engine`` runs its commands."""
        return self.said == "with make or Flower's engine"

    @property
    def changes(self) -> str | None:
        """The settings file that it changes."""
        return self._after("changes ")

    @property
    def reason(self) -> str | None:
        """Why it is not run."""
        return self._after("not run: ")

    def _after(self, word: str) -> str | None:
        return self.said.removeprefix(word) if self.said.startswith(word) else None

    @property
    def commands(self) -> list[str]:
        """Its command lines, each as one line and without comments."""
        lines = re.sub(r" *\\\n *", " ", self.text).splitlines()
        return [command for line in lines if (command := re.sub(r"(^|\s+)#.*", "", line).strip())]


def blocks(page: Path) -> list[Block]:
    """In the order of the page."""
    return [
        Block(page, found["kind"], found["title"] or "", found["said"] or "", found["text"])
        for found in _FENCE.finditer(page.read_text("utf-8"))
    ]
