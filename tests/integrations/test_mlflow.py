"""Runs in MLflow, written by the apps and read back with its own reader."""

import json
import logging
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mlflow.entities import Run
from mlflow.tracking import MlflowClient
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.integrations import mlflow as tracking
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import ConfigError
from tests.federation.conftest import Federation, federation

__all__ = ["federation"]

TWO_ROUNDS: dict[str, Any] = {"num_server_rounds": 2, "stop_at_fixed_point": False, "report_scores": True}
# MLflow's, at its own code.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


class Kept(NamedTuple):
    """A run with the default store, which later tests use as well: a new database takes seconds."""

    folder: RunFolder
    uri: str


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(tracking.STORE, raising=False)
        federation = Federation(tmp_path_factory.mktemp("kept"))
        folder = federation.run(tracking="mlflow", student="decision-tree", **TWO_ROUNDS)
    return Kept(folder, f"sqlite:///{folder.path / 'mlflow.db'}")


def run_of(folder: RunFolder, client: MlflowClient) -> Run:
    return client.get_run(json.loads((folder.path / tracking.RUN_FILE).read_text())["run_id"])


def points(client: MlflowClient, run: Run, metric: str) -> list[tuple[int, float]]:
    return [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, metric)]


def test_mlflow_has_what_the_round_log_has(kept: Kept) -> None:
    client, rounds = MlflowClient(tracking_uri=kept.uri), kept.folder.rounds()
    run = run_of(kept.folder, client)
    for name in ("agreement", "changed", "bytes_sent", "accuracy_spread"):
        assert points(client, run, name) == [(entry["round"], entry[name]) for entry in rounds], name
    of_zurich = [(entry["round"], entry["silos"]["zurich"]["scores"]["own_accuracy"]) for entry in rounds]
    assert points(client, run, "silos/zurich/scores/own_accuracy") == of_zurich


def test_mlflow_has_the_runs_files_and_no_silos_model(kept: Kept) -> None:
    client = MlflowClient(tracking_uri=kept.uri)
    run_id = run_of(kept.folder, client).info.run_id
    assert {item.path for item in client.list_artifacts(run_id)} == {
        "config.json", "labels.csv", "models", "result.json", "rounds.jsonl",
    }  # fmt: skip
    models = {item.path for item in client.list_artifacts(run_id, "models")}
    assert models == {"models/global.skops", "models/global.json"}
    copy = Path(client.download_artifacts(run_id, "result.json"))
    assert json.loads(copy.read_text()) == kept.folder.read_json("result.json")


def test_a_tracker_that_fails_in_the_middle_ends_nothing_and_says_so_once(
    federation: Federation,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    wording: SnapshotAssertion,
) -> None:
    def fails(*_: Any) -> None:
        raise OSError("the disk is full\nand more")

    monkeypatch.setattr(tracking.MLflow, "log", fails)
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    folder = federation.run(tracking="mlflow", **TWO_ROUNDS)
    assert folder.read_json("result.json")["status"] == "completed"
    (warning,) = [line.getMessage() for line in caplog.records if "goes on without it" in line.getMessage()]
    assert warning == wording


def test_a_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"-e '\.\[mlflow\]'"):
        tracking.check_mlflow()
