"""Two approvers, two keys: an approval that one person alone cannot give.

``approvers`` in ``silo.toml`` names people and their Ed25519 public keys. Each signs the terms as they are; the first
signature waits in a file, the second makes the approval, whose line in the log has both. The terms include the
approvers, so another list of them is not what was approved. A signature is for one place in the log: once anything was
approved or revoked, it is worth nothing, though the log still shows it. Whoever may write all of the silo's folder and
reads the egress key can still do everything here: keep the folder's owner and the approvers apart.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature

from fedct_flwr.config import SiloConfig
from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.hospital.keys import load_egress_key, load_public_key
from fedct_flwr.hospital.log_entry import Event, LogEntry
from fedct_flwr.hospital.revocation import FIRST
from fedct_flwr.types import ConfigError

_PURPOSE: Final = b"fedct approver "


def last_decision(entries: Iterable[LogEntry]) -> int:
    """The number of the log's last line that approves or revokes; 0 without one."""
    return max((entry.number for entry in entries if entry.event in (Event.APPROVED, Event.REVOKED)), default=0)


def sign(config: SiloConfig, digest: bytes, by: str, key: Path | None, after: int) -> Mapping[str, str]:
    """Sign the terms, to be approved next ``after`` the line of the last decision.

    Returns both signatures by name if this is the second, and nothing if it is the first.

    Raises ConfigError for somebody who is no approver, or a key that is not this person's.
    """
    if by not in config.approvers:
        raise ConfigError(f"{by!r} is none of the approvers in silo.toml: give --by with one of their names, and --key")
    if key is None:
        raise ConfigError(f"--key is missing: {by} signs with a key of their own, as silo.toml names approvers")
    private = load_egress_key(key)
    if private.public_key() != load_public_key(config.approvers[by]):
        raise ConfigError(f"{key} is not the key of {by}, which {config.approvers[by]} would be the public half of")
    own = base64.b64encode(private.sign(_message(by, digest, after))).decode()
    path = config.state / FIRST
    signed = {**_valid(config, digest, after, path), by: own}
    if len(signed) < 2:
        config.state.mkdir(exist_ok=True, mode=0o700)
        write_atomically(path, json.dumps(signed).encode())
        return {}
    path.unlink(missing_ok=True)
    return signed


def _valid(config: SiloConfig, digest: bytes, after: int, path: Path) -> dict[str, str]:
    """The signatures that wait, of approvers of today, for the terms of today."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    valid = {}
    for name, signature in found.items() if isinstance(found, dict) else ():
        if name not in config.approvers:
            continue
        try:
            load_public_key(config.approvers[name]).verify(base64.b64decode(signature), _message(name, digest, after))
        except (InvalidSignature, ValueError, TypeError):
            continue
        valid[name] = signature
    return valid


def _message(name: str, digest: bytes, after: int) -> bytes:
    return _PURPOSE + json.dumps([name, after]).encode() + b" " + digest
