"""Memory of who has opted out since when: which answers may have used a patient's records.

The state folder keeps a mark for each id of the list, with the line of the egress log with which the agent opened and
left it out first. A mark is an HMAC under the silo's egress key, so the file alone names no patient.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedct_flwr import datasets
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.files import UNREADABLE, write_atomically

FILE: Final = "opted-out.json"


def marks(config: SiloConfig, key: Ed25519PrivateKey) -> list[str]:
    """The marks of all ids on the list; none without one. Raises ConfigError or DataError."""
    ids = datasets.ids_opted_out(config.data).to_pylist() if config.data.opt_out else []
    return [hmac.digest(key.private_bytes_raw(), each.encode(), hashlib.sha256).hex() for each in ids]


def keep(state: Path, now: Iterable[str], line: int) -> None:
    """Write down who is left out since which line; ids that left the list are forgotten. Raises OSError."""
    before, marked = since(state), list(now)
    if before or marked:
        write_atomically(state / FILE, json.dumps({mark: before.get(mark, line) for mark in marked}).encode())


def since(state: Path) -> Mapping[str, int]:
    """The line of the log from which each mark is left out; empty where that is not known."""
    try:
        return {str(mark): int(line) for mark, line in json.loads((state / FILE).read_bytes()).items()}
    except (*UNREADABLE, AttributeError, TypeError):
        return {}
