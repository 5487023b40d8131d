"""Questions and answers as sealed files, for a silo whose records are on a machine without any connection.

Both ends of the carried way have the secret of the silo's folder (``connection/secret``). A file is one Fernet token
(AES-128-CBC and HMAC-SHA-256, by ``cryptography``), under a key derived from that secret by HKDF (RFC 5869), another
one for each direction. So a file that was changed, cut, swapped or made by a stranger does not open, and a finder of
the medium reads nothing.
"""

import base64
import hashlib
import json
import stat
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final, TypeVar, get_origin

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.types import ConfigError, DataError

SUFFIX: Final = ".fedct"
_MOST_BYTES: Final = 64 * 2**20

RunConfig = dict[str, bool | float | int | str]


@dataclass(frozen=True)
class Question:
    """What a SuperNode got for the silo. ``payload`` is empty where a message has no records that make sense.

    ``code`` is the SHA-256 (hex) of the code that the coordinator offered with it, which is not carried.
    """

    run: int
    node: int
    message_type: str
    code: str
    run_config: RunConfig
    payload: bytes


@dataclass(frozen=True)
class Answer:
    """What the silo's gate let out. ``question`` is the SHA-256 (hex) of the question's file."""

    question: str
    payload: bytes


_PURPOSES: Final = {Question: b"fedct carried question 1", Answer: b"fedct carried answer 1"}
_Sealed = TypeVar("_Sealed", Question, Answer)


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hex digits. Raises DataError if it cannot be read."""
    return hashlib.sha256(_read(path)).hexdigest()


def seal(path: Path, sealed: Question | Answer, secret: Path) -> None:
    """Write a file. Raises ConfigError for a secret that cannot be read, OSError if there is no room."""
    content = asdict(sealed) | {"payload": base64.b64encode(sealed.payload).decode()}
    write_atomically(path, _fernet(secret, type(sealed)).encrypt(json.dumps(content).encode()))


def unseal(kind: type[_Sealed], path: Path, secret: Path) -> _Sealed:
    """What a file holds. The gate cannot log a question with a number that is none.

    Raises DataError if the file is none of this silo's, ConfigError without a secret.
    """
    try:
        found = json.loads(_fernet(secret, kind).decrypt(_read(path)))
        content = {**found, "payload": base64.b64decode(found["payload"], validate=True)}
    except (InvalidToken, ValueError, KeyError, TypeError):
        raise _odd(path) from None
    types = {one.name: get_origin(one.type) or one.type for one in fields(kind)}
    if content.keys() != types.keys() or any(type(value) is not types[name] for name, value in content.items()):
        raise _odd(path)
    return kind(**content)


def _odd(path: Path) -> DataError:
    return DataError(
        f"{path} was not sealed for this purpose with this silo's connection/secret, or was changed on the way: carry "
        "the file again, between two folders of the same silo"
    )


def _read(path: Path) -> bytes:
    try:
        # A medium may hold links to devices of this machine, of which some have no end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise DataError(f"{path} is no file: carry the file again")
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    if len(content) > _MOST_BYTES:
        raise DataError(f"{path} has more than {_MOST_BYTES // 2**20} MB, as no question or answer has")
    return content


def _fernet(secret: Path, kind: type[Question | Answer]) -> Fernet:
    try:
        key = secret.read_bytes().strip()
        if not key:
            raise ConfigError(f"{secret} is empty: it holds what both ends of the carried way know each other by")
        derived = HKDF(SHA256(), 32, salt=None, info=_PURPOSES[kind]).derive(key)
    except OSError:
        raise ConfigError(f"cannot read {secret}: it is made by 'fedct silo init', and both ends need it") from None
    return Fernet(base64.urlsafe_b64encode(derived))
