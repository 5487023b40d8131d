"""What the README shows, and how it is compared with what is printed."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def shown(before: str, kind: str, page: str = README) -> str:
    """The first block of this kind after a text."""
    found = re.search(rf"{re.escape(before)}.*?^```{kind}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert found, f"no {kind} block after {before}"
    return found[1]


def numbers_masked(text: str) -> list[str]:
    """Lines with each number as N: floating point differs between processors, words do not."""
    text = re.sub(r"run folder: \S+", "run folder: PATH", text)
    return [re.sub(r"[\d.,]+", "N", re.sub(r"\s+", " ", line)).strip() for line in text.splitlines() if line.strip()]
