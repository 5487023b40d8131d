"""Questions and answers as sealed files, for a silo whose records are on a machine without any connection.

Both ends of the carried way have the secret of the silo's folder (``connection/secret``). A file is one Fernet token
(AES-128-CBC and HMAC-SHA-256, by ``cryptography``), under a key derived from that secret by HKDF (RFC 5869), another
one for each direction. So a file that was changed, cut, swapped or made by a stranger does not open, and a finder of
the medium reads nothing. The ``Carrier`` stands where the agent stands otherwise, but has no records and decides
nothing: ``answer_file`` of the agent asks the gate where the records are.
"""

import base64
import contextlib
import hashlib
import json
import stat
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final, TypeVar, get_origin

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedct_flwr.files import write_atomically
from fedct_flwr.flower.runtime_client import SuperNode, SuperNodeError, Task
from fedct_flwr.types import ConfigError, DataError, FedctError, Refused
from fedct_flwr.wire.messages import from_record, to_record

SUFFIX: Final = ".fedct"
_MOST_BYTES: Final = 64 * 2**20

RunConfig = dict[str, bool | float | int | str]


@dataclass(frozen=True)
class OfflineQuestion:
    """A question that a SuperNode got for the silo. ``payload`` is empty where a message has no valid records.

    ``code`` is the SHA-256 (hex) of the code that the coordinator offered with it, which is not carried.
    """

    run: int
    node: int
    message_type: str
    code: str
    run_config: RunConfig
    payload: bytes


@dataclass(frozen=True)
class OfflineAnswer:
    """An answer that the silo's gate released. ``question`` is the SHA-256 (hex) of the question's file."""

    question: str
    payload: bytes


_PURPOSES: Final = {OfflineQuestion: b"fedct carried question 1", OfflineAnswer: b"fedct carried answer 1"}
_Sealed = TypeVar("_Sealed", OfflineQuestion, OfflineAnswer)


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hex digits. Raises DataError if it cannot be read."""
    return hashlib.sha256(_read(path)).hexdigest()


def seal(path: Path, sealed: OfflineQuestion | OfflineAnswer, secret: Path) -> None:
    """Write a file. Raises ConfigError for a secret that cannot be read, OSError if there is no room."""
    content = asdict(sealed) | {"payload": base64.b64encode(sealed.payload).decode()}
    write_atomically(path, _fernet(secret, type(sealed)).encrypt(json.dumps(content).encode()))


def unseal(kind: type[_Sealed], path: Path, secret: Path) -> _Sealed:
    """Read a sealed file. The gate cannot log a question with an invalid number.

    Raises DataError if the file is not this silo's, ConfigError without a secret.
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


def _fernet(secret: Path, kind: type[OfflineQuestion | OfflineAnswer]) -> Fernet:
    try:
        key = secret.read_bytes().strip()
        if not key:
            raise ConfigError(f"{secret} is empty: it holds what both ends of the carried way know each other by")
        derived = HKDF(SHA256(), 32, salt=None, info=_PURPOSES[kind]).derive(key)
    except OSError:
        raise ConfigError(f"cannot read {secret}: it is made by 'fedct silo init', and both ends need it") from None
    return Fernet(base64.urlsafe_b64encode(derived))


_LOOK_SECONDS: Final = 0.5
_NAME_DIGITS: Final = 8

Say = Callable[[str], None]


@dataclass
class Carrier:
    """Serves one SuperNode with the files of one folder, until ``stop`` is set."""

    supernode: SuperNode
    secret: Path
    files: Path
    say: Say
    stop: threading.Event
    _odd: tuple[str, float] = ("", 0.0)

    def run(self) -> None:
        """Carry one question after the other. Raises ConfigError for a secret or a folder that cannot be used."""
        trouble = ""
        while not self.stop.is_set():
            task = None
            try:
                task, error = self.supernode.acquire(), ""
            except SuperNodeError as why:
                error = str(why)
            if error and error != trouble:
                self.say(f"{error}; trying again")
            trouble = error
            if task is None:
                self.stop.wait(_LOOK_SECONDS)
            else:
                self._carry(task)

    def _carry(self, task: Task) -> None:
        try:
            payload = from_record(task.message.content)
        except Refused:
            payload = b""
        asked = OfflineQuestion(
            task.run_id, task.node_id, task.message.metadata.message_type, task.code_hash, task.run_config, payload
        )
        # The message's own name comes from the coordinator, and could be a path.
        digest = hashlib.sha256(task.message.metadata.message_id.encode()).hexdigest()[:_NAME_DIGITS]
        name = f"{task.run_id}-{digest}"
        question, answer = self.files / f"question-{name}{SUFFIX}", self.files / f"answer-{name}{SUFFIX}"
        try:
            seal(question, asked, self.secret)
        except OSError as error:
            # The medium is away or full. The SuperNode reports the task as failed after a minute.
            self.say(f"the question of run {task.run_id} was not put into {question}: {error.strerror}")
            return
        self.say(f"a question of run {task.run_id} is in {question}: carry it to the records, and bring {answer.name}")
        try:
            with self.supernode.kept_alive(task, lambda: None):
                self._await(task, question, answer)
        finally:
            _remove(question)

    def _await(self, task: Task, question: Path, answer: Path) -> None:
        """Hand the answer over as soon as it is there, unless its task is lost."""
        while not self.stop.wait(_LOOK_SECONDS):
            if task.lost.is_set():
                self.say(f"the coordinator no longer waits for an answer of run {task.run_id}: the question is void")
                return
            payload = self._payload(question, answer)
            if payload is None:
                continue
            try:
                self.supernode.push(task, to_record(payload))
            except SuperNodeError as error:
                self.say(f"the answer to run {task.run_id} was not handed over: {error}")
                continue
            self.say(f"the answer in {answer.name} was handed over")
            _remove(answer)
            return

    def _payload(self, question: Path, answer: Path) -> bytes | None:
        """Payload of the answer's file; None while there is no such file, or one that is not whole."""
        try:
            changed = answer.stat().st_mtime
        except OSError:
            return None
        if self._odd == (answer.name, changed):
            return None
        try:
            found = unseal(OfflineAnswer, answer, self.secret)
            if found.question == digest(question):
                return found.payload
            self.say(f"{answer} answers another question: bring the answer to {question.name}")
        except FedctError as error:
            self.say(str(error))
        self._odd = (answer.name, changed)
        return None


def _remove(path: Path) -> None:
    # The medium may be gone or read-only. Both files are sealed and no longer needed.
    with contextlib.suppress(OSError):
        path.unlink()
