"""A Ray cluster that is there already, for simulations on several machines: Flower's engine finds it by a variable."""

import os
import socket
from collections.abc import Mapping
from typing import Final

from fedct_flwr.text.printable import quoted
from fedct_flwr.types import ConfigError, RunError

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
