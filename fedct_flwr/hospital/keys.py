"""The silo's keys: one that signs its egress log, one that Flower's SuperNode shows to the coordinator.

Private keys are files that only their owner may read. No key is ever overwritten: a lost egress key makes the whole
log before it unprovable.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from fedct_flwr.types import ConfigError

_OWNER_ONLY: Final = 0o600
_FOR_ALL: Final = 0o644


def create_egress_key(path: Path) -> None:
    """Make the Ed25519 key that signs the egress log (PEM, PKCS #8), with the public key next to it in ``*.pub``.

    Raises ConfigError if either file exists or cannot be written.
    """
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    _write_pair(path, private, public_key_path(path), public)


def public_key_path(path: Path) -> Path:
    """Where the public half of an egress key lies."""
    return path.with_suffix(".pub")


def create_node_key(path: Path) -> None:
    """Make the ECDSA P-384 key of the silo's SuperNode in OpenSSH format, with the public key next to it in ``*.pub``.

    The same as ``ssh-keygen -t ecdsa -b 384``. The public file is what the coordinator registers. Raises ConfigError
    if either file exists or cannot be written.
    """
    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    _write_pair(path, private, path.with_name(f"{path.name}.pub"), public + b"\n")


def load_egress_key(path: Path) -> Ed25519PrivateKey:
    """The key that signs the egress log. Raises ConfigError."""
    load = partial(load_pem_private_key, password=None)
    wrong = "holds no Ed25519 private key in PEM: put back the one that was made"
    key: Ed25519PrivateKey = loaded(path, load, Ed25519PrivateKey, wrong)
    return key


def load_public_key(path: Path) -> Ed25519PublicKey:
    """The key that proves the egress log. Raises ConfigError."""
    wrong = "holds no Ed25519 public key in PEM: put back the one that was made"
    key: Ed25519PublicKey = loaded(path, load_pem_public_key, Ed25519PublicKey, wrong)
    return key


def loaded(path: Path, load: Callable[[bytes], object], kind: type[Any], wrong: str) -> Any:
    """A file's key. Raises ConfigError; ``wrong`` says of a file without such a key what it is, and what to do."""
    key = None
    try:
        key = load(path.read_bytes())
    except FileNotFoundError:
        raise ConfigError(f"there is no key {path}: put back the one that was there, or name another file") from None
    except OSError as error:
        raise ConfigError(f"cannot read the key {path}: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        pass
    if not isinstance(key, kind):
        raise ConfigError(f"{path} {wrong}")
    return key


def _write_pair(path: Path, private: bytes, public_path: Path, public: bytes) -> None:
    for file in (path, public_path):
        if file.exists():
            raise ConfigError(f"the key {file} exists: it is not overwritten; move it away to make a new one")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(path, private, _OWNER_ONLY)
        _write(public_path, public, _FOR_ALL)
    except OSError as error:
        raise ConfigError(f"cannot write the key {path}: {error.strerror}") from None


def _write(path: Path, content: bytes, mode: int) -> None:
    # With its mode from the first moment on: no other user may read a private key even for a millisecond.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
