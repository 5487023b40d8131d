"""The connected end of an air gap: questions of the SuperNode become sealed files, and answers go back to it.

It stands where the agent stands otherwise, but has no records and decides nothing: people carry the files to the
machine with the records, where ``answer_file`` in ``agent`` asks the gate.
"""

import contextlib
import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fedct_flwr.flower.runtime_client import SuperNode, SuperNodeError, Task
from fedct_flwr.hospital.sealed_file import SUFFIX, Answer, Question, digest, seal, unseal
from fedct_flwr.types import FedctError
from fedct_flwr.wire.messages import from_record, to_record
from fedct_flwr.wire.refusal import Refused

_LOOK_SECONDS: Final = 0.5
_LONGEST_AWAY: Final = 30.0
_NAME_DIGITS: Final = 8

Say = Callable[[str], None]


class Carrier:
    """Serves one SuperNode with the files of one folder, until ``stop`` is set."""

    def __init__(self, supernode: SuperNode, secret: Path, files: Path, say: Say, stop: threading.Event) -> None:
        self._supernode = supernode
        self._secret = secret
        self._files = files
        self._say = say
        self._stop = stop
        self._odd: tuple[str, float] = ("", 0.0)

    def run(self) -> None:
        """Carry one question after the other. Raises ConfigError for a secret or a folder that cannot be used."""
        away, trouble = _LOOK_SECONDS, ""
        while not self._stop.is_set():
            try:
                task = self._supernode.acquire()
            except SuperNodeError as error:
                if str(error) != trouble:
                    self._say(f"{error}; trying again")
                trouble = str(error)
                self._stop.wait(away)
                away = min(2 * away, _LONGEST_AWAY)
                continue
            away, trouble = _LOOK_SECONDS, ""
            if task is None:
                self._stop.wait(_LOOK_SECONDS)
            else:
                self._carry(task)

    def _carry(self, task: Task) -> None:
        try:
            payload = from_record(task.message.content)
        except Refused:
            payload = b""
        asked = Question(
            task.run_id, task.node_id, task.message.metadata.message_type, task.code_hash, task.run_config, payload
        )
        # The message's own name comes from the coordinator, and could be a path.
        told = hashlib.sha256(task.message.metadata.message_id.encode()).hexdigest()[:_NAME_DIGITS]
        name = f"{task.run_id}-{told}"
        question, answer = self._files / f"question-{name}{SUFFIX}", self._files / f"answer-{name}{SUFFIX}"
        try:
            seal(question, asked, self._secret)
        except OSError as error:
            # Somebody has the medium, or it is full. The SuperNode reports the task as failed after a minute.
            self._say(f"the question of run {task.run_id} was not put into {question}: {error.strerror}")
            return
        self._say(f"a question of run {task.run_id} is in {question}: carry it to the records, and bring {answer.name}")
        try:
            with self._supernode.kept_alive(task, lambda: None):
                self._await(task, question, answer)
        finally:
            _remove(question)

    def _await(self, task: Task, question: Path, answer: Path) -> None:
        """Hand the answer over as soon as it is there, unless nobody waits for it any more."""
        while not self._stop.wait(_LOOK_SECONDS):
            if task.lost.is_set():
                self._say(f"the coordinator no longer waits for an answer of run {task.run_id}: the question is void")
                return
            payload = self._payload(question, answer)
            if payload is None:
                continue
            try:
                self._supernode.push(task, to_record(payload))
            except SuperNodeError as error:
                self._say(f"the answer to run {task.run_id} was not handed over: {error}")
                continue
            self._say(f"the answer in {answer.name} was handed over")
            _remove(answer)
            return

    def _payload(self, question: Path, answer: Path) -> bytes | None:
        """What the answer's file lets out; None while there is no such file, or one that is not whole."""
        try:
            changed = answer.stat().st_mtime
        except OSError:
            return None
        if self._odd == (answer.name, changed):
            return None
        try:
            found = unseal(Answer, answer, self._secret)
            if found.question == digest(question):
                return found.payload
            self._say(f"{answer} answers another question: bring the answer to {question.name}")
        except FedctError as error:
            self._say(str(error))
        self._odd = (answer.name, changed)
        return None


def _remove(path: Path) -> None:
    # On a medium that is gone, or read-only: both are sealed, and nobody waits for them any more.
    with contextlib.suppress(OSError):
        path.unlink()
