"""``fedct coordinator`` with a real SuperLink, SuperExec, SuperNodes and agents, as plain processes on free ports."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedct_flwr.config import RunConfig
from fedct_flwr.evaluation import scoreboard
from fedct_flwr.flower.command import BIN
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.runs.run_folder import RunFolder
from tests.hospitals import dataset
from tests.patience import PATIENCE
from tests.processes.deployment import Deployment

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A SuperLink that knows four silos, none of which is there, and has no SuperExec."""
    folder = tmp_path_factory.mktemp("deployment")
    learner, policy = {"name": "logistic-regression"}, {"metrics": True}
    with Deployment(folder, learner=learner, policy=policy, bare=True) as deployment:
        done = deployment.coordinate("register")
        assert done.exit_code == 0, done.output
        assert done.output.count("is registered\n") == 4
        yield deployment


@pytest.fixture(scope="module")
def superexec(deployment: Deployment) -> Deployment:
    deployment.start_superexec()
    return deployment


@pytest.fixture(scope="module")
def silos(superexec: Deployment) -> Deployment:
    superexec.start_silos()
    return superexec


def test_the_table_is_the_very_one_of_the_simulation(silos: Deployment, tmp_path: Path) -> None:
    done = silos.coordinate(
        "run", "--run-dir", tmp_path / "run", "--baselines", "heart-disease", "--set", f"roster-deadline={PATIENCE}",
        "--set", "min-silos=4",
    )  # fmt: skip
    assert done.exit_code == 0, (done.output, done.exception)
    assert re.search(r"round +1 +4 silos sent 158 bytes each", done.output)
    assert "fixed point in round 4" in done.output
    assert "labels of public examples and test scores" in " ".join(done.output.split())

    from client_app.main import app as client_app
    from server_app.main import app as server_app

    # The baselines are those of a simulation's defaults; the silos here are told what to train and trust.
    defaults = {
        "study": "heart-disease",
        "data": "heart-disease",
        "run-dir": str(tmp_path / "simulated"),
        "report-scores": True,
    }
    config = RunConfig.from_flower({**defaults, "learner": "logistic-regression", "pseudo-weight": 1.0})
    run_loopback(server_app, client_app, config.to_flower(), simulated_nodes(4))
    simulated = RunFolder(tmp_path / "simulated")
    expected = scoreboard.score(RunConfig.from_flower(defaults), dataset(), simulated)
    found = json.loads((tmp_path / "run" / "scores.json").read_text("utf-8"))
    assert [row["silo"] for row in found] == [row.silo for row in expected]
    for row, other in zip(found, expected, strict=True):
        assert row["own"] == pytest.approx(other.own)
        assert row["pooled"] == pytest.approx(other.pooled)
        assert row["bytes_sent"] == other.bytes_sent
    labels = [(path / "labels.csv").read_text("utf-8") for path in (tmp_path / "run", simulated.path)]
    assert labels[0] == labels[1]


def test_a_run_that_is_interrupted_is_stopped_and_gone_on_with(silos: Deployment, tmp_path: Path) -> None:
    path = tmp_path / "run"
    command = [
        BIN / "fedct", "coordinator", "run", silos.coordinator.path, "--run-dir", path,
        "--set", "stop-at-fixed-point=false",
        # A SuperNode may lose the reply that it has at hand when a run is stopped: nobody shall wait long for that.
        "--set", f"roster-deadline={PATIENCE}", "--set", "round-deadline=90", "--rounds", "100",
    ]  # fmt: skip
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=silos.environment,
        # Whoever runs these tests in the background has interrupts ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    with process:
        silos.wait((path / "rounds.jsonl").exists, "the first round")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert f"stopped; to go on: fedct coordinator run {silos.coordinator.path} --resume {path}" in output
    assert silos.superlink.unfinished() == []
    done_rounds = len(RunFolder(path).rounds())
    again = silos.coordinate("run", "--resume", path, "--rounds", str(done_rounds + 1))
    assert again.exit_code == 0, (again.output, again.exception)
    assert len(RunFolder(path).rounds()) == done_rounds + 1
    assert f"round {done_rounds + 1:>2} " in again.output
    assert f"round {done_rounds:>2} " not in again.output
