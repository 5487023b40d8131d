"""What a run folder says."""

from pathlib import Path

import numpy as np
import pytest

from fedct_flwr.report.summary import read_run
from fedct_flwr.types import RunError
from tests.report.folders import SILOS, finished


def test_a_finished_run(tmp_path: Path):
    run = read_run(finished(tmp_path / "run").path)
    assert (run.study, run.title, run.status) == ("hearts", "FedCT", "completed")
    assert (run.num_public, run.classes, run.course.silos) == (40, ("no", "yes"), SILOS)
    assert len(run.course) == 3
    assert run.course.fixed_point == 3
    assert run.mean_score("pooled", "federated") == pytest.approx(0.7)
    assert np.isnan(run.mean_score("own", "federated"))


@pytest.mark.parametrize("name", ["scores.json", "trust.jsonl", "result.json"])
@pytest.mark.parametrize("text", ["{\n", "[" * 100_000 + "\n"], ids=["cut", "nested without end"])
def test_damaged_files_are_said(tmp_path: Path, name: str, text: str):
    folder = finished(tmp_path / "run")
    (folder.path / name).write_text(text)
    with pytest.raises(RunError, match=name):
        read_run(folder.path)


@pytest.mark.parametrize("name", ["scores.json", "rounds.jsonl"])
def test_numbers_that_no_float_holds_are_damage(tmp_path: Path, name: str):
    path = finished(tmp_path / "run").path / name
    path.write_text(path.read_text().replace("0.6", "1" + "0" * 400))
    with pytest.raises(RunError, match=f"{name} is damaged"):
        read_run(path.parent)
