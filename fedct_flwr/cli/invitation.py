"""An invitation: one signed file with all that a silo needs to join a study, from its coordinator.

It is a ZIP archive: ``invitation.json`` (silo, study, address, when it expires, and the SHA-256 of each file),
``invitation.sig`` (an Ed25519 signature over that), ``invitation.pub`` (whose), and the files: study and certificates.
Nothing that runs is in it, and nothing of it is written before the signature and the date have been checked.

The signature proves that one coordinator wrote all of it. Which one that is, the fingerprint of its key tells, compared
by a second way; a silo that has joined knows the key, and takes later certificates from nobody else.
"""

import hashlib
import json
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from fedct_flwr.config.settings import NAME_PATTERN
from fedct_flwr.datasets.study_copy import MOST_BYTES, MOST_ENTRIES
from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.types import ConfigError

COORDINATOR_KEY: Final = "coordinator.pub"
"""Where a silo keeps, in its folder ``connection``, by which key it knows its coordinator."""

_MANIFEST, _SIGNATURE, _SIGNER = "invitation.json", "invitation.sig", "invitation.pub"
_PURPOSE: Final = b"fedct invitation "
_FORMAT: Final = 1
_LONGEST_MANIFEST: Final = 64 << 20
_LONGEST_KEY: Final = 4096
_CHUNK: Final = 1 << 20
_FILE: Final = re.compile(r"kit\.toml|ca\.crt|client\.(crt|key)|study/.+")
_ANEW: Final = "ask the coordinator for a new invitation"


@dataclass(frozen=True)
class Invitation:
    """What an invitation says. ``signer`` is the key that signed it, as PEM, and ``fingerprint`` that key's."""

    silo: str
    study: str
    superlink: str
    expires: datetime
    fingerprint: str = ""
    signer: bytes = b""


def fingerprint_of(key: Ed25519PublicKey) -> str:
    """128 bits of the key's SHA-256 as eight groups of four digits, to be read out over the telephone."""
    digits = hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:32]
    return "-".join(digits[start : start + 4] for start in range(0, len(digits), 4))


def write_invitation(path: Path, said: Invitation, files: Mapping[str, Path], key: Ed25519PrivateKey) -> None:
    """Write an invitation with these files by their names in it, whole or not at all; only its owner may read it.

    Raises OSError.
    """
    manifest = json.dumps(
        {
            "format": _FORMAT,
            "silo": said.silo,
            "study": said.study,
            "superlink": said.superlink,
            "expires": said.expires.isoformat(timespec="seconds"),
            "files": {name: _digest(file) for name, file in files.items()},
        },
        sort_keys=True,
    ).encode()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as made:
        try:
            with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(_MANIFEST, manifest)
                archive.writestr(_SIGNATURE, key.sign(_PURPOSE + manifest))
                archive.writestr(_SIGNER, public)
                for name, file in files.items():
                    archive.write(file, name)
            made.flush()
            Path(made.name).replace(path)
        except BaseException:
            Path(made.name).unlink(missing_ok=True)
            raise


@contextmanager
def opened_invitation(path: Path, *, known: Ed25519PublicKey | None = None) -> Iterator[tuple[Invitation, Path]]:
    """What a proven invitation says, and a temporary folder with its files.

    ``known`` is the key by which the silo knows its coordinator already. Raises ConfigError for a file that is no
    invitation, was changed, is another coordinator's, has expired, or holds what does not belong there.
    """
    with tempfile.TemporaryDirectory(prefix="fedct-") as folder:
        try:
            with zipfile.ZipFile(path) as archive:
                said, digests = _proven(archive, path, known)
                _extract(archive, digests, Path(folder), path)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, RuntimeError):
            raise ConfigError(f"{path} is no invitation, or a part of one: {_ANEW}") from None
        except FileNotFoundError:
            raise ConfigError(f"there is no file {path}: name the invitation that the coordinator has sent") from None
        except OSError as error:
            raise ConfigError(f"cannot unpack {path}: {error.strerror or error}") from None
        yield said, Path(folder)


def keep_signer(public: bytes, connection: Path) -> None:
    """Remember by which key the silo knows its coordinator."""
    write_atomically(connection / COORDINATOR_KEY, public)


def _proven(
    archive: zipfile.ZipFile, path: Path, known: Ed25519PublicKey | None
) -> tuple[Invitation, Mapping[str, str]]:
    try:
        manifest = _read(archive, _MANIFEST, _LONGEST_MANIFEST)
        signer = _read(archive, _SIGNER, _LONGEST_KEY)
        key = load_pem_public_key(signer)
        signature = _read(archive, _SIGNATURE, _LONGEST_KEY)
    except (KeyError, ValueError, UnsupportedAlgorithm):
        raise ConfigError(f"{path} is no invitation: {_ANEW}") from None
    if known is not None and (not isinstance(key, Ed25519PublicKey) or key != known):
        raise ConfigError(
            f"{path} was signed by another key than the invitation that this silo has joined with: ask the coordinator "
            "by telephone before you take it"
        )
    try:
        if not isinstance(key, Ed25519PublicKey):
            raise InvalidSignature
        key.verify(signature, _PURPOSE + manifest)
    except InvalidSignature:
        raise ConfigError(f"{path} is forged or damaged, as its signature does not match: {_ANEW}") from None
    try:
        found = json.loads(manifest)
        said = Invitation(
            str(found["silo"]), str(found["study"]), str(found["superlink"]),
            datetime.fromisoformat(found["expires"]), fingerprint_of(key), signer,
        )  # fmt: skip
        digests = {str(name): str(digest) for name, digest in found["files"].items()}
        known_format = found["format"] == _FORMAT and said.expires.tzinfo and re.fullmatch(NAME_PATTERN, said.silo)
    except (ValueError, KeyError, TypeError, AttributeError):
        known_format = None
    if not known_format:
        raise ConfigError(f"{path} was made by another version of fedct: install the coordinator's, or {_ANEW}")
    if said.expires < datetime.now(UTC):
        raise ConfigError(f"{path} expired on {said.expires:%Y-%m-%d}: {_ANEW}, or set this machine's clock")
    return said, digests


def _extract(archive: zipfile.ZipFile, digests: Mapping[str, str], folder: Path, path: Path) -> None:
    """Write the files of the manifest, each as it was signed. Raises ConfigError."""
    there = {info.filename: info.file_size for info in archive.infolist()}
    if len(digests) > MOST_ENTRIES or sum(there.get(name, 0) for name in digests) > MOST_BYTES:
        raise ConfigError(f"{path} is too large for an invitation: ask the coordinator")
    for name, digest in digests.items():
        parts = PurePosixPath(name).parts
        if not _FILE.fullmatch(name) or ".." in parts or "\\" in name or ":" in name or "\0" in name:
            raise ConfigError(f"{path} holds {name!r}, which belongs in no invitation: {_ANEW}")
        target = folder.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if name not in there or _unpacked(archive, name, target) != digest:
            raise ConfigError(f"{path} is forged or damaged, as {name!r} is not what was signed: {_ANEW}")


def _unpacked(archive: zipfile.ZipFile, name: str, target: Path) -> str:
    target.touch(mode=0o600)
    digest = hashlib.sha256()
    with archive.open(name) as source, target.open("wb") as file:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(archive: zipfile.ZipFile, name: str, longest: int) -> bytes:
    with archive.open(name) as file:
        content = file.read(longest + 1)
    if len(content) > longest:
        raise ValueError(name)
    return content
