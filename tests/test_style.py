"""What can be checked of the rules for prose: openings, phrases, length of sentences, and the README's size."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.blocks import PAGES
from tests.prose import sentences
from tests.readme import ROOT

WRITTEN: Final = [*PAGES, ROOT / "SECURITY.md"]
README_BYTES: Final = 7000
LONGEST: Final = 25
RELATIVE: Final = {"Who", "What", "Whoever", "Whatever"}
PHRASES: Final = [
    "is none",
    "so many",
    "what is said of",
    "is told of",
    "beside",
    "as far as",
    "nobody shall",
    "said otherwise",
]
"""Each has a plainer word."""
IN_CODE: Final = {*PHRASES, "nobody", "whoever", "somebody", "anew", "in place of", "is none of", "that is none"} - {
    "is none"
}
"""Of docstrings, comments and messages, where "None if there is none" is plain."""
SOURCES: Final = [ROOT / "fedct_flwr", ROOT / "server_app", ROOT / "client_app"]
WITH_WORDS: Final = {".py", ".proto", ".md", ".html", ".js"}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def found_in(text: str) -> list[str]:
    """What is wrong with a page."""
    told = []
    for sentence in sentences(text):
        if sentence.opening in RELATIVE and not sentence.is_question:
            told.append(f"opens with {sentence.opening}: {sentence.text}")
        if sentence.words > LONGEST:
            told.append(f"{sentence.words} words: {sentence.text}")
        told += [
            f"{phrase!r}: {sentence.text}"
            for phrase in PHRASES
            if re.search(rf"\b{phrase}\b", sentence.text, re.IGNORECASE)
        ]
    return told


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_prose_keeps_the_rules(page: Path) -> None:
    assert found_in(page.read_text("utf-8")) == []


def written_in(path: Path) -> Iterator[tuple[bool, str]]:
    """Comments and strings of a file of code, each with whether no user is shown it; other files as a whole."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        yield False, text
        return
    begins = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield begins or token.type == tokenize.COMMENT, token.string
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def test_docstrings_comments_and_messages_are_plain() -> None:
    stilted = re.compile(rf"\b({'|'.join(IN_CODE)})\b", re.IGNORECASE)
    relative = re.compile(rf"(?:^|(?<=[.!?] ))({'|'.join(RELATIVE)})\b[^?]*$")
    told = []
    for path in (path for folder in SOURCES for path in folder.rglob("*.*") if path.suffix in WITH_WORDS):
        for hidden, string in written_in(path):
            text = " ".join(string.strip('"# ').split())
            told += [f"{name(path)}: {found[0]!r}" for found in stilted.finditer(text)]
            told += [f"{name(path)}: {found[0]!r}" for found in relative.finditer(text) if hidden]
    assert told == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= README_BYTES


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("Who has other terms is refused.", "opens with Who"),
        ("A line.\n\n- Whoever is away votes not.\n", "opens with Whoever"),
        ("| **What** that pays | x |\n", "opens with What"),
        ("It lies beside\nthe file.", "'beside'"),
        ("## What has no parts\n", "opens with What"),
        (" ".join(["word"] * 26) + ".", "26 words"),
    ],
)
def test_each_rule_can_be_broken(text: str, wrong: str) -> None:
    (said,) = found_in(text)
    assert said.startswith(wrong)
