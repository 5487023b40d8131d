"""The end of an air gap where the records are: one question's sealed file in, one answer's sealed file out.

The agent, its gate and its log are those of a silo with a connection; only the post is another one.
"""

import contextlib
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from flwr.app import RecordDict

from fedct_flwr.config import SiloConfig
from fedct_flwr.flower.runtime_client import SuperNodeError, Task, carried_task
from fedct_flwr.hospital.agent import Agent, Say
from fedct_flwr.hospital.latest_state import open_log, remember
from fedct_flwr.hospital.offline_transport import Answer, Question, digest, seal, unseal
from fedct_flwr.hospital.revocation import put_down
from fedct_flwr.hospital.watch import Watched
from fedct_flwr.types import DataError
from fedct_flwr.wire.messages import from_record, to_record

_LEAST_ROOM: Final = 2**20
"""Bytes that a medium must have left."""


def answer_file(silo_file: Path, question_file: Path, answer_file: Path, say: Say) -> bool:
    """Answer one question that was carried here, through the same gate and log. Whether labels left.

    The answer is a sealed file; a refusal is one too. Raises ConfigError, DataError or RunError as ``run_agent`` does,
    and DataError for a question that was not sealed for this silo.
    """
    config = SiloConfig.read_toml(silo_file)
    files = Watched(silo_file, config)
    question = unseal(Question, question_file, config.connection.secret)
    content = to_record(question.payload) if question.payload else RecordDict()
    try:
        task = carried_task(
            question.run, question.node, question.message_type, question.code, question.run_config, content
        )
    except ValueError:
        # Flower checks the kinds of messages that are made, and not of those that come.
        raise DataError(f"{question_file} holds a message of a kind that Flower does not have: do not answer") from None
    with open_log(config) as log:
        put_down(log, config.state)
        post = _AnswerFile(answer_file, digest(question_file), config.connection.secret, say)
        agent = Agent(silo_file, config, log, post, files, threading.Event(), say)
        try:
            return agent.answer(task)
        finally:
            agent.end()
            remember(config, log)


class _AnswerFile:
    """Where the answer to a carried question goes."""

    def __init__(self, path: Path, question: str, secret: Path, say: Say) -> None:
        self.address = str(path)
        self._path, self._question, self._secret, self._say = path, question, secret, say

    def acquire(self) -> Task | None:
        return None

    def ping(self) -> None:
        pass

    def kept_alive(self, task: Task, heard: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def awaits(self, task: Task) -> bool:
        # Tried before the labels are logged as released: a full or read-only medium is seen here.
        try:
            # A new file of an unguessable name: a medium may hold links to files of this machine.
            with tempfile.NamedTemporaryFile(dir=self._path.parent, prefix=".") as trial:
                trial.write(bytes(_LEAST_ROOM))
                trial.flush()
        except OSError as error:
            self._say(f"cannot write {self._path}: {error.strerror}")
            return False
        return True

    def push(self, task: Task, content: RecordDict) -> None:
        try:
            seal(self._path, Answer(self._question, from_record(content)), self._secret)
        except OSError as error:
            raise SuperNodeError(f"cannot write {self._path}: {error.strerror}") from None
