"""README commands that need make or Flower's engine, in a fresh clone; ``tests/cli/test_docs.py`` runs the others."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.readme import README, ROOT, numbers_masked, shown

COMMANDS = [line for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory, _local_superlink: None) -> Iterator[Path]:
    """What a newcomer has after cloning, with the virtual environment of these tests."""
    folder = tmp_path_factory.mktemp("clone") / "fedct-flwr"
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    # The environment of these tests, as installed a moment ago: nothing may install another one over it.
    (folder / ".venv").mkdir()
    for part in ("bin", "lib", "pyvenv.cfg"):
        (folder / ".venv" / part).symlink_to(Path(sys.executable).parents[1] / part)
    for stamp in (".simulation", ".dev"):
        (folder / ".venv" / stamp).touch()
    yield folder
    for process in psutil.process_iter():
        try:
            if process.environ().get("FLWR_HOME") == str(folder.parent / "flwr"):
                process.kill()
        except psutil.Error:
            continue


def run(command: str, clone: Path) -> str:
    home = clone.parent / "home"
    home.mkdir(exist_ok=True)
    outer_make = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "ARGS")
    env = {
        **{name: value for name, value in os.environ.items() if name not in outer_make},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "80",
        "HOME": str(home),
        "FLWR_HOME": str(clone.parent / "flwr"),
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }
    done = subprocess.run(shlex.split(command), cwd=clone, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# `make test` is what runs this test. `make run` has `fedct simulate` on the engine.
@pytest.mark.parametrize(
    "command", [command for command in COMMANDS if "fedct" not in command and command not in {"make run", "make test"}]
)
def test_a_command_runs(command: str, clone: Path) -> None:
    run(command, clone)


def test_make_run_prints_what_the_readme_shows(clone: Path) -> None:
    printed = run("make run", clone)
    printed = printed[printed.index("heart-disease:") :]
    assert numbers_masked(shown("<!-- output of make run -->", "text")) == numbers_masked(printed)


def test_the_readme_has_both_make_commands() -> None:
    assert COMMANDS[:2] == ["make run", "make test"]


def test_tables_of_results_are_those_committed() -> None:
    for path, table in re.findall(r"<!-- (benchmarks/results/\S+) -->\n(.*?)\n\n", README, re.DOTALL):
        assert table in (ROOT / path).read_text("utf-8")
