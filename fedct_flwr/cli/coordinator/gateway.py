"""nginx's settings: one template for the gateway in containers and for that of the systemd unit.

``python -m fedct_flwr.cli.coordinator.gateway [BYTES [RESOLVER [SUPERLINK]]]`` prints those of the container image,
with the longest message, and for a cluster with its name server and the SuperLink's name there.
"""

import re
import sys
from dataclasses import dataclass
from importlib import resources
from typing import Final

from fedct_flwr.cli.output import echo
from fedct_flwr.config.coordinator import LONGEST_MESSAGE
from fedct_flwr.hospital.link import VERDICT_HEADER

NO_CERTIFICATE: Final = (
    "this coordinator asks for a client certificate: ask the coordinator for a new invitation, and take it with fedct "
    "silo renew"
)
BAD_CERTIFICATE: Final = (
    "this coordinator does not accept the client certificate, which has expired or was made by another: ask the "
    "coordinator for a new invitation, and take it with fedct silo renew"
)
_HEALTH: Final = """
    # For the health check alone.
    server {
        listen 127.0.0.1:8080;
        return 204;
    }
"""


@dataclass(frozen=True)
class Gateway:
    """What differs between gateways. Paths are the gateway's own."""

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
        host, port = self.superlink
        resolver = f"        resolver {self.resolver} valid=5s ipv6=off;\n" if self.resolver else ""
        values = {
            "LISTEN": self.listen,
            "LISTEN_TOO": f"        listen {self.listen_too} ssl;\n" if self.listen_too else "",
            "CERTIFICATES": self.certificates,
            "TEMPORARY": self.temporary,
            "SUPERLINK_HOST": f"[{host}]" if ":" in host else host,
            "SUPERLINK_PORT": str(port),
            "SUPERLINK_NAME": self.superlink_name,
            "MAX_MESSAGE": str(self.max_message),
            "TIMEOUT": str(self.timeout),
            "RESOLVER": resolver,
            "HEALTH": _HEALTH if self.health else "",
            "VERDICT_HEADER": VERDICT_HEADER,
            "NO_CERTIFICATE": NO_CERTIFICATE,
            "BAD_CERTIFICATE": BAD_CERTIFICATE,
        }
        template = resources.files("fedct_flwr.cli.coordinator").joinpath("gateway.conf").read_text("utf-8")
        return re.sub(r"@([A-Z_]+)@", lambda found: values[found[1]], template)


def in_container(
    max_message: int | str = LONGEST_MESSAGE, resolver: str = "127.0.0.11", superlink: str = "superlink"
) -> Gateway:
    """The gateway of compose.yaml, next to a service ``superlink``; or of a cluster with this name server and name."""
    return Gateway(
        listen="8443",
        # What docker/gateway.sh takes out where the kernel has no IPv6.
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
