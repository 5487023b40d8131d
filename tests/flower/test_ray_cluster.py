"""``fedct simulate`` on a Ray cluster that is there already: two Ray nodes on this machine, with one CPU each."""

import json
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.flower.test_simulate import ROOT, environment, fedct, own_files
from tests.marks import end_all
from tests.patience import eventually
from tests.readme import shown

__all__ = ["own_files"]
RESEARCHER = (ROOT / "docs" / "tutorials" / "researcher.md").read_text("utf-8")
RAY = (sys.executable, "-m", "ray.scripts.scripts")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster of two nodes."""
    home = tmp_path / "cluster"
    home.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    address = f"127.0.0.1:{port}"
    head, _ = shown("<!-- a Ray cluster -->", "sh", RESEARCHER).replace("6379", str(port)).splitlines()
    own = ["--num-cpus=1", "--block", "--disable-usage-stats", "--include-dashboard=false"]
    with ExitStack() as ended, ExitStack() as stack:
        # Ray leaves the address of a cluster that is killed, and would wait for it.
        ended.callback(Path("/tmp/ray/ray_current_cluster").unlink, missing_ok=True)
        stack.callback(end_all, str(home))
        for node in (shlex.split(head)[2:] + own, [f"--address={address}", *own[:3]]):
            log = stack.enter_context((home / f"{len(list(home.iterdir()))}.log").open("w"))
            started = subprocess.Popen([*RAY, "start", *node], env=environment(home), stdout=log, stderr=log)
            ended.callback(started.wait)
            eventually(lambda log=log: "--block" in Path(log.name).read_text(), "a Ray node")  # type: ignore[misc]
        yield address


@pytest.mark.cluster
def test_silos_train_on_all_nodes_of_a_cluster(own_files: Path, cluster: str, tmp_path: Path) -> None:
    places = tmp_path / "places"
    places.mkdir()
    _, command = shown("<!-- a Ray cluster -->", "sh", RESEARCHER).splitlines()
    words = command.replace("wards", "data").replace("ill", "kind").split()
    done = fedct(
        tmp_path, *words[2:], "--run-dir", "run", "--no-baselines", "--rounds", "2",
        "--learner", "tests.flower.learners.Placed", "--learner-params", json.dumps({"folder": str(places)}),
        RAY_ADDRESS=cluster,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert len({path.name for path in places.iterdir()}) == 2
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] == "completed"
    # The cluster is somebody else's, and goes on.
    host, _, port = cluster.rpartition(":")
    socket.create_connection((host, int(port))).close()


@pytest.mark.parametrize("address", ["127.0.0.1:{}", "ray://head:10001", "head", "127.0.0.1:port"])
def test_where_nobody_listens_no_run_begins(own_files: Path, tmp_path: Path, address: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = address.format(probe.getsockname()[1])
    given = ["simulate", "--run-dir", "run", "--data-dir", "data", "--label", "kind"]
    done = fedct(tmp_path, *given, RAY_ADDRESS=address)
    assert done.returncode == 4
    assert "no Ray cluster" in done.stderr
    assert not (tmp_path / "run").exists()
