"""nginx's settings: one template for the gateway in containers and for that of the systemd unit.

``python -m fedct_flwr.cli.coordinator.gateway [BYTES [RESOLVER [SUPERLINK]]]`` prints those of the container image,
with the longest message, and for a cluster with its name server and the SuperLink's name there.
"""

import sys
from dataclasses import dataclass

from fedct_flwr.cli.output import echo
from fedct_flwr.config.study import LONGEST_MESSAGE
from fedct_flwr.hospital.link import VERDICT_HEADER
from fedct_flwr.text.markdown import template


@dataclass(frozen=True)
class Gateway:
    """Differences between gateways. Paths are the gateway's own."""

    listen: str
    """``host:port``, or a port."""
    certificates: str
    """The folder with ca.crt, clients.crt, server.pem and server.key."""
    temporary: str
    """A folder to write in: bodies that are long."""
    superlink: tuple[str, int]
    """Where the SuperLink listens: an IP address, or a name for the ``resolver``."""
    superlink_name: str
    """The name that the SuperLink's certificate is for."""
    max_message: int = LONGEST_MESSAGE
    """Bytes of the longest body."""
    timeout: int = 10
    """Seconds that a caller may be silent in the middle of a request."""
    resolver: str = ""
    """The address of a name server, for a SuperLink that may be replaced by one with another address."""
    health: bool = False
    """Whether port 8080 of the loopback address answers with 204."""
    listen_too: str = ""
    """Another address and port, such as ``[::]:8443`` next to ``0.0.0.0:8443``."""

    def render(self) -> str:
        """The text of nginx's settings."""
        return template(__package__, "gateway.conf").render(vars(self), verdict_header=VERDICT_HEADER)


def in_container(
    max_message: int | str = LONGEST_MESSAGE, resolver: str = "127.0.0.11", superlink: str = "superlink"
) -> Gateway:
    """The gateway of compose.yaml, next to a service ``superlink``; or of a cluster with this name server and name."""
    return Gateway(
        listen="8443",
        # docker/gateway.sh takes this out where the kernel has no IPv6.
        listen_too="[::]:8443",
        certificates="/app/certificates",
        temporary="/tmp",  # noqa: S108 - a tmpfs of the container's own
        superlink=(superlink, 8000),
        superlink_name="superlink",
        max_message=int(max_message),
        resolver=resolver,
        health=True,
    )


if __name__ == "__main__":
    echo(in_container(*sys.argv[1:]).render(), data=True)
