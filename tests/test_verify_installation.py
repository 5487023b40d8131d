"""The commands of the page on verification do what it says, at a hospital without a network."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.readme import ROOT, shown
from tests.wheelhouses import load_script, sha256, write_wheel, write_wheelhouse

PAGE = (ROOT / "docs" / "verify_installation.md").read_text("utf-8")
CHECK = shown("<!-- check a wheelhouse -->", "sh", PAGE)
INSTALL = shown("<!-- install without a network -->", "sh", PAGE)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository at a hospital, with lock files and a wheelhouse of a few small packages."""
    wheelhouse = load_script("wheelhouse")
    folder = tmp_path / "build" / "wheelhouse"
    write_wheelhouse(folder, tmp_path / "docker" / "locks")
    shutil.copy(ROOT / "docker" / "wheelhouse.py", tmp_path / "docker")
    monkeypatch.setattr(wheelhouse, "LOCKS", tmp_path / "docker" / "locks")
    assert wheelhouse.record(folder) == []
    return tmp_path


def run(commands: str, here: Path) -> subprocess.CompletedProcess[str]:
    # Without a registry: the address is one that nothing listens at.
    environment = {**os.environ, "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_EXTRA_INDEX_URL": ""}
    bash = ["bash", "-e", "-c", commands]
    return subprocess.run(bash, cwd=here, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_a_wheelhouse_is_checked_by_the_pages_commands(checkout: Path) -> None:
    folder = checkout / "build" / "wheelhouse"
    commands = CHECK.replace("DIGEST", sha256(folder / "SHA256SUMS"))
    done = run(commands, checkout)
    assert (done.returncode, done.stderr) == (0, "")
    for line in commands.splitlines():
        write_wheel(folder, "models", code="EVIL = True")
        assert run(line, checkout).returncode == 1


def test_a_silo_is_installed_by_the_pages_commands_from_what_was_recorded_alone(checkout: Path) -> None:
    done = run(INSTALL, checkout)
    assert done.returncode == 0, done.stderr
    found = run(".venv/bin/python -c 'import models, trees, fedct_flwr'", checkout)
    assert found.returncode == 0, found.stderr
    write_wheel(checkout / "build" / "wheelhouse", "models", code="EVIL = True")
    changed = run(INSTALL.replace(".venv", "other"), checkout)
    assert changed.returncode != 0
    assert "DO NOT MATCH THE HASHES" in changed.stderr
