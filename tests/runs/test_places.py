"""Where runs go."""

from pathlib import Path

import pytest

from fedct_flwr.runs.places import check_new, dated, default_path
from fedct_flwr.runs.run_folder import RunFolder


def test_a_folder_that_is_not_there_is_new(tmp_path: Path):
    check_new(tmp_path / "run")


def test_runs_go_to_the_home_folder_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path("study", 12) == tmp_path / ".fedct" / "runs" / "study-12"


def test_runs_that_begin_in_the_same_second_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedct_flwr.runs.places.time.strftime", lambda *_: "20260102-030405")
    for name in ("study-20260102-030405", "study-20260102-030405-2", "study-20260102-030405-3"):
        path = dated(tmp_path, "study")
        assert path == tmp_path / name
        RunFolder.create(path, {"seed": 3}, {"num_public": 5}).close()
