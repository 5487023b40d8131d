"""One run on Flower's simulation engine, in a process of its own that ends with all that it has started.

``flwr run`` would start a SuperLink in the background that outlives it, and would exit with 0 when the run has failed.
"""

import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from fedct_flwr.flower.command import APP_NAME, environment, stage_app
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import RunError

_STOP_SECONDS: Final = 10.0
_GRACE_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.1
_OF_RAY: Final = {
    # Or else Ray looks for a cluster on this machine, and waits for one that is gone.
    "RAY_ADDRESS": "local",
    # As Flower sets it.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # Workers started in advance are of no use, as silos have actors: they would compete with Ray's start.
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_worker_register_timeout_seconds": "600",
}


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
        app, values = Path(temporary) / APP_NAME, Path(temporary) / "settings.json"
        stage_app(app, whole=False)
        values.write_text(json.dumps(dict(settings)), encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fedct_flwr.flower.ray_process", str(app), str(values), str(num_silos)],
            env={**_OF_RAY, **environment(Path(temporary)), **more}, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            end = math.inf
            while process.poll() is None:
                end = min(end, time.monotonic() + _GRACE_SECONDS) if watch() else math.inf
                if time.monotonic() > end:
                    return
                time.sleep(_POLL_SECONDS)
            watch()
        finally:
            _stop(process)
    if process.returncode:
        raise RunError(f"the run did not complete on Flower's engine (exit code {process.returncode})")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End it: Ray's processes end with the one that has started them."""
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def check_ray() -> None:
    """Raise RunError without Ray, where it could start no worker, or where no cluster listens at ``RAY_ADDRESS``."""
    if find_spec("ray") is None:
        raise RunError("the engine needs Ray: use --in-process, or pip install -c constraints.txt -e '.[simulation]'")
    # Ray does not quote the interpreter's path.
    if any(character.isspace() for character in sys.executable):
        raise RunError(f"the engine starts no workers with {sys.executable}: install into a folder without spaces")
    if (address := os.environ.get("RAY_ADDRESS", "")) in ("", "auto", "local"):
        return
    host, _, port = address.rpartition(":")
    try:
        # Ray would ask for more than six minutes.
        socket.create_connection((host.strip("[]"), int(port)), timeout=_STOP_SECONDS).close()
    except (OSError, OverflowError, ValueError):
        raise RunError(
            f"no Ray cluster answers at {quoted(address)}: start it with 'ray start --head', and give host:port"
        ) from None
