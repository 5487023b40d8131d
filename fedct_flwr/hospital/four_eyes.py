"""Two approvers, two keys: an approval that one person alone cannot give.

``approvers`` in ``silo.toml`` names people and their Ed25519 public keys. Each signs the terms as they are; the first
signature waits in a file, the second makes the approval, whose line in the log has both. The terms include the
approvers, so another list of them is not what was approved. A signature is for one place in the log: once anything was
approved or revoked, it is worth nothing, though the log still shows it. The line in the log also names the approvers,
and they sign what is approved next: one person alone can neither strike them from ``silo.toml`` nor exchange their
keys. A person who may write all of the silo's folder and reads the egress key can still do everything here: keep the
folder's owner and the approvers apart.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedct_flwr.config import SiloConfig
from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.hospital.keys import load_egress_key, load_public_key
from fedct_flwr.hospital.log_entry import Event, LogEntry
from fedct_flwr.types import ConfigError

_PURPOSE: Final = b"fedct approver "
FIRST: Final = "approval.first"
"""The signature of the first of two approvers, which waits for the second."""
KEYS: Final = "approver-keys"
"""In the line of an approval: the approvers of then, with their keys."""


def last_decision(entries: Iterable[LogEntry]) -> int:
    """The number of the log's last line that approves or revokes; 0 without one."""
    return max((entry.number for entry in entries if entry.event in (Event.APPROVED, Event.REVOKED)), default=0)


def approvers_now(config: SiloConfig, entries: Iterable[LogEntry]) -> dict[str, Ed25519PublicKey]:
    """Who approves next, by name: the approvers of the last approval, or those in ``silo.toml`` if it had none.

    Raises ConfigError where two have the same key, or where the log tells names alone and ``silo.toml`` has others.
    """
    own = approvers_of(config)
    last: Mapping[str, Any] = {}
    for entry in entries:
        last = entry.details if entry.event is Event.APPROVED else last
    keys, signed = last.get(KEYS), last.get("approvers")
    if isinstance(keys, Mapping):
        return {name: Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)) for name, key in keys.items()}
    # A line of before keys were logged: one person must not end four eyes by an upgrade.
    if isinstance(signed, Mapping) and (lost := signed.keys() - own.keys()):
        raise ConfigError(
            f"{' and '.join(sorted(lost))} approved last: put them back under approvers in silo.toml, let two approve "
            "that, and then change the list"
        )
    return own


def approvers_of(config: SiloConfig) -> dict[str, Ed25519PublicKey]:
    """The approvers in ``silo.toml``. Raises ConfigError where two have the same key."""
    keys = {name: load_public_key(path) for name, path in config.approvers.items()}
    if len(set(as_hex(keys).values())) < len(keys):
        raise ConfigError("two approvers in silo.toml have the same key: let each make a key of their own")
    return keys


def as_hex(keys: Mapping[str, Ed25519PublicKey]) -> dict[str, str]:
    """The keys as 64 hexadecimal digits each."""
    return {name: key.public_bytes(Encoding.Raw, PublicFormat.Raw).hex() for name, key in keys.items()}


def sign(
    config: SiloConfig,
    approvers: Mapping[str, Ed25519PublicKey],
    digest: bytes,
    by: str,
    key: Path | None,
    after: int,
) -> Mapping[str, str]:
    """Sign the terms as one of ``approvers_now``, to be approved next ``after`` the line of the last decision.

    Returns both signatures by name if this is the second, and nothing if it is the first.

    Raises ConfigError for a name that is not an approver's, or a key that is not this person's.
    """
    if by not in approvers:
        names = ", ".join(approvers)
        raise ConfigError(f"{by!r} is none of the approvers ({names}): give --by with one of their names, and --key")
    if key is None:
        raise ConfigError(f"--key is missing: {by} signs with a key of their own, as approvers were named")
    private = load_egress_key(key)
    if private.public_key() != approvers[by]:
        raise ConfigError(f"{key} is not the key of {by}: give the one whose public half was named for {by}")
    own = base64.b64encode(private.sign(_message(by, digest, after))).decode()
    path = config.state / FIRST
    signed = {**_valid(approvers, digest, after, path), by: own}
    if len(signed) < 2:
        config.state.mkdir(exist_ok=True, mode=0o700)
        write_atomically(path, json.dumps(signed).encode())
        return {}
    path.unlink(missing_ok=True)
    return signed


def _valid(approvers: Mapping[str, Ed25519PublicKey], digest: bytes, after: int, path: Path) -> dict[str, str]:
    """The signatures that wait, of these approvers, for the terms of today."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    valid = {}
    for name, signature in found.items() if isinstance(found, dict) else ():
        if name not in approvers:
            continue
        try:
            approvers[name].verify(base64.b64decode(signature), _message(name, digest, after))
        except (InvalidSignature, ValueError, TypeError):
            continue
        valid[name] = signature
    return valid


def _message(name: str, digest: bytes, after: int) -> bytes:
    return _PURPOSE + json.dumps([name, after]).encode() + b" " + digest
