"""An invitation: one signed file with all that a silo needs to join a study, from its coordinator.

Two lines stand before a ZIP archive: a public key with its Ed25519 signature over the second line, and a JSON object
with silo, study, address, date of expiry and the archive's SHA-256. The archive has the study and certificates, and
nothing that runs. It is opened only after signature, date and fingerprint have been checked: anybody can sign an
archive that unpacks to more than a disk holds.

The signature proves that one coordinator wrote all of it. The fingerprint of its key tells which one, compared by a
second way; a silo that has joined knows the key, and takes later certificates from that coordinator alone.
"""

import hashlib
import re
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pydantic
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from fedct_flwr.config.settings import Address, Name, Settings, config_error
from fedct_flwr.datasets.study_folder import MOST_BYTES, MOST_ENTRIES
from fedct_flwr.files import check_is_file
from fedct_flwr.types import ConfigError

COORDINATOR_KEY: Final = "coordinator.pub"
"""Where a silo keeps, in its folder ``connection``, by which key it knows its coordinator."""
CERTIFICATES: Final = ("ca.crt", "client.crt", "client.key")

_PURPOSE: Final = b"fedct invitation "
_FORMAT: Final = 2
_LONGEST_LINE: Final = 4096
_DAMAGED: Final = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError, OverflowError)
"""Python's errors for a file that is not an archive, is encrypted, or is cut short."""
_FILE: Final = re.compile(r"ca\.crt|client\.(crt|key)|study/[^\\:\0]+")
_ANEW: Final = "ask the coordinator for a new invitation"
_SHOWN: Final = ("silo", "study", "superlink")


class Invitation(Settings):
    """Contents of the signed line. Names and address are written as settings are: people compare a fingerprint there.

    ``signer`` is the key that signed it, as PEM, which the line itself does not say.
    """

    format: int = _FORMAT
    silo: Name
    study: Name
    superlink: Address
    expires: pydantic.AwareDatetime
    sha256: str = ""
    signer: bytes = pydantic.Field(default=b"", exclude=True)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the signer's key."""
        return fingerprint_of(load_pem_public_key(self.signer))  # type: ignore[arg-type]  # an Ed25519 key, as proven


def fingerprint_of(key: Ed25519PublicKey) -> str:
    """128 bits of the key's SHA-256 as eight groups of four digits, to be read out over the telephone."""
    digits = hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:32]
    return "-".join(digits[start : start + 4] for start in range(0, len(digits), 4))


def write_invitation(path: Path, invitation: Invitation, files: Mapping[str, Path], key: Ed25519PrivateKey) -> None:
    """Write an invitation with these files by their names in it, whole or not at all; only its owner may read it.

    Raises OSError.
    """
    with (
        tempfile.TemporaryFile() as packed,
        tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as made,
    ):
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, file in files.items():
                archive.write(file, name)
        packed.seek(0)
        signed = invitation.model_copy(update={"sha256": hashlib.file_digest(packed, "sha256").hexdigest()})
        manifest, public = signed.model_dump_json().encode(), key.public_key().public_bytes_raw()
        signature = key.sign(_PURPOSE + manifest)
        try:
            made.write(f"{public.hex()} {signature.hex()}\n".encode() + manifest + b"\n")
            packed.seek(0)
            shutil.copyfileobj(packed, made)
            made.flush()
            Path(made.name).replace(path)
        except BaseException:
            Path(made.name).unlink(missing_ok=True)
            raise


@contextmanager
def opened_invitation(
    path: Path, check: Callable[[Invitation], None], *, known: Ed25519PublicKey | None = None
) -> Iterator[tuple[Invitation, Path]]:
    """Contents of a proven invitation, and a temporary folder with its files.

    ``check`` is asked whether this is the right coordinator's, and raises where it is not, before the archive is
    opened. ``known`` is the key by which the silo knows its coordinator already. Raises ConfigError for a file that is
    no invitation, was changed, is another coordinator's, has expired, or holds what does not belong there.
    """
    with _faults(path):
        invitation = _proven(path, known)
    check(invitation)
    with tempfile.TemporaryDirectory(prefix="fedct-") as folder:
        with _faults(path):
            _extract(path, Path(folder))
        yield invitation, Path(folder)


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


def _proven(path: Path, known: Ed25519PublicKey | None) -> Invitation:
    """The signed contents. Raises ValueError for a file that is no invitation, and ConfigError for an invalid one."""
    check_is_file(path)
    with path.open("rb") as file:
        signed, manifest = (file.readline(_LONGEST_LINE).rstrip(b"\n") for _ in range(2))
        public, signature = map(bytes.fromhex, signed.decode("ascii").split(" "))
        key = Ed25519PublicKey.from_public_bytes(public)
        if known is not None and key != known:
            raise ConfigError(
                f"{path} was signed by another key than the invitation that this silo has joined with: ask the "
                "coordinator by telephone before you take it"
            )
        try:
            key.verify(signature, _PURPOSE + manifest)
            found = Invitation.model_validate_json(manifest)
            if hashlib.file_digest(file, "sha256").hexdigest() != found.sha256:
                raise InvalidSignature
        except InvalidSignature:
            raise ConfigError(f"{path} is forged or damaged, as its signature does not match: {_ANEW}") from None
        except pydantic.ValidationError as error:
            if (where := error.errors()[0]["loc"]) and where[0] in _SHOWN:
                raise config_error(error, str(path)) from None
            raise ConfigError(f"{path} was made by another version of fedct: install the coordinator's") from None
    if found.expires < datetime.now(UTC):
        raise ConfigError(f"{path} expired on {found.expires:%Y-%m-%d}: {_ANEW}, or set this machine's clock")
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return found.model_copy(update={"signer": pem})


def _extract(path: Path, folder: Path) -> None:
    """Write the files of a proven invitation. Raises ConfigError for what does not belong there."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        size = sum(member.file_size for member in members)
        if len(members) > MOST_ENTRIES or size > MOST_BYTES:
            raise ConfigError(f"{path} is too large for an invitation: ask the coordinator")
        if size > shutil.disk_usage(folder).free:
            raise ConfigError(f"{path} unpacks to {size:,} bytes, for which {folder.parent} has no space: make room")
        for member in members:
            if not _FILE.fullmatch(member.filename) or ".." in member.filename.split("/"):
                raise ConfigError(f"{path} holds {member.filename!r}, which belongs in no invitation: {_ANEW}")
            archive.extract(member, folder)
    if lacks := [name for name in CERTIFICATES if not (folder / name).is_file()]:
        raise ConfigError(f"{path} lacks {', '.join(lacks)}: {_ANEW}")
