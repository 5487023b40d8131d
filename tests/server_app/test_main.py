"""The coordinator's ServerApp with real silos, each with files and settings of its own."""

import json
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from client_app.main import app as client_app
from fedct_flwr.coordinator.cotraining import CoTraining
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import ConfigError
from server_app.main import app as server_app
from tests.hospitals import HOSPITALS, STUDY, write_study_folder
from tests.sentences import sentence

pytestmark = pytest.mark.usefixtures("without_gate")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study_folder(tmp_path_factory.mktemp("study"))


def settings(study: Path, run: Path, **changes: Any) -> dict[str, Any]:
    """The run config of a run with the four hospitals."""
    return {
        "study": STUDY,
        "data": "study",
        "data-dir": str(study),
        "roster": ",".join(HOSPITALS),
        "run-dir": str(run),
        "roster-deadline": 0.5,
        **{key.replace("_", "-"): value for key, value in changes.items()},
    }


def simulated(path: Path, **changes: Any) -> RunFolder:
    # As the silos' own settings say, where they name nothing else.
    same = {"learner": "logistic-regression", "pseudo-weight": 1.0}
    config = {"study": STUDY, "data": STUDY, "run-dir": str(path), "save-models": False, **same, **changes}
    run_loopback(server_app, client_app, config, simulated_nodes(len(HOSPITALS)))
    return RunFolder(path)


def refusal(config: dict[str, Any], error: type[Exception] = ConfigError) -> str:
    return sentence(error, run_loopback, server_app, client_app, config, [])


def test_the_study_must_be_that_of_the_folder(study: Path, tmp_path: Path, wording: SnapshotAssertion) -> None:
    assert refusal(settings(study, tmp_path / "run") | {"study": "another"}) == wording


def test_a_folder_without_a_study_is_named(tmp_path: Path) -> None:
    assert refusal(settings(tmp_path, tmp_path / "run")).startswith(f"no study.toml in {tmp_path}")


def test_a_query_larger_than_the_public_set_is_refused(study: Path, tmp_path: Path, wording: SnapshotAssertion) -> None:
    assert refusal(settings(study, tmp_path / "r", query_size=1000)) == wording


@pytest.mark.parametrize(
    ("key", "value"),
    [("learner", "svm"), ("local_steps", 7), ("num_silos", 4), ("learner_params", '{"C": 2}'), ("test_fraction", 0.5)],
)
def test_settings_that_real_silos_have_for_themselves_are_refused(
    study: Path, tmp_path: Path, key: str, value: object, wording: SnapshotAssertion
) -> None:
    said = refusal(settings(study, tmp_path / "run", **{key: value}))
    assert said.startswith(f"{key.replace('_', '-')} ")
    assert said == wording


def test_an_unexpected_error_leaves_a_reason_and_its_details(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = CoTraining.configure_train

    def fails_in_round_2(self: CoTraining, number: int, *others: Any) -> Any:
        if number == 2:
            raise ZeroDivisionError("nobody foresaw it")
        return asks(self, number, *others)

    monkeypatch.setattr(CoTraining, "configure_train", fails_in_round_2)
    with pytest.raises(ZeroDivisionError):
        simulated(tmp_path / "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["status"] == "failed"
    assert "error.txt" in result["reason"]
    assert "nobody foresaw it" not in result["reason"]
    assert "ZeroDivisionError: nobody foresaw it" in (tmp_path / "run" / "error.txt").read_text()
    monkeypatch.undo()
    assert len(simulated(tmp_path / "run", resume=True).rounds()) >= 1
    assert not (tmp_path / "run" / "error.txt").exists()
