"""One run on Flower's simulation engine, with a SuperLink of its own that is gone afterwards.

``flwr run`` alone would start a SuperLink in the background that outlives it, with the environment of its first
call, and would exit with 0 when the run has failed.
"""

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final

import psutil
import tomli_w

from fedct_flwr.flower import patient_ray
from fedct_flwr.flower.command import APP_NAME, BIN, environment, stage_app
from fedct_flwr.flower.patient_ray import reserved_port
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import ConfigError, RunError

_CONNECTION: Final = "fedct-simulate"
_START_SECONDS: Final = 600.0
_STOP_SECONDS: Final = 10.0
_ALL_STOPPED_SECONDS: Final = 120.0
_GRACE_SECONDS: Final = 10.0
_QUIET_SECONDS: Final = 0.3
_POLL_SECONDS: Final = 0.1


def run_on_engine(
    settings: Mapping[str, Any],
    num_silos: int,
    log: Path,
    watch: Callable[[], bool],
    *,
    more: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Run the app with these run-config values and one simulated node per silo; output goes to ``log``.

    ``more`` are environment variables. ``watch`` says whether the coordinator is done: soon after that all processes
    are ended. Raises RunError if the run did not complete on the engine, unless it was ended here.
    """
    with tempfile.TemporaryDirectory(prefix="fedct-") as temporary, log.open("w", encoding="utf-8") as output:
        home, app = Path(temporary) / "flwr", Path(temporary) / APP_NAME
        home.mkdir()
        stage_app(app)
        overrides = Path(temporary) / "run-config.toml"
        overrides.write_text(tomli_w.dumps(dict(settings)), encoding="utf-8")
        # Or else Ray looks for a cluster on this machine, and waits for one that is gone.
        variables = {"RAY_ADDRESS": "local", **environment(home), **more}
        with superlink(variables, output):
            command = [
                str(BIN / "flwr"), "run", str(app), _CONNECTION, "--stream", "--run-config", str(overrides),
                "--federation-config", f"num-supernodes={num_silos} client-resources-num-cpus=1",
            ]  # fmt: skip
            stream = subprocess.Popen(command, env=variables, stdout=output, stderr=subprocess.STDOUT)
            end = math.inf
            while stream.poll() is None:
                end = min(end, time.monotonic() + _GRACE_SECONDS) if watch() else math.inf
                if time.monotonic() > end:
                    return
                time.sleep(_POLL_SECONDS)
            watch()
            status = _status(variables)
    if status != "finished:completed":
        raise RunError(f"the run did not complete on Flower's engine (status {status})")


def check_interpreter() -> None:
    """Raise RunError without Ray, or where Ray, which does not quote the interpreter's path, could start no worker."""
    if find_spec("ray") is None:
        raise RunError("the engine needs Ray: use --in-process, or pip install -c constraints.txt -e '.[simulation]'")
    if any(character.isspace() for character in sys.executable):
        raise RunError(f"the engine starts no workers with {sys.executable}: install into a folder without spaces")


@contextmanager
def superlink(variables: Mapping[str, str], output: IO[str]) -> Iterator[None]:
    """A simulating SuperLink on a free port, which ends with all processes of its home. Raises RunError."""
    with reserved_port("127.0.0.1") as port:
        connection = {"address": f"127.0.0.1:{port}", "insecure": True}
        config = {"superlink": {"default": _CONNECTION, _CONNECTION: connection}}
        home = Path(variables["FLWR_HOME"])
        (home / "config.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
        patient_ray.install(home / "bin")
        process = subprocess.Popen(
            [str(BIN / "flower-superlink"), "--insecure", "--simulation", "--host", "127.0.0.1", "--port", str(port)],
            env={**variables, "PATH": f"{home / 'bin'}{os.pathsep}{variables['PATH']}"}, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            end = time.monotonic() + _START_SECONDS
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > end:
                    raise RunError("Flower's SuperLink did not start")
                time.sleep(_POLL_SECONDS)
            yield
        finally:
            _stop_all(variables["FLWR_HOME"])
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _status(variables: Mapping[str, str]) -> str:
    command = [str(BIN / "flwr"), "list", _CONNECTION, "--format", "json"]
    answer = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    try:
        runs = json.loads(answer.stdout)["runs"]
        return str(runs[0]["status"])
    except (ValueError, KeyError, IndexError):
        return "unknown"


def _stop_all(flower_home: str) -> None:
    """End every process with this Flower home, until there has been none for a moment: dying ones start others."""
    end = time.monotonic() + _ALL_STOPPED_SECONDS
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


ADDRESS: Final = "RAY_ADDRESS"
"""Ray's own variable."""
_NO_ADDRESS: Final = ("", "auto", "local")
"""Ray looks for a cluster on this machine, or starts one of its own."""
_SECONDS: Final = 10.0


def check_cluster(variables: Mapping[str, str] = os.environ) -> None:
    """Raise RunError where nothing listens at the cluster's address, ConfigError for what is no address."""
    address = variables.get(ADDRESS, "")
    if address in _NO_ADDRESS:
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise ConfigError(
            f"the address of a Ray cluster is {quoted(address)}: give host:port, as 'ray start --head' prints it"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS).close()
    except (OSError, OverflowError):
        raise RunError(
            f"no Ray cluster answers at {quoted(address)}: start it with 'ray start --head', or look for its address"
        ) from None
