"""What all of ``fedct silo`` has in common: help at once, the folder, errors in one sentence."""

import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli.silo import HELPS
from fedct_flwr.types import ConfigError
from tests.cli.silos import Fedct, Kit

HEAVY = ("sklearn", "flwr", "torch", "pandas", "pyarrow", "pydantic")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["silo", "--help"]], ids=" ".join)
def test_help_and_version_wait_for_no_heavy_module(arguments: list[str]) -> None:
    code = (
        "import sys; from fedct_flwr.cli import main\n"
        f"sys.argv = ['fedct', *{arguments!r}]\n"
        "try: main.run()\n"
        f"except SystemExit: print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.endswith("[]\n")


def test_a_health_check_imports_nothing_heavy(kit: Kit) -> None:
    code = (
        "import sys; from fedct_flwr.cli import main\n"
        f"sys.argv = ['fedct', 'silo', 'status', {str(kit.folder)!r}, '--healthy']\n"
        "try: main.run()\n"
        "except SystemExit as end: print(end.code, sys.modules.keys() & {'sklearn', 'flwr', 'pyarrow'})"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "1 set()\n"


OF_FILES = ("init", "predict", "answer", "join", "renew", "notify")
"""Commands whose argument is something else than the silo's folder."""
FOLDER_COMMANDS = [name for name in HELPS if name not in OF_FILES]


@pytest.mark.parametrize("name", FOLDER_COMMANDS)
def test_a_folder_that_is_none_is_one_sentence(
    fedct: Fedct, tmp_path: Path, name: str, wording: SnapshotAssertion
) -> None:
    outcome = fedct("silo", name, tmp_path / "nowhere")
    assert outcome.code == ConfigError.exit_code
    assert outcome.sentence == wording


@pytest.mark.parametrize("name", [name for name in FOLDER_COMMANDS if name not in ("check", "overview")])
def test_a_key_that_is_unknown_is_one_sentence(fedct: Fedct, kit: Kit, name: str) -> None:
    kit.edit("max-rounds", "max-round")
    outcome = fedct("silo", name, "--folder", kit.folder)
    assert outcome.code == ConfigError.exit_code
    assert "did you mean 'max-rounds'?" in outcome.sentence


def test_the_folder_is_here_unless_it_is_said(fedct: Fedct, kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(kit.folder)
    assert fedct("silo", "verify").code == 0
    monkeypatch.chdir("/")
    assert fedct("silo", "verify", kit.folder).code == 0
    assert fedct("silo", "verify", "--folder", kit.folder).code == 0
    assert fedct("silo", "verify", kit.file).code == 0
