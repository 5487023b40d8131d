"""A process that runs the app on Ray by the function that ``flwr run`` ends in, without a SuperLink and a bundle.

Ray 2.55 ends a run if its agents have not written their ports to files within 15 s, as on a busy machine
(github.com/ray-project/ray/issues/65983). Here their ports are chosen and reserved before they start.
"""

import json
import socket
import sys
from contextlib import ExitStack
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, Final

from flwr.app import Context, RecordDict
from flwr.simulation.run_simulation import _run_simulation
from flwr.supercore.constant import NOOP_FEDERATION_ID
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.supercore.telemetry import EventType

_PORTS: Final = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")
_ID: Final = 1
"""Of the run and its task: this process has one of each."""


def main(app: str, settings: str, num_silos: str) -> None:
    """Run the app in the folder ``app`` with the run-config values of the file ``settings``."""
    values, run = json.loads(Path(settings).read_text("utf-8")), Run.create_empty(_ID)
    run.primary_task_id, run.federation_id, run.override_config = _ID, NOOP_FEDERATION_ID, values
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = _ID
    with ExitStack() as reserved:
        know_ports(reserved)
        _run_simulation(
            num_supernodes=int(num_silos),
            app_dir=app,
            is_app=True,
            run=run,
            backend_config={"client_resources": {"num_cpus": 1}},
            server_app_attr="server_app.main:app",
            client_app_attr="client_app.main:app",
            server_app_context=Context(_ID, 0, {}, RecordDict(), values),
            exit_event=EventType.FLWR_SIMULATION_RUN_LEAVE,
        )


def know_ports(reserved: ExitStack) -> None:
    """Have Ray's agents listen at ports that are known beforehand, and start no autoscaler and no dashboard."""
    services: Any = import_module("ray._private.services")
    node_class: Any = import_module("ray._private.node").Node
    persist_port: Any = import_module("ray._raylet").persist_port
    start_raylet = services.start_raylet

    def free_port() -> int:
        reservation = reserved.enter_context(socket.socket())
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reservation.bind(("", 0))
        return int(reservation.getsockname()[1])

    def with_known_ports(*arguments: Any, **named: Any) -> Any:
        node = signature(start_raylet).bind(*arguments, **named).arguments
        ports = {name: free_port() for name in _PORTS}
        for name, port in ports.items():
            persist_port(node["session_dir"], node["node_id"], name, port)
        return start_raylet(*arguments, **named | ports)

    services.start_raylet = with_known_ports
    node_class.start_monitor = node_class.start_api_server = lambda *_, **__: None


if __name__ == "__main__":
    main(*sys.argv[1:])
