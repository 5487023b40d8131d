"""One run on Flower's simulation engine, with a SuperLink of its own that is gone afterwards.

``flwr run`` alone would start a SuperLink in the background that outlives it, with the environment of its first
call, and would exit with 0 when the run has failed.
"""

import contextlib
import importlib
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, Final

import psutil
import tomli_w

from fedct_flwr.types import RunError

_CONNECTION: Final = "fedct-simulate"
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 10.0
_GRACE_SECONDS: Final = 10.0
_QUIET_SECONDS: Final = 0.3
_POLL_SECONDS: Final = 0.1
_BIN: Final = Path(sys.executable).parent
# Everything runs offline: dependencies are installed already, and nothing is reported to anybody.
_OFFLINE: Final = {
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def run_on_engine(settings: Mapping[str, Any], num_silos: int, log: Path, watch: Callable[[], bool]) -> None:
    """Run the app with these run-config values and one simulated node per silo.

    ``watch`` is called meanwhile and says whether the coordinator is done; Flower itself would wait for silos that
    hang, so soon after that everything is ended. Flower's output goes to ``log``. Raises RunError if the run did not
    complete on the engine, whatever Flower's exit code says; if it was ended here, how it went is the caller's to find
    out.
    """
    # Flower wants the app's folder to be named like the app.
    with tempfile.TemporaryDirectory(prefix="fedct-") as temporary, log.open("w", encoding="utf-8") as output:
        home, app = Path(temporary) / "flwr", Path(temporary) / "fedct-flwr"
        home.mkdir()
        _stage_app(app)
        overrides = Path(temporary) / "run-config.toml"
        overrides.write_text(tomli_w.dumps(dict(settings)), encoding="utf-8")
        environment = {
            **os.environ,
            **_OFFLINE,
            "FLWR_HOME": str(home),
            "PATH": f"{_BIN}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        with _superlink(environment, output):
            command = [
                str(_BIN / "flwr"), "run", str(app), _CONNECTION, "--stream", "--run-config", str(overrides),
                "--federation-config", f"num-supernodes={num_silos} client-resources-num-cpus=1",
            ]  # fmt: skip
            stream = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
            end = math.inf
            while stream.poll() is None:
                end = min(end, time.monotonic() + _GRACE_SECONDS) if watch() else math.inf
                if time.monotonic() > end:
                    return
                time.sleep(_POLL_SECONDS)
            watch()
            status = _status(environment)
    if status != "finished:completed":
        raise RunError(f"the run did not complete on Flower's engine (status {status})")


def check_interpreter() -> None:
    """Raise RunError where Ray, which does not quote the interpreter's path, could start no worker."""
    if any(character.isspace() for character in sys.executable):
        raise RunError(
            f"the simulation engine cannot start workers with {sys.executable}, as there is a space in the path: "
            "install into another folder, for instance with make VENV=~/fedct-venv run"
        )


def _stage_app(app: Path) -> None:
    """Copy the app, which may be installed anywhere, to a folder that Flower can bundle."""
    for package in ("fedct_flwr", "server_app", "client_app"):
        source = Path(str(importlib.import_module(package).__file__)).parent
        shutil.copytree(source, app / package, ignore=shutil.ignore_patterns("__pycache__"))
    bundled = Path(str(resources.files("fedct_flwr.cli").joinpath("app.toml")))
    checkout = Path(__file__).parents[2] / "pyproject.toml"
    shutil.copy(bundled if bundled.exists() else checkout, app / "pyproject.toml")


@contextmanager
def _superlink(environment: dict[str, str], output: Any) -> Iterator[None]:
    """A SuperLink in simulation mode on a free loopback port, as the only connection in its Flower home."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    connection = {"address": f"127.0.0.1:{port}", "insecure": True}
    config = {"superlink": {"default": _CONNECTION, _CONNECTION: connection}}
    Path(environment["FLWR_HOME"], "config.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
    process = subprocess.Popen(
        [str(_BIN / "flower-superlink"), "--insecure", "--simulation", "--host", "127.0.0.1", "--port", str(port)],
        env=environment, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + _START_SECONDS
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > end:
                raise RunError("Flower's SuperLink did not start")
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        _stop_all(environment["FLWR_HOME"])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _status(environment: dict[str, str]) -> str:
    command = [str(_BIN / "flwr"), "list", _CONNECTION, "--format", "json"]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    try:
        runs = json.loads(answer.stdout)["runs"]
        return str(runs[0]["status"])
    except (ValueError, KeyError, IndexError):
        return "unknown"


def _stop_all(flower_home: str) -> None:
    """End every process of this run: they share a Flower home that nobody else has. Ray's daemons leave any tree.

    A dying process may still start another one, so this looks again until there has been none for a moment.
    """
    end = time.monotonic() + 3 * _STOP_SECONDS
    quiet = False
    while not quiet and time.monotonic() < end:
        if processes := _processes(flower_home):
            for number in (signal.SIGTERM, signal.SIGKILL):
                for process in processes:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.send_signal(number)
                _, processes = psutil.wait_procs(processes, timeout=_STOP_SECONDS)
        else:
            time.sleep(_QUIET_SECONDS)
            quiet = not _processes(flower_home)


def _processes(flower_home: str) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if _has_home(process, flower_home)]


def _has_home(process: psutil.Process, flower_home: str) -> bool:
    try:
        return process.pid != os.getpid() and process.environ().get("FLWR_HOME") == flower_home
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
