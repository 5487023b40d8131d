"""Documented commands that need make or Flower's engine, in a fresh clone; ``tests/cli`` runs the others."""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.blocks import PAGES, blocks
from tests.flower.own_flower import cloned, own_flower
from tests.patience import PATIENCE
from tests.readme import numbers_masked, shown

COMMANDS = [
    command for page in PAGES for block in blocks(page) if block.is_for_the_engine for command in block.commands
]

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a newcomer has after cloning, with the virtual environment of these tests."""
    folder = cloned(tmp_path_factory.mktemp("clone") / "fedct-flwr")
    # The environment of these tests, as installed a moment ago: nothing may install another one over it.
    (folder / ".venv").mkdir()
    for part in ("bin", "lib", "pyvenv.cfg"):
        (folder / ".venv" / part).symlink_to(Path(sys.executable).parents[1] / part)
    for stamp in (".simulation", ".dev"):
        (folder / ".venv" / stamp).touch()
    return folder


@pytest.fixture(scope="module")
def newcomer(clone: Path) -> Iterator[dict[str, str]]:
    """The newcomer's environment, with an empty home."""
    home = clone.parent / "home"
    home.mkdir()
    outer_make = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "ARGS")
    with own_flower(clone.parent, HOME=str(home), COLUMNS="80") as variables:
        yield {name: value for name, value in variables.items() if name not in outer_make}


def run(command: str, clone: Path, newcomer: dict[str, str]) -> str:
    done = subprocess.run(
        shlex.split(command), cwd=clone, env=newcomer, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# `make test` is what runs this test. `make run` has a test of its own.
@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in {"make run", "make test"}])
def test_a_command_runs(command: str, clone: Path, newcomer: dict[str, str]) -> None:
    run(command, clone, newcomer)


def test_make_run_prints_what_the_readme_shows(clone: Path, newcomer: dict[str, str]) -> None:
    printed = run("make run", clone, newcomer)
    printed = printed[printed.index("heart-disease:") :]
    assert numbers_masked(shown("<!-- output of make run -->", "text")) == numbers_masked(printed)


def test_the_readme_has_both_make_commands() -> None:
    assert COMMANDS[:2] == ["make run", "make test"]
