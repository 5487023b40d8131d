"""``fedct simulate`` and ``flwr run`` on Flower's real simulation engine."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flower.own_flower import cloned, own_flower
from tests.marks import MARK, marked
from tests.patience import PATIENCE, eventually
from tests.wheelhouses import load_script

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
FLOWERS_PORT = "39091"
"""Where Flower starts a SuperLink for whoever has none."""

pytestmark = pytest.mark.engine


def simulate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``fedct simulate`` in a folder, as a user would."""
    return fedct(folder, "simulate", "--run-dir", "run", *arguments)


def fedct(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / "fedct"), *arguments],
        cwd=folder, capture_output=True, text=True, timeout=PATIENCE, env=environment(folder) | variables,
    )  # fmt: skip


def environment(folder: Path) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "FLWR_HOME"} | own_variables(folder)


def own_variables(folder: Path) -> dict[str, str]:
    # A mark on all descendants, however they detach themselves.
    return {"COLUMNS": "80", "HOME": str(folder / "home"), MARK: str(folder), "PYTHONPATH": str(ROOT)}


def assert_nothing_is_left(folder: Path) -> None:
    """No process, and nothing in the user's Flower home. Ray's processes end a moment after their driver."""
    eventually(lambda: not marked(str(folder)), "the end of all processes")
    assert not (folder / "home" / ".flwr").exists()


@pytest.fixture
def own_files(tmp_path: Path) -> Path:
    """Three silos and a public set in CSV files."""
    folder = tmp_path / "data"
    folder.mkdir()
    for number, name in enumerate(["public", "north", "south", "east"]):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["size", "color", *(["kind"] if name != "public" else [])])
            for i in range(40):
                x = (i * 7 + number * 3) % 20
                label = [["small", "large"][x > 9]] if name != "public" else []
                writer.writerow([x, ["red", "blue"][i % 2], *label])
    return folder


def test_a_users_own_files_end_in_a_table_and_leave_no_process(own_files: Path, tmp_path: Path) -> None:
    done = simulate(tmp_path, "--data-dir", "data", "--label", "kind", "--learner", "decision-tree")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"round +1 +3 silos sent (at most )?\d+ bytes each", done.stdout)
    for silo in ("north", "south", "east", "mean"):
        assert re.search(rf"^ *{silo}( +[01]\.\d{{3}}){{6}} +\d+", done.stdout, re.MULTILINE), done.stdout
    run = tmp_path / "run"
    expected = {
        "config.json", "rounds.jsonl", "checkpoint.npz", "labels.csv",
        "result.json", "models", "scores.json", "report.html", "flower.log", ".lock", "verdict.json", "judgments",
        "table_one.json",
    }  # fmt: skip
    assert {path.name for path in run.iterdir()} == expected
    assert {row["silo"] for row in json.loads((run / "scores.json").read_text())} == {"north", "south", "east"}
    assert_nothing_is_left(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "where"),
    [
        (signal.SIGINT, 130, []),
        (signal.SIGINT, 130, ["--in-process"]),
        (signal.SIGTERM, 143, ["--in-process"]),
        (signal.SIGHUP, 129, ["--in-process"]),
    ],
)
def test_a_simulation_that_is_stopped_leaves_its_log_and_no_process(
    tmp_path: Path, number: signal.Signals, code: int, where: list[str]
) -> None:
    slow = ["--learner", "tests.flower.learners.slow"]
    command = [str(BIN / "fedct"), "simulate", "--run-dir", "run", *slow, *where]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # Whoever runs these tests in the background has interrupts ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    with process:
        eventually(
            lambda: (tmp_path / "run" / "config.json").exists() or process.poll() is not None, "the run's folder"
        )
        process.send_signal(number)
        output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert "Traceback" not in errors
    assert f"stopped; to go on: fedct simulate --resume {tmp_path / 'run'}" in output
    assert (tmp_path / "run" / "flower.log").exists()
    assert_nothing_is_left(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("write", [cloned, load_script("hub").write])
def test_flwr_run_on_its_own_works_as_a_flower_user_expects(tmp_path: Path, write: Callable[[Path], object]) -> None:
    app = tmp_path / "fedct-flwr"
    write(app)
    before = (app / "pyproject.toml").read_bytes()
    with own_flower(tmp_path, **own_variables(tmp_path)) as variables:
        command = [str(BIN / "flwr"), "run", ".", "--stream", "--federation-config", "num-supernodes=4"]
        done = subprocess.run(command, cwd=app, env=variables, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr
        # A user's own SuperLink may be at Flower's port.
        assert not [process for process in marked(str(tmp_path)) if FLOWERS_PORT in process.cmdline()]
    assert "fixed point" in done.stdout
    (run,) = (tmp_path / "home" / ".fedct" / "runs").iterdir()
    assert json.loads((run / "result.json").read_text())["status"] == "completed"
    assert len(list((run / "models").iterdir())) == 4
    assert (app / "pyproject.toml").read_bytes() == before
    assert_nothing_is_left(tmp_path)


AGENTS_START_LATE = """
import sys, time
if any(argument.endswith("agent.py") for argument in sys.orig_argv):
    time.sleep(20)
"""


@pytest.mark.slow
def test_a_run_goes_through_although_rays_agents_take_longer_than_ray_waits(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(AGENTS_START_LATE, encoding="utf-8")
    path = f"{site}:{environment(tmp_path)['PYTHONPATH']}"
    quick = ["--rounds", "1", "--learner", "nearest-neighbors", "--no-baselines"]
    done = fedct(tmp_path, "simulate", "--run-dir", "run", *quick, PYTHONPATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_nothing_is_left(tmp_path)
