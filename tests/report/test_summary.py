"""What a run folder says."""

from pathlib import Path

import numpy as np
import pytest

from fedct_flwr.report.summary import Course, read_course, read_run
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import RunError
from tests.report.folders import CLASSES, SILOS, add_round, begin, finished


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


# --- the round log as columns


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return begin(tmp_path / "run")


def read(folder: RunFolder) -> Course:
    return read_course(folder, SILOS, CLASSES)


def test_columns_have_a_row_for_each_round_and_a_column_for_each_silo(folder: RunFolder):
    add_round(folder, 1)
    add_round(folder, 2, SILOS[:2], absent={"cairo": "no reply"})
    course = read(folder)
    assert course.number.tolist() == [1, 2]
    np.testing.assert_array_equal(course.silo["bytes_sent"], [[100, 101, 102], [100, 101, np.nan]])
    np.testing.assert_allclose(course.run["agreement"], [0.6, 0.7])
    np.testing.assert_array_equal(course.classes, [[10, 30], [10, 30]])
    assert course.absences == ((2, "cairo", "no reply"),)
    assert course.shares_labels


@pytest.mark.parametrize(
    "line",
    [
        "no json\n",
        "[]\n",
        '{"round": "x", "silos": {}}\n',
        '{"round": 1}\n',
        f'{{"round": 1{"0" * 30}, "silos": {{}}}}\n',
        f'{{"round": 1, "agreement": 1{"0" * 400}, "silos": {{}}}}\n',
    ],
)
def test_a_damaged_log_is_said(folder: RunFolder, line: str):
    (folder.path / "rounds.jsonl").write_text(line)
    with pytest.raises(RunError, match=r"rounds\.jsonl is damaged"):
        read(folder)
