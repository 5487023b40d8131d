"""How a command ended, and what it left."""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    """How a command ended; text without colors."""

    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The one line on standard error."""
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1
        assert self.err.startswith("Error: ")
        return self.err.removeprefix("Error: ").rstrip("\n")


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def files_below(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*"))
