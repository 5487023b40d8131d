"""Names of studies and silos, and addresses: how each is written, wherever it comes from.

They become names of files, certificates and containers, and people compare keys and fingerprints next to them. So
neither holds a blank, nor anything else that could read like a sentence of ours or look like another name.
"""

import ipaddress
import re
from typing import Annotated, Final

from pydantic import AfterValidator

from fedct_flwr.text.printable import fault, quoted
from fedct_flwr.types import ConfigError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HOW: Final = "write at most 64 letters of A to Z, digits, '.', '_' and '-', with a letter or a digit first"
_HOST: Final = re.compile(r"(?!-)[\w-]{1,63}(\.[\w-]{1,63})*\.?")
_LONGEST_HOST: Final = 253
_PORTS: Final = 1 << 16
_ADDRESS: Final = "write host:port, such as host:8000"


def check_name(name: str) -> None:
    """Raise ConfigError for what is no silo's name."""
    if why := name_fault(name):
        raise ConfigError(why)


def name_fault(name: str) -> str | None:
    """Why this may not name a silo, as a sentence; None where it may.

    >>> name_fault("essen-2"), name_fault("essen 2")[:31]
    (None, "'essen 2' is no silo's name: wr")
    """
    return None if _NAME.fullmatch(name) else f"{quoted(name)} is no silo's name: {_HOW}"


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``; an IPv6 address may stand in brackets. Raises ValueError.

    >>> split_address("[::1]:9094")
    ('::1', 9094)
    """
    host, _, port = address.rpartition(":")
    host = host[1:-1] if host[:1] == "[" and host[-1:] == "]" else host
    if not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) < _PORTS and _is_host(host)):
        raise ValueError(_ADDRESS)
    return host, int(port)


def _is_host(host: str) -> bool:
    if ":" in host:
        try:
            # A zone behind it may be any text.
            return "%" not in host and bool(ipaddress.IPv6Address(host))
        except ValueError:
            return False
    return len(host) <= _LONGEST_HOST and fault(host) is None and _HOST.fullmatch(host) is not None


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(_HOW)
    return name


def _address(address: str) -> str:
    if why := fault(address):
        raise ValueError(why)
    split_address(address)
    return address


Name = Annotated[str, AfterValidator(_name)]
"""A study's or a silo's name."""
Address = Annotated[str, AfterValidator(_address)]
"""``host:port``."""
