"""Flower's ``flwr-simulation`` with a Ray that starts on a busy machine, too, and without what no simulation needs.

Ray 2.55 ends a run if its agents have not written their ports to files within 15 s
(github.com/ray-project/ray/issues/65983). Here their ports are chosen and reserved before they start.
"""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from inspect import signature
from pathlib import Path
from typing import Any, Final

_PROGRAM: Final = "flwr-simulation"
_PORTS: Final = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")
_ENVIRONMENT: Final = {
    # Workers started in advance are of no use, as silos have actors: they would compete with Ray's start.
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_worker_register_timeout_seconds": "600",
}


@contextmanager
def reserved_port(host: str = "") -> Iterator[int]:
    """A TCP port that the system gives no other program meanwhile; a server with ``SO_REUSEADDR`` may listen at it."""
    with socket.socket() as reservation:
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reservation.bind((host, 0))
        yield int(reservation.getsockname()[1])


def install(folder: Path) -> None:
    """Write the program to a new folder. A SuperLink with that folder first in its ``PATH`` starts it."""
    folder.mkdir()
    program = folder / _PROGRAM
    program.write_text(f"#!{sys.executable}\nfrom {__name__} import main\n\nmain()\n", encoding="utf-8")
    program.chmod(0o700)


def main() -> None:
    """Run ``flwr-simulation`` with Ray's ports known beforehand, and without Ray's autoscaler and dashboard."""
    os.environ.update(_ENVIRONMENT)
    services: Any = import_module("ray._private.services")
    node_class: Any = import_module("ray._private.node").Node
    persist_port: Any = import_module("ray._raylet").persist_port
    start_raylet = services.start_raylet

    with ExitStack() as reserved:

        def with_known_ports(*arguments: Any, **named: Any) -> Any:
            node = signature(start_raylet).bind(*arguments, **named).arguments
            ports = {name: reserved.enter_context(reserved_port()) for name in _PORTS}
            for name, port in ports.items():
                persist_port(node["session_dir"], node["node_id"], name, port)
            return start_raylet(*arguments, **named | ports)

        services.start_raylet = with_known_ports
        # Neither the autoscaler nor the dashboard is used here: two programs less, which take seconds to start.
        node_class.start_monitor = node_class.start_api_server = lambda *_, **__: None
        (program,) = entry_points(group="console_scripts", name=_PROGRAM)
        program.load()()
