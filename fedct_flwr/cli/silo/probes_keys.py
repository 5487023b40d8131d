"""Keys, the log, who may read what, and whether anything is approved."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

from fedct_flwr.cli.silo.findings import Finding, Silo, bad, good, warning
from fedct_flwr.hospital.approval import approving_digests, current
from fedct_flwr.hospital.keys import load_egress_key, load_public_key, public_key_path
from fedct_flwr.hospital.latest_state import lost_ledger, lost_line
from fedct_flwr.hospital.log_entry import read_entries
from fedct_flwr.hospital.log_proof import verify_log
from fedct_flwr.hospital.revocation import is_revoked
from fedct_flwr.text.plural import count
from fedct_flwr.types import ConfigError, FedctError

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def egress_key(silo: Silo) -> Iterator[Finding]:
    """The key that signs the log, and its public half."""
    path = silo.config.egress_key
    try:
        public = load_egress_key(path).public_key()
        beside = load_public_key(public_key_path(path))
    except ConfigError as error:
        yield bad("egress key: it is missing or damaged", "put back keys/egress.key and keys/egress.pub", error)
        return
    raw = [key.public_bytes(Encoding.Raw, PublicFormat.Raw) for key in (public, beside)]
    if raw[0] != raw[1]:
        yield bad("egress key: the public key is that of another one", "put back keys/egress.key and keys/egress.pub")
    else:
        yield good(f"egress key: {silo.shown(path)} and its public half")


def egress_log(silo: Silo) -> Iterator[Finding]:
    """Whether the log of all that left is intact."""
    config = silo.config
    try:
        key = load_public_key(public_key_path(config.egress_key))
    except ConfigError as error:
        yield bad("egress log: without the public key nobody can tell", "put back keys/egress.pub", error)
        return
    verdict = verify_log(config.state, key, config.silo)
    if line := lost_line(config):
        yield bad(
            f"egress log: line {line:,}, which keys remember, is gone: the state folder is not mounted, or an older "
            "copy was put back",
            "mount it, or restore the latest copy; fedct silo start says more",
        )
    elif verdict.intact and lost_ledger(config, read_entries(config.state)):
        yield bad(
            "privacy ledger: it is gone, and labels have left under its budget",
            "restore the state folder as a whole from the latest backup; until then nothing leaves",
        )
    elif verdict.intact:
        yield good(f"egress log: intact, {count(verdict.lines, 'line')}")
    else:
        where = f" from line {verdict.bad_line}" if verdict.bad_line else ""
        yield bad(f"egress log: not intact{where}", "fedct silo verify says more; until then nothing leaves")


def node_key(silo: Silo) -> Iterator[Finding]:
    """The SuperNode's key, by which the coordinator knows this silo."""
    path = silo.config.connection.node_key
    try:
        key = load_ssh_private_key(path.read_bytes(), None)
        usable = isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP384R1)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        usable = False
    if usable:
        yield good(f"node key: {silo.shown(path)}; the coordinator must know {silo.shown(path)}.pub")
    else:
        yield bad(
            f"node key: {silo.shown(path)} is missing or no ECDSA P-384 key", "put back the one of fedct silo init"
        )


def modes(silo: Silo) -> Iterator[Finding]:
    """Whether other users of the machine can read what they must not."""
    if os.name != "posix":
        yield warning("file modes: not looked at on this system", "let nobody but the silo's user read its folder")
        return
    config = silo.config
    secret = [config.egress_key, config.connection.node_key, config.connection.secret]
    # Whoever may not enter the folder cannot read what is in it.
    own = [silo.file, config.state]
    if not config.connection.secret.is_file() or not config.connection.secret.stat().st_size:
        shown = silo.shown(config.connection.secret)
        yield bad(f"secret: {shown} is missing or empty", "make the silo's folder with fedct silo init")
    exposed = [path for path in secret if _open_to_others(path)]
    for path in exposed:
        yield bad(f"file modes: others can read {silo.shown(path)}", f"chmod 600 {silo.shown(path)}")
    curious = [path for path in own if _open_to_others(path)]
    if curious:
        yield warning(
            f"file modes: others can read {', '.join(silo.shown(path) for path in curious[:5])}",
            "chmod -R go= . in the silo's folder",
        )
    if not exposed and not curious:
        yield good("file modes: only the owner can read keys, settings and state")


def approval(silo: Silo) -> Iterator[Finding]:
    """Whether the study is approved as it is now."""
    config, agreed = silo.config, silo.study
    try:
        approved = current(read_entries(config.state))
    except FedctError as error:
        yield bad("approval: the egress log cannot be read", "fedct silo verify says more", error)
        return
    if approved is None or is_revoked(config.state):
        yield warning("approval: nothing is approved, so nothing leaves", "fedct silo approve")
    elif approved not in approving_digests(config, agreed):
        yield warning("approval: study or settings have changed since, so nothing leaves", "fedct silo approve")
    else:
        yield good("approval: the study is approved as it is now")


def _open_to_others(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & _OTHERS)
