"""What a run folder says."""

from pathlib import Path

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.report.summary import RunReader, read_runs
from fedct_flwr.types import RunError
from tests.report.folders import SILOS, finished


def test_a_finished_run(tmp_path: Path):
    (run,) = read_runs([finished(tmp_path / "run").path])
    assert (run.label, run.study, run.title, run.status) == ("run", "hearts", "FedCT", "completed")
    assert (run.num_public, run.classes, run.course.silos) == (40, ("no", "yes"), SILOS)
    assert len(run.course) == 3
    assert run.course.fixed_point == 3
    assert run.mean_score("pooled", "federated") == pytest.approx(0.7)
    assert np.isnan(run.mean_score("own", "federated"))


def test_a_folder_without_a_run_is_said(tmp_path: Path, wording: SnapshotAssertion):
    with pytest.raises(RunError) as caught:
        RunReader(tmp_path)
    assert str(caught.value) == wording


@pytest.mark.parametrize("name", ["scores.json", "trust.jsonl", "result.json"])
@pytest.mark.parametrize("text", ["{\n", "[" * 100_000 + "\n"], ids=["cut", "nested without end"])
def test_damaged_files_are_said(tmp_path: Path, name: str, text: str):
    folder = finished(tmp_path / "run")
    (folder.path / name).write_text(text)
    with pytest.raises(RunError, match=name):
        read_runs([folder.path])


@pytest.mark.parametrize("name", ["scores.json", "rounds.jsonl"])
def test_numbers_that_no_float_holds_are_damage(tmp_path: Path, name: str):
    path = finished(tmp_path / "run").path / name
    path.write_text(path.read_text().replace("0.6", "1" + "0" * 400))
    with pytest.raises(RunError, match=f"{name} is damaged"):
        read_runs([path.parent])


@pytest.mark.parametrize("matrix", ["[[1.0]]", "[[1.0, 0.0], [0.0, Infinity]]", "3", "null"])
def test_trust_that_is_no_matrix_is_damage(tmp_path: Path, matrix: str, wording: SnapshotAssertion):
    folder = finished(tmp_path / "run")
    (folder.path / "trust.jsonl").write_text(f'{{"round": 1, "silos": ["oslo", "rome"], "matrix": {matrix}}}\n')
    with pytest.raises(RunError) as caught:
        read_runs([folder.path])
    assert str(caught.value) == wording


def test_a_log_that_is_nested_without_end_is_damaged(tmp_path: Path):
    folder = finished(tmp_path / "run")
    (folder.path / "rounds.jsonl").write_text("[" * 100_000 + "\n")
    with pytest.raises(RunError, match=r"rounds\.jsonl is damaged"):
        read_runs([folder.path])
