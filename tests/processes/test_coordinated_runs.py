"""``fedct coordinator`` with a real SuperLink, SuperExec, SuperNodes and agents, as plain processes on free ports."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedct_flwr.flower.command import BIN
from fedct_flwr.runs.run_folder import RunFolder
from tests.patience import PATIENCE
from tests.processes.deployment import Deployment

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.fixture(scope="module")
def silos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Four silos that the coordinator has registered."""
    folder = tmp_path_factory.mktemp("deployment")
    with Deployment(folder, learner={"name": "logistic-regression"}, bare=True) as deployment:
        done = deployment.coordinate("register")
        assert done.exit_code == 0, done.output
        assert done.output.count("is registered\n") == 4
        deployment.start_superexec()
        deployment.start_silos()
        yield deployment


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
