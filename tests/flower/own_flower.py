"""Plain ``flwr`` for tests, apart from what the user of this machine does with Flower."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tomli_w

from fedct_flwr.flower.command import BIN, environment
from tests.marks import end_all
from tests.patience import eventually
from tests.readme import ROOT

_PATIENT = """#!{}
from contextlib import ExitStack
from fedct_flwr.flower.ray_process import know_ports
from flwr.simulation.app import flwr_simulation

with ExitStack() as reserved:
    know_ports(reserved)
    flwr_simulation()
"""


@contextmanager
def own_flower(folder: Path, **variables: str) -> Iterator[dict[str, str]]:
    """Environment with these variables, in which plain ``flwr`` finds a SuperLink of its own, gone afterwards.

    Without a connection in its home, Flower would start one at a port that all of a machine share, and leave it there.
    """
    home = folder / "flwr"
    home.mkdir()
    found = {"RAY_ADDRESS": "local"} | environment(home) | variables
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    connection = {"address": f"127.0.0.1:{port}", "insecure": True}
    (home / "config.toml").write_text(tomli_w.dumps({"superlink": {"default": "own", "own": connection}}), "utf-8")
    # Ray gives up on a machine with ten times as much to do.
    program = home / "flwr-simulation"
    program.write_text(_PATIENT.format(sys.executable), "utf-8")
    program.chmod(0o700)
    found["PATH"] = f"{home}{os.pathsep}{found['PATH']}"
    command = [str(BIN / "flower-superlink"), "--insecure", "--simulation", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "superlink.log").open("w", encoding="utf-8") as output:
        process = subprocess.Popen(command, env=found, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            eventually(lambda: _listens(port), "Flower's SuperLink")
            yield found
        finally:
            end_all(str(home), "FLWR_HOME")
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def cloned(folder: Path) -> Path:
    """What somebody has after cloning the repository into this folder."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder
