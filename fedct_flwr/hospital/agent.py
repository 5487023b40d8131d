"""The silo's agent: one process that stays, takes messages from its SuperNode, and lets answers out through the gate.

It runs the app that is installed here: ``study_agent`` says how for co-training, ``app_agent`` for any other. The code
that comes with a message is neither written nor imported; its hash goes into the egress log. Nothing that goes wrong at
a message ends the agent, and no text of an error leaves.

Three threads, and a fourth while a model is trained: the first waits for the signal to stop, the second talks to the
SuperNode and decides, and the third is ``SiloWatch``. Neither a hanging connection nor long training keeps the agent
from stopping, or from seeing that its approval was withdrawn.
"""

import contextlib
import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from flwr.app import Error, Message, RecordDict
from threadpoolctl import ThreadpoolController

from fedct_flwr import hospital, silo
from fedct_flwr.config.silo import AppSilo, SiloFolder
from fedct_flwr.flower.runtime_client import Asker, SuperNode, SuperNodeError, Task
from fedct_flwr.hospital.agent_status import STATUS_FILE, Status, StatusFile
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.file_watch import FileWatch, SiloWatch
from fedct_flwr.hospital.latest_state import open_log, remember
from fedct_flwr.hospital.log_line import about
from fedct_flwr.process_end import end_process
from fedct_flwr.silo.site import WRITING
from fedct_flwr.text.printable import cut, logger, printable
from fedct_flwr.types import FedctError, Refusal, RunError

if TYPE_CHECKING:
    from fedct_flwr.config.silo import SiloConfig
    from fedct_flwr.hospital.app_gate import AppGate
    from fedct_flwr.hospital.gate import Gate

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
    config, make = _read(silo_file.resolve())
    with (
        about(part="agent", silo=config.silo),
        open_log(config) as log,
    ):
        remember(config, log)
        connection = config.connection
        supernode = SuperNode(connection.supernode, connection.secret, other_app=isinstance(config, AppSilo))
        try:
            agent = make(log, supernode, stop, say)
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


def _read(file: Path) -> "tuple[SiloFolder, Callable[[EgressLog, Asker, threading.Event, Say], Agent]]":
    """The settings, read once, and what makes the silo's agent. Raises ConfigError, also for an app without code."""
    content = file.read_bytes() if os.access(file, os.R_OK) else b""
    config = SiloFolder.read_toml(file, content)
    if isinstance(config, AppSilo):
        return config, partial(hospital.AppAgent, hospital.AppAgent.watch(file, content, config), config)
    return config, partial(hospital.StudyAgent, silo.OwnSilo(file, content, cast("SiloConfig", config)))


AgentAnswer: TypeAlias = RecordDict | Error | None
"""Records, an error of Flower's, or nothing."""


class Agent(ABC):
    """One silo at work, with its gate and its log. A subclass says what a message is answered with."""

    threads: int | None = 1
    """Most threads of a library at work. More wait for each other, and this is not the only process here."""

    def __init__(
        self,
        config: SiloFolder,
        study: str,
        files: FileWatch,
        gate: "Gate | AppGate",
        log: EgressLog,
        supernode: Asker,
        stop: threading.Event,
        say: Say,
    ) -> None:
        """``study``: the name of the study, or the app."""
        self._gate: Gate | AppGate = gate
        self._supernode = supernode
        self._silo = config.silo
        self._remember = partial(remember, config, log)
        self.failed = False
        self._stop = stop
        self._tell = say
        self._threads = ThreadpoolController()
        self._status = StatusFile(config.state / STATUS_FILE, Status(os.getpid(), time.time(), study))
        self._trouble = ""
        self._code_seen = ("", 0)
        self._looked_up = 0.0
        self.monitor = SiloWatch(log, config.state, files, self._status, self._say)

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

    @abstractmethod
    def _answer(self, task: Task, afterwards: list[Callable[[], None]]) -> AgentAnswer:
        """The gate's reply; None if nothing goes back. ``afterwards`` gets work for after the reply has left."""

    def _answered(
        self, task: Task, number: int, reply: Callable[[], Message], release: Callable[[Message], AgentAnswer]
    ) -> AgentAnswer:
        """The same for a question that was let in: what ``release`` makes of the ``reply``, or a refusal."""
        gate, run = self._gate, task.run_id
        began, before, answers = time.monotonic(), gate.spent(), gate.answers()
        self._status.put(round=number)
        replies: list[Message] = []
        # As long as the SuperNode waits for the answer, it is heard from with each heartbeat.
        self._in_background(
            lambda: replies.append(reply()), lambda: self._look_up() if task.lost.is_set() else self._status.put()
        )
        if self._stop.is_set():
            self._say(f"stopped in round {number} of run {run}: nothing left")
            return gate.refuse(Refusal.STOPPING, run, task.code_hash)
        if not replies:
            return gate.refuse(Refusal.INTERNAL, run, task.code_hash)
        # An answer is logged as released only if the SuperNode still waits for it.
        if not self._supernode.awaits(task):
            task.lost.set()
            return gate.refuse(Refusal.NOT_AWAITED, run, task.code_hash, send=False)
        answer = release(replies[0])
        if gate.answers() != answers:
            sent, seconds = gate.spent().bytes - before.bytes, time.monotonic() - began
            self._say(f"round {number} of run {run}: an answer left in {sent} bytes, after {seconds:.1f} s")
        return answer

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
                with self._threads.limit(limits=self.threads):
                    work()
            except BaseException:
                logger.exception("An unexpected error in the client app")
            finally:
                done.set()

        threading.Thread(target=worker, name="training", daemon=True).start()
        while not done.wait(_WATCH_SECONDS) and not self._stop.is_set():
            meanwhile()

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
