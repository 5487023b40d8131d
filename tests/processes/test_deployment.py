"""Four hospitals as real processes, and what happens when any of them is killed, or not who it says."""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fedct_flwr.cli.coordinator import run as coordinator_run
from fedct_flwr.flower.command import SuperLink, Unreachable
from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.runs.run_folder import RunFolder
from tests.patience import PATIENCE
from tests.processes.deployment import Deployment

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(tmp_path_factory.mktemp("deployment")) as running:
        # From the beginning on, and to the end: two that nobody let in.
        for silo in (running.stranger("unregistered"), running.stranger("wrong-authority", authority=True)):
            running.start_silo(silo)
            running.outsiders.append(silo)
        yield running


@pytest.fixture(autouse=True)
def _as_before(deployment: Deployment) -> Iterator[None]:
    yield
    for silo in deployment.silos.values():
        silo.go()
        # No silo ever answers a round twice in different words, and every log is intact.
        runs = {entry.run for entry in silo.entries()} - {0}
        for run in runs:
            silo.released(run)


def rounds(folder: RunFolder) -> int:
    return len(folder.rounds()) if (folder.path / "rounds.jsonl").exists() else 0


def test_four_hospitals_train_together(deployment: Deployment) -> None:
    run, folder = deployment.begin("together", num_server_rounds=3)
    result = deployment.finish(run, folder)
    assert result["status"] == "completed", deployment.logs()
    print("seconds a round:", *(record["seconds"] for record in folder.rounds()))
    for silo in deployment.silos.values():
        assert set(silo.released(run)) == {1, 2, 3}
        assert silo.refusals(run) == []
        codes = {entry.code for entry in silo.entries(run)}
        assert len(codes) == 1
        assert f"SHA-256 {codes.pop()}, which is not executed" in deployment.log(f"agent {silo.name}").replace(
            "\n", " "
        )
    assert all(len(record["silos"]) == 4 for record in folder.rounds())


@pytest.mark.slow
def test_a_superlink_that_is_killed_comes_back_and_two_runs_at_once_go_on(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    noticed = threading.Event()

    class Noticed(SuperLink):
        def status(self, run_id: int) -> str:
            try:
                return super().status(run_id)
            except Unreachable:
                noticed.set()
                raise

    monkeypatch.setattr(coordinator_run, "SuperLink", Noticed)
    monkeypatch.setattr(coordinator_run, "_ASK_SECONDS", 0.5)
    silos = deployment.silos.values()
    for silo in silos:
        silo.hold()
    number, folder = deployment.begin("at-once")
    watched = RunFolder(deployment.coordinator.runs / "watched")

    def kill() -> None:
        try:
            deployment.wait((watched.path / "config.json").exists, "the second run")
            for silo in silos:
                deployment.wait(silo.is_training, f"training at {silo.name}")
            deployment.stop("superlink", signal.SIGKILL)
            assert noticed.wait(PATIENCE)
        finally:
            deployment.start_superlink()
            for silo in silos:
                silo.go()

    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(kill)
        done = deployment.coordinate(
            "run", "--run-dir", watched.path, "--rounds", "2", "--set", "stop-at-fixed-point=false",
            "--set", f"roster-deadline={PATIENCE}", "--set", f"round-deadline={PATIENCE}", "--set", "seed=0",
        )  # fmt: skip
        killed.result()
    assert done.exit_code == 0, (done.output, done.exception, deployment.logs())
    assert "the SuperLink does not answer: waiting for it to come back" in done.output
    result = deployment.finish(number, folder)
    assert result["status"] == "completed", (result, deployment.logs())
    for ended in (folder, watched):
        assert rounds(ended) == 2
    assert sum(len(silo.released(number)) for silo in silos) >= 4


@pytest.mark.slow
def test_killed_and_stopped_in_training_silos_lose_nothing_and_come_back(deployment: Deployment) -> None:
    killed, stopped, severed = (deployment.silos[name] for name in ("cleveland", "budapest", "zurich"))
    hurt = (killed, stopped, severed)
    for silo in hurt:
        silo.hold()
    run, folder = deployment.begin("hurt", num_server_rounds=1, round_deadline=60.0, min_silos=3)
    for silo in hurt:
        deployment.wait(silo.is_training, f"training at {silo.name}")
    deployment.kill("agent cleveland")
    deployment.send("agent budapest", signal.SIGTERM)
    deployment.kill("supernode zurich")
    deployment.wait(lambda: stopped.refusals(run) == ["STOPPING"], "budapest's refusal")
    for silo in hurt:
        silo.go()
    result = deployment.finish(run, folder)
    # With one silo left, or two if the killed SuperNode was let in again in time, there is no quorum: one sentence says
    # so.
    assert result["status"] == "failed"
    assert "\n" not in result["reason"].strip()
    assert stopped.released(run) == {}
    assert "stopped" in deployment.log("agent budapest")

    # With the same keys and the same logs as before. For Flower a SuperNode that was killed is there for a minute more,
    # and cannot come back before that is over: a run that begins meanwhile may have to do without it.
    for name in ("again", "once-more"):
        run, folder = deployment.begin(name, num_server_rounds=1, round_deadline=90.0)
        result = deployment.finish(run, folder)
        assert result["status"] == "completed", deployment.logs()
        (record,) = folder.rounds()
        if len(record["silos"]) == 4:
            break
    assert len(record["silos"]) == 4, (record, deployment.logs())


def test_who_was_not_let_in_has_never_been_asked_anything(deployment: Deployment) -> None:
    for silo in deployment.outsiders:
        assert {entry.event for entry in silo.entries()} == {Event.APPROVED, Event.OPENED}
        assert not (silo.folder / "fits").exists()
        assert silo.status()["pid"]
