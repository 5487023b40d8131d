"""The commands of docs/operations.md: stop, tar, start."""

import json
import os
import subprocess
import sys
from pathlib import Path

from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.coordinator.init import prepare
from tests.cli.silos import Fedct, Kit
from tests.hospitals import write_study_folder
from tests.readme import ROOT, shown

PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")


def run(block: str, here: Path) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", shown(block, "sh", PAGE)],
        cwd=here,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    ).stdout


def test_a_coordinator_is_packed_unpacked_and_watched(tmp_path: Path, fedct: Fedct, kit: Kit) -> None:
    study = write_study_folder(tmp_path / "study")
    folder, _ = prepare(tmp_path / "coordinator", ["coordinator.example"], study=study)
    (folder.state / "state.db").write_bytes(b"runs")
    run("<!-- backup of a coordinator -->", tmp_path)
    run("<!-- restore of a coordinator -->", tmp_path)
    there = CoordinatorFolder.open(tmp_path / "elsewhere" / "coordinator")
    for name in ("certificates/ca.key", "secret", "state/state.db"):
        assert (there.path / name).read_bytes() == (folder.path / name).read_bytes()
    run("<!-- a fresh database -->", tmp_path)
    assert not (folder.state / "state.db").exists()
    kit.folder.rename(tmp_path / "silo")
    silo, end = json.JSONDecoder().raw_decode(printed := run("<!-- monitoring -->", tmp_path))
    assert silo["agent"]["healthy"] is False
    assert json.loads(printed[end:])["silos"] == []
