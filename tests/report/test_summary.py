"""What a run folder says."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.consensus.counting import Trust
from fedct_flwr.privacy.budget import PrivacyUnit
from fedct_flwr.privacy.spending import NoiseOnVotes, Spending
from fedct_flwr.report.page import content, fragment
from fedct_flwr.report.summary import RunReader, labels, read_runs
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import RunError
from tests.report.folders import SILOS, add_round, add_scores, begin, finished, safetensors


def changed(folder: RunFolder, name: str, **facts: Any) -> None:
    content = json.loads((folder.path / name).read_text())
    (folder.path / name).write_text(json.dumps(content | facts))


def test_a_finished_run(tmp_path: Path):
    (run,) = read_runs([finished(tmp_path / "run").path])
    assert (run.label, run.study, run.title, run.status) == ("run", "hearts", "FedCT", "completed")
    assert (run.num_public, run.classes, run.course.silos) == (40, ("no", "yes"), SILOS)
    assert len(run.course) == 3
    assert run.course.fixed_point == 3
    assert run.mean_score("pooled", "federated") == pytest.approx(0.7)
    assert np.isnan(run.mean_score("own", "federated"))


def test_a_run_that_goes_on_is_read_again(tmp_path: Path):
    folder = begin(tmp_path / "run")
    reader = RunReader(folder.path)
    assert (reader.read().status, len(reader.read().course)) == ("unfinished", 0)
    add_round(folder, 1)
    assert len(reader.read().course) == 1
    folder.finish("failed", reason="silos were lost")
    assert (reader.read().status, reader.read().reason) == ("failed", "silos were lost")


def test_means_are_over_silos_that_have_all_scores(tmp_path: Path):
    folder = finished(tmp_path / "run")
    rows = json.loads((folder.path / "scores.json").read_text())
    rows[0]["pooled"] = {"local": 0.1, "federated": None, "centralized": 0.1}
    (folder.path / "scores.json").write_text(json.dumps(rows))
    assert read_runs([folder.path])[0].mean_score("pooled", "local") == pytest.approx(0.6)


def test_a_folder_without_a_run_is_said(tmp_path: Path, wording: SnapshotAssertion):
    with pytest.raises(RunError) as caught:
        RunReader(tmp_path)
    assert str(caught.value) == wording


def test_a_run_of_a_newer_version_is_refused(tmp_path: Path):
    folder = finished(tmp_path / "run")
    changed(folder, "config.json", versions={"fedct-flwr": "99.0.0"})
    with pytest.raises(RunError, match=r"of fedct-flwr 99\.0\.0 and this is .*: update fedct-flwr"):
        read_runs([folder.path])


@pytest.mark.parametrize("name", ["scores.json", "trust.jsonl", "result.json"])
@pytest.mark.parametrize("text", ["{\n", "[" * 100_000 + "\n"], ids=["cut", "nested without end"])
def test_damaged_files_are_said(tmp_path: Path, name: str, text: str):
    folder = finished(tmp_path / "run")
    (folder.path / name).write_text(text)
    with pytest.raises(RunError, match=name):
        read_runs([folder.path])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number", ["1e400", "NaN", "null"])
def test_numbers_without_end_are_not_known(tmp_path: Path, number: str):
    folder = finished(tmp_path / "run", algorithm="fedkt")
    for name in ("scores.json", "rounds.jsonl"):
        path = folder.path / name
        path.write_text(re.sub(r"\b0\.6\d*", number, path.read_text()))
    changed(folder, "result.json", global_model={"scores": {"student": {"balanced_accuracy": float("nan")}}})
    (run,) = read_runs([folder.path])
    assert (run.mean_score("pooled", "federated"), run.global_scores) == (pytest.approx(0.7), {})
    assert "nan" not in fragment(content([run]))


@pytest.mark.parametrize("name", ["scores.json", "rounds.jsonl"])
def test_numbers_that_no_float_holds_are_damage(tmp_path: Path, name: str):
    path = finished(tmp_path / "run").path / name
    path.write_text(path.read_text().replace("0.6", "1" + "0" * 400))
    with pytest.raises(RunError, match=f"{name} is damaged"):
        read_runs([path.parent])


@pytest.mark.parametrize("algorithm", [[], {"a": 1}, None, 3])
def test_an_algorithm_that_is_no_name_is_shown_as_it_is(tmp_path: Path, algorithm: Any):
    folder = finished(tmp_path / "run")
    changed(folder, "config.json", settings={"study": "s", "algorithm": algorithm})
    assert f"s: {algorithm}" in content(read_runs([folder.path])).glance.title


@pytest.mark.parametrize("matrix", ["[[1.0]]", "[[1.0, 0.0], [0.0, Infinity]]", "3", "null"])
def test_trust_that_is_no_matrix_is_damage(tmp_path: Path, matrix: str, wording: SnapshotAssertion):
    folder = finished(tmp_path / "run")
    (folder.path / "trust.jsonl").write_text(f'{{"round": 1, "silos": ["oslo", "rome"], "matrix": {matrix}}}\n')
    with pytest.raises(RunError) as caught:
        read_runs([folder.path])
    assert str(caught.value) == wording


def test_trust_is_read_as_it_grows(tmp_path: Path):
    folder = begin(tmp_path / "run")
    reader = RunReader(folder.path)
    assert reader.read().trust is None
    for number in (1, 2):
        folder.append_trust(number, Trust(["oslo"], np.ones((1, 1))))
        for _ in range(2):
            trust = reader.read().trust
            assert trust is not None
            assert trust.round == number
    (folder.path / "trust.jsonl").unlink()
    assert reader.read().trust is None


def test_the_last_trust_matrix_counts(tmp_path: Path):
    folder = finished(tmp_path / "run")
    lines = [{"round": n, "silos": ["oslo", "rome"], "matrix": [[1 - n / 10, n / 10], [0.5, 0.5]]} for n in (1, 2)]
    (folder.path / "trust.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"cut')
    found = read_runs([folder.path])[0].trust
    assert found is not None
    assert (found.round, found.silos) == (2, ("oslo", "rome"))
    np.testing.assert_allclose(found.matrix, [[0.8, 0.2], [0.5, 0.5]])


def test_a_networks_weights_are_what_its_file_holds_of_them(tmp_path: Path):
    folder = finished(tmp_path / "run")
    for silo in SILOS:
        safetensors(folder.silo_model(silo, ".safetensors"), {"network.a": 400, "network.b": 24, "optimizer": 800})
    assert read_runs([folder.path])[0].network_bytes == 424 + 2 * 128


@pytest.mark.parametrize("size", [401, 0])
def test_other_networks_have_no_weight_in_common(tmp_path: Path, size: int):
    folder = finished(tmp_path / "run")
    safetensors(folder.silo_model("oslo", ".safetensors"), {"network.a": 400})
    safetensors(folder.silo_model("rome", ".safetensors"), {"network.a": size})
    assert read_runs([folder.path])[0].network_bytes is None


def test_the_cost_of_the_coordinators_noise_is_in_the_result(tmp_path: Path, wording: SnapshotAssertion):
    folder = finished(tmp_path / "run")
    noise = NoiseOnVotes("laplace", 100, 25.0)
    cost = Spending(whom="all silos", unit=PrivacyUnit.SILO, epsilon=2.5, delta=1e-5, accountant="pld", noise=noise)
    changed(folder, "result.json", privacy=cost.to_result())
    spending = read_runs([folder.path])[0].spending
    assert spending is not None
    assert spending.rows == (cost,)
    assert spending.note == wording


def test_scores_of_global_models(tmp_path: Path):
    folder = finished(tmp_path / "run")
    changed(folder, "result.json", global_model={"scores": {"student": {"balanced_accuracy": 0.75}}})
    assert read_runs([folder.path])[0].global_scores == {"student": 0.75}


def test_labels_tell_runs_apart():
    paths = [Path("/a/x/run"), Path("/a/y/run"), Path("/a/other")]
    assert labels(paths[:1]) == ["run"]
    assert labels(paths) == ["x/run", "y/run", "a/other"]
    assert labels([paths[0], paths[0]]) == ["//a/x/run (1)", "//a/x/run (2)"]


def test_silos_that_the_config_does_not_name_come_last(tmp_path: Path):
    folder = begin(tmp_path / "run", SILOS[:1])
    add_round(folder, 1, ("zagreb", "oslo", "athens"))
    add_scores(folder)
    assert read_runs([folder.path])[0].course.silos == ("oslo", "athens", "zagreb")


def test_a_cost_that_is_none_is_said_and_no_error(tmp_path: Path, wording: SnapshotAssertion):
    folder = finished(tmp_path / "run", algorithm="dp-pate")
    changed(folder, "result.json", privacy={"epsilon": None, "delta": 1e-5})
    spent = read_runs([folder.path])[0].spending
    assert spent
    assert spent.rows == ()
    assert spent.note == wording


def test_a_log_that_is_nested_without_end_is_damaged(tmp_path: Path):
    folder = finished(tmp_path / "run")
    (folder.path / "rounds.jsonl").write_text("[" * 100_000 + "\n")
    with pytest.raises(RunError, match=r"rounds\.jsonl is damaged"):
        read_runs([folder.path])
