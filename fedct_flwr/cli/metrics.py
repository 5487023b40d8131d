"""Numbers for Prometheus, served until the process is ended: what ``status`` shows, and never data.

A process of its own that reads files and asks nobody: the agent has no port, and gets none by this.
"""

import ipaddress
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from fedct_flwr.cli.connection_limit import connection_limit
from fedct_flwr.cli.output import Output, echo
from fedct_flwr.cli.silo.folder import host_and_port
from fedct_flwr.types import ConfigError, FedctError

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

_LOCAL: Final = "localhost"
_PORT: Final = re.compile(r":\d*$")

Sample = tuple[str, str, dict[str, str], float | None]
"""Name without ``fedct_``, help, labels, value; None is left out."""


class _Now:
    """Samples as they are at each scrape."""

    def __init__(self, samples: Callable[[], Iterable[Sample]]) -> None:
        self._samples = samples

    def collect(self) -> "Iterator[GaugeMetricFamily]":
        """All of them, a family for each name."""
        from prometheus_client.core import GaugeMetricFamily

        families: dict[str, GaugeMetricFamily] = {}
        try:
            for name, said, labels, value in self._samples():
                family = families.setdefault(name, GaugeMetricFamily(f"fedct_{name}", said, labels=list(labels)))
                if value is not None:
                    family.add_metric(list(labels.values()), float(value))
            readable = 1.0
        except (FedctError, OSError):
            families, readable = {}, 0.0
        yield GaugeMetricFamily("fedct_readable", "1 if all that is measured can be read", value=readable)
        yield from families.values()


def serve(samples: Callable[[], Iterable[Sample]], listen: str) -> None:
    """Serve ``/metrics`` at ``host:port`` until the process ends; print it once where that is empty.

    At a loopback address it answers under the names of this machine alone. Raises ConfigError for an address where
    nobody can listen, and without the extra ``metrics``.
    """
    try:
        from prometheus_client import CollectorRegistry, generate_latest, start_http_server
    except ModuleNotFoundError:
        raise ConfigError("metrics need the extra 'metrics': pip install 'fedct-flwr[metrics]'") from None
    registry = CollectorRegistry()
    registry.register(_Now(samples))
    if not listen:
        echo(generate_latest(registry).decode())
        return
    host, port = host_and_port(listen, "--listen", "")
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise ConfigError(f"cannot listen at {listen} ({error.strerror}): choose another --listen") from None
    app: Any = server.get_app()
    connection_limit(server)
    server.set_app(only_here(app) if _is_loopback(host) else app)
    Output().say(f"metrics: http://{listen}/metrics")
    try:
        threading.Event().wait()
    finally:
        server.shutdown()
        thread.join()


def only_here(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """A WSGI app that refuses calls under another name than this machine's own.

    A name that leads here is another site's (DNS rebinding), whose scripts in a browser here would read the numbers.
    """

    def answer(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        if _is_loopback(_PORT.sub("", environ.get("HTTP_HOST", "")).strip("[]")):
            return app(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain")])
        return [b"not under this name"]

    return answer


def _is_loopback(host: str) -> bool:
    try:
        return host == _LOCAL or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
