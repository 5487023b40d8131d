"""An invitation: one signed file with all that a silo needs to join a study, from its coordinator.

It is a ZIP archive: ``invitation.json`` (silo, study, address, when it expires, and the SHA-256 of each file),
``invitation.sig`` (an Ed25519 signature over that), ``invitation.pub`` (whose), and the files: study and certificates.
Nothing that runs is in it, and nothing of it is written before signature, date and fingerprint have been checked:
anybody can sign an archive that unpacks to more than a disk holds, or that reads like a sentence of ours.

The signature proves that one coordinator wrote all of it. Which one that is, the fingerprint of its key tells, compared
by a second way; a silo that has joined knows the key, and accepts later certificates from its holder alone.
"""

import hashlib
import json
import re
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Final

import pydantic
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from fedct_flwr.config.names import Address, Name
from fedct_flwr.config.settings import Settings, told
from fedct_flwr.datasets.study_copy import MOST_BYTES, MOST_ENTRIES
from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.files.regular import check_is_file
from fedct_flwr.types import ConfigError

COORDINATOR_KEY: Final = "coordinator.pub"
"""Where a silo keeps, in its folder ``connection``, by which key it knows its coordinator."""

_MANIFEST, _SIGNATURE, _SIGNER = "invitation.json", "invitation.sig", "invitation.pub"
_PURPOSE: Final = b"fedct invitation "
_FORMAT: Final = 1
_LONGEST_MANIFEST: Final = 64 << 20
_LONGEST_KEY: Final = 4096
_SIZE, _LOCATION = 5, 9
"""Of what zipfile says of an archive's end: bytes of the directory, and where the end is."""
_LARGE_END: Final = 76
"""Bytes between both in an archive with more than 65,535 members."""
_CHUNK: Final = 1 << 20
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""How members may be packed: an invitation's are, and each other method has errors and bombs of its own."""
_DAMAGED: Final = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError, OverflowError)
"""What Python says of an archive that is none, is encrypted, or is cut short."""
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


class _Manifest(Settings):
    """``invitation.json``. Names and address are written as settings are: people compare a fingerprint next to them."""

    format: int
    silo: Name
    study: Name
    superlink: Address
    expires: pydantic.AwareDatetime
    files: dict[str, str]


_NEEDED: Final = ("kit.toml", "ca.crt", "client.crt", "client.key")
_SHOWN: Final = ("silo", "study", "superlink")


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
def opened_invitation(
    path: Path, check: Callable[[Invitation], None], *, known: Ed25519PublicKey | None = None
) -> Iterator[tuple[Invitation, Path]]:
    """What a proven invitation says, and a temporary folder with its files.

    ``check`` is asked whether this is the right coordinator's, and raises where it is not, before anything is unpacked.
    ``known`` is the key by which the silo knows its coordinator already. Raises ConfigError for a file that is no
    invitation, was changed, is another coordinator's, has expired, or holds what does not belong there.
    """
    with tempfile.TemporaryDirectory(prefix="fedct-") as folder:
        with _faults(path):
            check_is_file(path)
            _check_directory(path)
            archive = zipfile.ZipFile(path)
        with archive:
            with _faults(path):
                said, digests = _proven(archive, path, known)
            check(said)
            with _faults(path):
                _extract(archive, digests, Path(folder), path)
        yield said, Path(folder)


@contextmanager
def _faults(path: Path) -> Iterator[None]:
    """Make one sentence of what Python says of a file that cannot be read, or is no archive."""
    try:
        yield
    except _DAMAGED:
        raise ConfigError(f"{path} is no invitation, or a part of one: {_ANEW}") from None
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}: name the invitation that the coordinator has sent") from None
    except OSError as error:
        raise ConfigError(f"cannot unpack {path}: {error.strerror or error}") from None


def _check_directory(path: Path) -> None:
    """Raise BadZipFile for a directory of more members than an invitation has, which Python would read whole."""
    with path.open("rb") as file:
        # As the archive is read afterwards: by another reader of its last record, this could be another directory.
        end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
        if end is None or end[_SIZE] > _LONGEST_MANIFEST:
            raise zipfile.BadZipFile
        file.seek(max(0, end[_LOCATION] - end[_SIZE] - _LARGE_END))
        if file.read(end[_SIZE] + _LARGE_END).count(b"PK\x01\x02") > MOST_ENTRIES:
            raise zipfile.BadZipFile


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
    found = _manifest(manifest, path)
    if found.expires < datetime.now(UTC):
        raise ConfigError(f"{path} expired on {found.expires:%Y-%m-%d}: {_ANEW}, or set this machine's clock")
    said = Invitation(found.silo, found.study, found.superlink, found.expires, fingerprint_of(key), signer)
    return said, found.files


def _manifest(manifest: bytes, path: Path) -> _Manifest:
    """What is signed. Raises ConfigError."""
    try:
        found = _Manifest.model_validate_json(manifest)
    except pydantic.ValidationError as error:
        where = error.errors()[0]["loc"]
        if where and where[0] in _SHOWN:
            raise told(error, str(path)) from None
        found = None
    if found is None or found.format != _FORMAT:
        raise ConfigError(f"{path} was made by another version of fedct: install the coordinator's, or {_ANEW}")
    return found


def _extract(archive: zipfile.ZipFile, digests: Mapping[str, str], folder: Path, path: Path) -> None:
    """Write the files of the manifest, each as it was signed. Raises ConfigError."""
    there = {info.filename: info.file_size for info in archive.infolist()}
    size = sum(there.get(name, 0) for name in digests)
    if len(digests) > MOST_ENTRIES or size > MOST_BYTES:
        raise ConfigError(f"{path} is too large for an invitation: ask the coordinator")
    if size > shutil.disk_usage(folder).free:
        raise ConfigError(f"{path} unpacks to {size:,} bytes, for which {folder.parent} has no space: make room")
    for name, digest in digests.items():
        parts = PurePosixPath(name).parts
        if not _FILE.fullmatch(name) or ".." in parts or "\\" in name or ":" in name or "\0" in name:
            raise ConfigError(f"{path} holds {name!r}, which belongs in no invitation: {_ANEW}")
        target = folder.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if name not in there or _unpacked(archive, name, target) != digest:
            raise ConfigError(f"{path} is forged or damaged, as {name!r} is not what was signed: {_ANEW}")
    if lacks := [name for name in _NEEDED if name not in digests]:
        raise ConfigError(f"{path} lacks {', '.join(lacks)}: {_ANEW}")


def _unpacked(archive: zipfile.ZipFile, name: str, target: Path) -> str:
    target.touch(mode=0o600)
    digest = hashlib.sha256()
    with _opened(archive, name) as source, target.open("wb") as file:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(archive: zipfile.ZipFile, name: str, longest: int) -> bytes:
    with _opened(archive, name) as file:
        content = file.read(longest + 1)
    if len(content) > longest:
        raise ValueError(name)
    return content


def _opened(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """A member. Raises KeyError without one, NotImplementedError for one that is packed as none of ours is."""
    info = archive.getinfo(name)
    if info.compress_type not in _METHODS:
        raise NotImplementedError(name)
    return archive.open(info)
