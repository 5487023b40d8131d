"""What all of ``fedct silo`` has in common: help at once, the folder, errors in one sentence."""

import subprocess
import sys

import pytest

from fedct_flwr.cli.silo import COMMANDS
from fedct_flwr.types import ConfigError
from tests.cli.silos import Fedct, Kit


@pytest.mark.parametrize(
    "arguments", [("--version",), ("--help",), ("silo", "--help"), ("silo", "status", "--healthy")]
)
def test_help_and_health_checks_wait_for_no_heavy_module(kit: Kit, arguments: tuple[str, ...]) -> None:
    heavy = {"sklearn", "flwr", "torch", "pandas", "pyarrow", *(() if "status" in arguments else ("pydantic",))}
    code = (
        "import sys; from fedct_flwr.cli import main\n"
        f"sys.argv = ['fedct', *{arguments!r}]\n"
        "try: main.run()\n"
        f"except SystemExit: print({heavy!r} & sys.modules.keys())"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=kit.folder, capture_output=True, text=True, check=True)
    assert ended.stdout.endswith("set()\n")


OF_FILES = ("init", "predict", "answer", "join")
"""Commands whose argument is something else than the silo's folder."""
FOLDER_COMMANDS = [name for name in COMMANDS if name not in OF_FILES]


@pytest.mark.parametrize("name", FOLDER_COMMANDS)
def test_a_folder_or_a_key_that_is_unknown_is_one_sentence(fedct: Fedct, kit: Kit, name: str) -> None:
    outcome = fedct("silo", name, kit.folder / "nowhere")
    assert (outcome.code, "there is no silo.toml in" in outcome.sentence) == (ConfigError.exit_code, True)
    if name != "check":
        kit.edit("max-rounds", "max-round")
        outcome = fedct("silo", name, kit.folder)
        assert outcome.code == ConfigError.exit_code
        assert "did you mean 'max-rounds'?" in outcome.sentence


def test_the_folder_is_here_unless_it_is_said(fedct: Fedct, kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(kit.folder)
    assert fedct("silo", "verify").code == 0
    monkeypatch.chdir("/")
    assert fedct("silo", "verify", kit.folder).code == 0
    assert fedct("silo", "verify", kit.file).code == 0
