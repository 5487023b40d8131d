"""What the shell is told when somebody presses the tab key."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedct_flwr.cli import complete

FEDCT = Path(sys.executable).parent / "fedct"


def test_the_catalogs_are_proposed() -> None:
    assert complete.data_sets("he") == ["heart-disease"]
    assert "files" not in complete.data_sets("")
    assert complete.algorithms("fedct-q") == ["fedct-qualified"]
    assert complete.learners("svm,random-f") == ["svm,random-forest"]
    assert complete.keys("query") == ["query-size="]
    assert complete.keys("resume") == complete.keys("run-d") == []


@pytest.mark.parametrize(
    ("typed", "proposed"),
    [
        ("fedct sim", "simulate"),
        ("fedct silo ap", "approve"),
        ("fedct simulate --algorithm fedct-q", "fedct-qualified"),
    ],
)
def test_the_shell_is_told(typed: str, proposed: str) -> None:
    variables = {"_FEDCT_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    ended = subprocess.run([FEDCT], env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert ended.stdout.split() == [proposed]


def test_a_shell_can_be_taught() -> None:
    command = [str(FEDCT), "--show-completion", "zsh"]
    ended = subprocess.run(command, env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
                           capture_output=True, text=True, check=True)  # fmt: skip
    assert "_FEDCT_COMPLETE=complete_zsh" in ended.stdout
