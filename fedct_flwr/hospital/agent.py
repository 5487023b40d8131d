"""The silo's agent: one process that stays, takes messages from its SuperNode, and lets answers out through the gate.

It runs the ``client_app`` that is installed here. The code that comes with a message is neither written nor imported;
its hash goes into the egress log. Nothing that goes wrong at a message ends the agent, and no text of an error leaves.

Three threads, and a fourth while a model is trained: the first waits for the signal to stop, the second talks to the
SuperNode and decides, and the third is the ``Monitor``. Neither a hanging connection nor long training keeps the agent
from stopping, or from seeing that its approval was withdrawn.
"""

import contextlib
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from flwr.app import Context, Message, RecordDict
from threadpoolctl import ThreadpoolController

from client_app.main import app
from fedct_flwr.datasets.inspection.finding import gathered
from fedct_flwr.flower.runtime_client import Asker, SuperNode, SuperNodeError, Task, carried_task
from fedct_flwr.hospital import opted_out
from fedct_flwr.hospital.agent_status import STATUS_FILE, Status, StatusFile
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.file_watch import FileWatch, Monitor
from fedct_flwr.hospital.gate import Held
from fedct_flwr.hospital.latest_state import NOT_APPROVED, approval_state, open_log, remember
from fedct_flwr.hospital.log_entry import Event, LogEntry, is_revoked
from fedct_flwr.hospital.log_line import about
from fedct_flwr.hospital.offline_transport import Answer, Question, digest, seal, unseal
from fedct_flwr.hospital.opening import open_gate
from fedct_flwr.process_end import end_process
from fedct_flwr.silo.opening import gated, open_silo_context
from fedct_flwr.silo.own import OwnSilo
from fedct_flwr.silo.site import WRITING
from fedct_flwr.text.printable import count, cut, logger, printable
from fedct_flwr.types import DataError, FedctError, Refusal, RunError
from fedct_flwr.wire.codec import decode_instruction
from fedct_flwr.wire.messages import ACTION, from_record, to_record

_POLL_SECONDS: Final = 0.2
_AGAIN_SECONDS: Final = 0.1
_MAX_AWAY_SECONDS: Final = 5.0
_MAX_REFUSAL_SECONDS: Final = 30.0
"""Each refusal is a line of the log: this bounds what a hostile coordinator can make of it. Not so long that the agent
counts as silent.
"""
_FILE_SECONDS: Final = 10.0
"""To write the file that is being written when the process is to end."""
_PING_SECONDS: Final = 1.0
_WATCH_SECONDS: Final = 0.1
_GRACE_SECONDS: Final = 4.0
"""To say goodbye to the SuperNode when stopped."""
_LEAST_ROOM: Final = 2**20
"""Bytes that a medium must have left for an answer that is carried."""
_HASH_DIGITS: Final = 64
"""Digits of a SHA-256. The coordinator sends it, and may send a text of any length."""

Say = Callable[[str], None]


def start_agent(silo_file: Path, say: Say) -> None:
    """``run_agent`` until SIGTERM, SIGINT or SIGHUP, as all that a process does: then it ends with exit code 0.

    Raises ConfigError, DataError or RunError as ``run_agent`` does, before it has begun.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    run_agent(silo_file, stop=stop, say=say)
    # Training cannot be interrupted, and Python waits for or trips over what still runs inside a library. So the
    # process ends at once, but not in the middle of a file.
    WRITING.acquire(timeout=_FILE_SECONDS)
    end_process(0)


def run_agent(silo_file: Path, *, stop: threading.Event, say: Say) -> None:
    """Answer messages until ``stop`` is set; returns within seconds, also in the middle of training.

    A model may then still be in training, in a thread whose result is dropped: see ``start_agent``. ``say`` gets one
    sentence for whatever a person at the silo should know. Raises ConfigError, DataError, or RunError if another
    process works for this silo or its egress log is not intact.
    """
    own = OwnSilo.read(silo_file.resolve())
    config = own.config
    with (
        about(part="agent", silo=config.silo),
        open_log(config) as log,
    ):
        remember(config, log)
        supernode = SuperNode(config.connection.supernode, config.connection.secret)
        try:
            agent = Agent(own, log, supernode, stop, say)
            worker = threading.Thread(target=agent.run, name="agent", daemon=True)
            worker.start()
            agent.monitor.start(stop)
            stop.wait()
            worker.join(_GRACE_SECONDS)
            agent.end()
            remember(config, log)
            if agent.failed:
                raise RunError("the agent met an unexpected error; see the log")
        finally:
            supernode.close()
    with contextlib.suppress(OSError, ValueError):
        say("stopped")


def answer_file(silo_file: Path, question_file: Path, answer_file: Path, say: Say) -> bool:
    """Answer one question that was carried here, through the same gate and log. Whether labels left.

    The answer is a sealed file; a refusal is one too. Raises ConfigError, DataError or RunError as ``run_agent`` does,
    and DataError for a question that was not sealed for this silo.
    """
    own = OwnSilo.read(silo_file)
    config = own.config
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
        post = _AnswerFile(answer_file, digest(question_file), config.connection.secret, say)
        agent = Agent(own, log, post, threading.Event(), say)
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


class Agent:
    """One silo at work: its records, model, gate and log, kept warm between messages."""

    def __init__(
        self,
        own: OwnSilo,
        log: EgressLog,
        supernode: Asker,
        stop: threading.Event,
        say: Say,
    ) -> None:
        # Before the study is read: what changes from here on shuts the gate.
        files, config, study = FileWatch(own), own.config, own.study
        self._own = own
        self._node_config: dict[str, bool | float | int | str] = {"silo-file": str(own.file)}
        self._gate = open_gate(config, study, log, lambda: files.unchanged() and not is_revoked(config.state))
        self._supernode = supernode
        self._silo = config.silo
        self._remember = partial(remember, config, log)
        self.failed = False
        self._stop = stop
        self._tell = say
        # Before the records are read: an id that is added meanwhile counts as not left out.
        out = opted_out.marks(config, log.key)
        # Warm from here on: data, public set and learner are kept by the client app.
        with gated(own):
            site = open_silo_context(self._context(0, 0, {})).site
        self._terms = site.terms
        self._threads = ThreadpoolController()
        self._status = StatusFile(config.state / STATUS_FILE, Status(os.getpid(), time.time(), study.name))
        self._trouble = ""
        self._code_seen = ("", 0)
        self._looked_up = 0.0
        self.monitor = Monitor(log, config.state, files, self._status, self._say)
        log.append(LogEntry(Event.OPENED, study.name, study.public.fingerprint.hex(), details=site.result))
        opted_out.keep(config.state, out, log.chain.number)
        records, approval = count(site.private.size, "record"), approval_state(config, study, list(log.entries()))
        self._say(f"silo {config.silo} is ready: {records} to train on, study {study.name}, learner "
            f"{config.learner.name}; {NOT_APPROVED.get(approval, approval)}")  # fmt: skip
        for found in gathered(site.findings):
            self._say(found.sentence)

    def run(self) -> None:
        """Answer messages until stopped."""
        try:
            with about(part="agent", silo=self._silo):
                self._serve()
        except BaseException:
            logger.exception("The agent met an unexpected error")
            self.failed = True
        finally:
            self._stop.set()

    def end(self) -> None:
        """Note that the agent has stopped."""
        self._status.put(urgent=True, pid=0, connected=False, working=False)

    def _serve(self) -> None:
        away = refused = 0.0
        while not self._stop.is_set():
            try:
                task = self._supernode.acquire()
            except Exception as error:
                self._no_contact(error)
                away = min(2 * away or _AGAIN_SECONDS, _MAX_AWAY_SECONDS)
                self._stop.wait(away)
                continue
            away = 0.0
            self._contact()
            if task is None:
                self._stop.wait(_POLL_SECONDS)
                continue
            with about(run=task.run_id):
                answered = self.answer(task)
            # Refused questions in quick succession must not keep a silo busy.
            refused = 0.0 if answered else min(2 * refused or _AGAIN_SECONDS, _MAX_REFUSAL_SECONDS)
            if refused > _AGAIN_SECONDS:
                self._stop.wait(refused)

    def answer(self, task: Task) -> bool:
        """Answer one message. Whether labels left."""
        before = self._gate.answers()
        self._show_code(task)
        now = time.time()
        self._status.put(working=True, since=now, asked=now)
        afterwards: list[Callable[[], None]] = []
        try:
            with self._supernode.kept_alive(task, self._contact):
                answer = self._answer(task, afterwards)
            if task.lost.is_set():
                self._say(f"run {task.run_id} was cancelled; the reply was not sent")
            elif answer is None:
                self._say(f"nothing is sent to run {task.run_id}; the egress log says why")
            else:
                self._supernode.push(task, answer)
        except SuperNodeError as error:
            self._say(f"the answer to run {task.run_id} was not handed over: {error}")
        except Exception:
            logger.exception("An unexpected error at a message")
        answered = self._gate.answers() != before
        if answered:
            self._remember()
            self._settle(afterwards)
        self._status.put(working=False, since=0.0)
        return answered

    def _answer(self, task: Task, afterwards: list[Callable[[], None]]) -> RecordDict | None:
        """The gate's reply; None if nothing goes back. ``afterwards`` gets work for after the reply has left."""
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
        self._status.put(round=number)
        with about(round=number):
            return self._answered(task, request, number, afterwards)

    def _answered(
        self, task: Task, request: bytes, number: int, afterwards: list[Callable[[], None]]
    ) -> RecordDict | None:
        """The same for a question that was let in."""
        gate, run = self._gate, task.run_id
        began, before, answers = time.monotonic(), gate.spent(), gate.answers()
        reply = self._trained(task, afterwards)
        if self._stop.is_set():
            self._say(f"stopped in round {number} of run {run}: no labels left")
            return gate.refuse(Refusal.STOPPING, run, task.code_hash)
        if reply is None:
            return gate.refuse(Refusal.INTERNAL, run, task.code_hash)
        # An answer is logged as released only if the SuperNode still waits for it.
        if not self._supernode.awaits(task):
            task.lost.set()
            return gate.refuse(Refusal.NOT_AWAITED, run, task.code_hash, send=False)
        answer = gate.release(reply.content, request, run, task.code_hash)
        if gate.answers() != answers:
            sent, seconds = gate.spent().bytes - before.bytes, time.monotonic() - began
            self._say(f"round {number} of run {run}: an answer left in {sent} bytes, after {seconds:.1f} s")
        return answer

    def _trained(self, task: Task, afterwards: list[Callable[[], None]]) -> Message | None:
        """The client app's reply; None if it has none, or if the agent is to stop before it is there."""
        context = self._context(task.run_id, task.node_id, task.run_config)
        replies: list[Message] = []

        def work() -> None:
            with gated(self._own) as later:
                replies.append(app(task.message, context))
            afterwards.extend(later)

        # As long as the SuperNode waits for the answer, it is heard from with each heartbeat.
        self._in_background(work, lambda: self._look_up() if task.lost.is_set() else self._status.put())
        return replies[0] if replies else None

    def _settle(self, afterwards: list[Callable[[], None]]) -> None:
        """Let the silo's own model learn, once the answer has left: no one outside waits for that, or is told."""

        def work() -> None:
            for each in afterwards:
                each()

        self._in_background(work, self._look_up)

    def _in_background(self, work: Callable[[], None], meanwhile: Callable[[], None]) -> None:
        """Do some work in a thread until it is done, or the agent is to stop: training cannot be interrupted."""
        done = threading.Event()

        def worker() -> None:
            try:
                # Threads that wait for each other cost more than they bring, and this is not the only process here.
                with self._threads.limit(limits=1):
                    work()
            except BaseException:
                logger.exception("An unexpected error in the client app")
            finally:
                done.set()

        threading.Thread(target=worker, name="training", daemon=True).start()
        while not done.wait(_WATCH_SECONDS) and not self._stop.is_set():
            meanwhile()

    def _context(self, run: int, node: int, run_config: dict[str, bool | float | int | str]) -> Context:
        # Fresh for each message: what lasts is in files here, and nothing goes back but the answer.
        return Context(run, node, self._node_config, RecordDict(), run_config)

    def _say(self, sentence: str) -> None:
        # A full disk under the log or a closed terminal is no reason to stop answering.
        with contextlib.suppress(OSError, ValueError):
            self._tell(printable(sentence))

    def _show_code(self, task: Task) -> None:
        if self._code_seen != (task.code_hash, task.run_id):
            self._code_seen = (task.code_hash, task.run_id)
            self._say(
                f"run {task.run_id} offers code with SHA-256 {cut(task.code_hash, _HASH_DIGITS)}, which is not executed"
            )

    def _contact(self) -> None:
        if self._trouble or not self._status.connected:
            self._say(f"connected to the SuperNode at {self._supernode.address}")
        self._trouble = ""
        self._status.put(connected=True, seen=time.time())

    def _no_contact(self, error: Exception) -> None:
        if isinstance(error, SuperNodeError):
            sentence = str(error)
        else:
            sentence = f"an unexpected error with the SuperNode at {self._supernode.address}; see the log"
            logger.error("An unexpected error with the SuperNode", exc_info=error)
        if sentence != self._trouble and not self._stop.is_set():
            self._say(f"{sentence}; trying again")
        self._trouble = sentence
        self._status.put(connected=False)

    def _look_up(self) -> None:
        """See whether the SuperNode is there, once a second."""
        if time.monotonic() - self._looked_up < _PING_SECONDS:
            return
        self._looked_up = time.monotonic()
        try:
            self._supernode.ping()
        except FedctError as error:
            self._no_contact(error)
        else:
            self._contact()
