"""The documents of ``--json``, as docs/reference/json.md has them."""

import re
from typing import Any

from tests.readme import ROOT


def _documented() -> dict[str, dict[str, str]]:
    """By document, each key and its type."""
    text = (ROOT / "docs" / "reference" / "json.md").read_text("utf-8")
    sections = re.findall(r"^### (\w+)$(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    return {
        name: dict(re.findall(r"`(\w+)`(?:: ([^;]+))?", " ".join(section.partition("Keys: ")[2].split())))
        for name, section in sections
    }


DOCUMENTED = _documented()


def check(document: Any, name: str) -> None:
    """Whether a document has the keys that the page says, and no others."""
    assert list(document) == list(DOCUMENTED[name])
    for key, type_ in DOCUMENTED[name].items():
        inner = type_.removeprefix("list[").rstrip("]")
        if inner in DOCUMENTED:
            for item in document[key] if type_.startswith("list[") else [document[key]]:
                check(item, inner)
