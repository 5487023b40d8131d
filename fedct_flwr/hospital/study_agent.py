"""The agent of a silo that co-trains: it answers with the ``client_app`` that is installed here, through the gate.

Also the answer to one question that was carried here by hand.
"""

import contextlib
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from flwr.app import Context, Error, Message, RecordDict

from client_app.main import app
from fedct_flwr.datasets.inspection import Redaction, gathered
from fedct_flwr.flower.runtime_client import Asker, SuperNodeError, Task, carried_task
from fedct_flwr.hospital import opted_out
from fedct_flwr.hospital.agent import Agent, Say
from fedct_flwr.hospital.agent import AgentAnswer as Sent
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.file_watch import FileWatch
from fedct_flwr.hospital.gate import Gate, Held
from fedct_flwr.hospital.latest_state import NOT_APPROVED, approval_state, open_log, remember
from fedct_flwr.hospital.log_entry import Event, LogEntry, is_revoked
from fedct_flwr.hospital.log_line import about
from fedct_flwr.hospital.offline_transport import OfflineAnswer, OfflineQuestion, digest, seal, unseal
from fedct_flwr.hospital.opening import open_gate
from fedct_flwr.silo.own import OwnSilo
from fedct_flwr.silo.round import gated, open_silo_context
from fedct_flwr.types import DataError, Refusal
from fedct_flwr.wire.codec import decode_instruction
from fedct_flwr.wire.messages import ACTION, from_record, to_record

_LEAST_ROOM: Final = 2**20
"""Bytes that a medium must have left for an answer that is carried."""


class StudyAgent(Agent):
    """One silo in a study: its records, model, gate and log, kept warm between messages."""

    _gate: Gate

    def __init__(self, own: OwnSilo, log: EgressLog, supernode: Asker, stop: threading.Event, say: Say) -> None:
        # Before the study is read: what changes from here on shuts the gate.
        files, config, study = FileWatch.of_study(own), own.config, own.study
        self._own = own
        self._node_config: dict[str, bool | float | int | str] = {"silo-file": str(own.file)}
        self._gate = open_gate(config, study, log, lambda: files.unchanged() and not is_revoked(config.state))
        # Before the records are read: an id that is added meanwhile counts as not left out.
        out = opted_out.marks(config, log.key)
        # Warm from here on: data, public set and learner are kept by the client app.
        with gated(own):
            site = open_silo_context(self._context(0, 0, {})).site
        self._terms = site.terms
        super().__init__(config, study.name, files, self._gate, log, supernode, stop, say)
        log.append(LogEntry(Event.OPENED, study.name, study.public.fingerprint.hex(), details=site.result))
        opted_out.keep(config.state, out, log.chain.number)
        # The exact number next to that of the file would tell how many have opted out.
        records = Redaction(private=True).number(site.private.size, "record")
        approval = approval_state(config, study, list(log.entries()))
        self._say(f"silo {config.silo} is ready: {records} to train on, study {study.name}, learner "
            f"{config.learner.name}; {NOT_APPROVED.get(approval, approval)}")  # fmt: skip
        for found in gathered(site.findings):
            self._say(found.sentence)

    def _answer(self, task: Task, afterwards: list[Callable[[], None]]) -> Sent:
        gate, run = self._gate, task.run_id
        if task.message.metadata.message_type == f"query.{ACTION}":
            return gate.add(task.message.content, run, task.code_hash)
        if task.message.metadata.message_type != "train":
            return gate.refuse(Refusal.MALFORMED, run, task.code_hash)
        try:
            request = gate.admit(task.message.content, run, task.code_hash)
        except Held as held:
            return held.record
        number = decode_instruction(request, self._terms).round

        def reply() -> Message:
            with gated(self._own) as later:
                found = app(task.message, self._context(run, task.node_id, task.run_config))
            afterwards.extend(later)
            return found

        with about(round=number):
            return self._answered(
                task, number, reply, lambda found: gate.release(found.content, request, run, task.code_hash)
            )

    def _context(self, run: int, node: int, run_config: dict[str, bool | float | int | str]) -> Context:
        # Fresh for each message: what lasts is in files here, and nothing goes back but the answer.
        return Context(run, node, self._node_config, RecordDict(), run_config)


def answer_file(silo_file: Path, question_file: Path, answer_file: Path, say: Say) -> bool:
    """Answer one question that was carried here, through the same gate and log. Whether labels left.

    The answer is a sealed file; a refusal is one too. Raises ConfigError, DataError or RunError as ``run_agent`` does,
    and DataError for a question that was not sealed for this silo.
    """
    own = OwnSilo.read(silo_file)
    config = own.config
    question = unseal(OfflineQuestion, question_file, config.connection.secret)
    content = to_record(question.payload) if question.payload else RecordDict()
    try:
        task = carried_task(
            question.run, question.node, question.message_type, question.code, question.run_config, content
        )
    except ValueError:
        # Flower checks the kinds of messages that are made, and not of those that come.
        raise DataError(f"{question_file} holds a message of a kind that Flower does not have: do not answer") from None
    with open_log(config) as log:
        post = _AnswerFile(answer_file, digest(question_file), config.connection.secret, say)
        agent = StudyAgent(own, log, post, threading.Event(), say)
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

    def push(self, task: Task, content: RecordDict | Error) -> None:
        payload = from_record(content) if isinstance(content, RecordDict) else b""
        try:
            seal(self._path, OfflineAnswer(self._question, payload), self._secret)
        except OSError as error:
            raise SuperNodeError(f"cannot write {self._path}: {error.strerror}") from None
