"""The same ServerApp and ClientApps in one process, with every message serialized: milliseconds a round."""

import contextlib
import logging
import math
import os
import queue
import re
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.serverapp import ServerApp
from flwr.supercore.task_identity import TaskIdentity

from client_app.main import app as own_client_app
from fedct_flwr import learners
from fedct_flwr.files import unsynced
from fedct_flwr.flower.grid import ErrorCode, PromptGrid
from fedct_flwr.learners import Train
from fedct_flwr.learners.out_of_fold import one_thread
from fedct_flwr.process_end import LIBRARY_THREAD
from fedct_flwr.types import RunError
from server_app.main import app as own_server_app

if TYPE_CHECKING:
    from fedct_flwr.learners.meeting import Meeting

_SUPERLINK: Final = 1
"""The SuperLink's own node."""
_FIRST_NODE_ID: Final = 100
_LOOK_SECONDS: Final = 0.2
"""Seconds until a request to stop is noticed."""
_ONE_RUN: Final = threading.RLock()
"""Held by the run of this process: learners, Flower's log and torch's threads are there once."""
_THREAD_STOP_SECONDS: Final = 30.0
_LAST_ANSWER_SECONDS: Final = 25.0
"""Seconds that a stopped run waits for silos at work."""
_NO_FILTERS: Final = "`sklearn.utils.parallel.delayed` should be used with `sklearn.utils.parallel.Parallel`"
"""Start of the warning of a forest that got no warning filters."""

# Flower keeps the identity of the running task in one place per process.
_one_run_at_a_time = threading.Lock()


def simulated_nodes(count: int) -> list[dict[str, Any]]:
    """Node configs as Flower's simulation makes them."""
    return [{"partition-id": i, "num-partitions": count} for i in range(count)]


def run_loopback(
    server_app: ServerApp,
    client_app: ClientApp,
    run_config: Mapping[str, Any],
    node_configs: Sequence[Mapping[str, Any]],
    workers: int | None = None,
    stopped: threading.Event | None = None,
    train: Train | None = None,
) -> Context:
    """Run a ServerApp with one ClientApp per node config; returns the ServerApp's context.

    ``workers`` messages are handled at the same time (default: one per core, at least two). A silo that is not done
    when the ServerApp gives up waiting does not count any more. Raises the ServerApp's errors. Once
    ``stopped`` is set, the ServerApp gets a RunError where it asks silos. ``train`` trains the networks of all silos
    that are asked at once, which then take turns.
    """
    run_id = secrets.randbits(62)
    workers = len(node_configs) if train else workers or max(2, os.cpu_count() or 1)
    grid = LoopbackGrid(client_app, run_config, node_configs, workers, run_id, stopped, train)
    context = Context(run_id, _SUPERLINK, {}, RecordDict(), dict(run_config))
    with _one_run_at_a_time, _task_identity(run_id), one_thread(), unsynced(), _steady_warnings():
        try:
            server_app(grid=grid, context=context)
        finally:
            grid.close()
    return context


class LoopbackGrid(PromptGrid):
    """A Grid whose nodes live in this process, each with a context of its own that lasts for the run."""

    def __init__(
        self,
        client_app: ClientApp,
        run_config: Mapping[str, Any],
        node_configs: Sequence[Mapping[str, Any]],
        workers: int,
        run_id: int,
        stopped: threading.Event | None = None,
        train: Train | None = None,
    ) -> None:
        self._stopped = stopped
        self._train = train
        self._client_app = client_app
        self._run_id = run_id
        self._contexts = {
            node_id: Context(run_id, node_id, dict(config), RecordDict(), dict(run_config))
            for node_id, config in enumerate(node_configs, start=_FIRST_NODE_ID)
        }
        self._turns = {node_id: threading.Lock() for node_id in self._contexts}
        self._inbox: queue.SimpleQueue[tuple[bytes, Meeting | None] | None] = queue.SimpleQueue()
        self._replies: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._unclaimed: dict[str, Message] = {}
        self._at_work: set[str] = set()
        self._at_work_lock = threading.Lock()
        self._workers = workers
        self._threads: list[threading.Thread] = []
        for _ in range(workers):
            self._start_worker()

    def close(self) -> None:
        """Let idle workers end; if the run was stopped, wait for those at work, though not for one that hangs."""
        stopped = self._stopped is not None and self._stopped.is_set()
        with contextlib.suppress(queue.Empty):
            while stopped:
                self._inbox.get_nowait()
        for _ in range(self._workers):
            self._inbox.put(None)
        # The caller may remove the run folder after a stop, to which a silo at work would still write.
        end = time.monotonic() + _LAST_ANSWER_SECONDS if stopped else 0.0
        for worker in self._threads if stopped else ():
            worker.join(max(0.0, end - time.monotonic()))

    def set_run(self, run: object) -> None:
        """Ignored: there is one run."""

    @property
    def run(self) -> Any:
        """The run, of which only the id is known."""
        return SimpleNamespace(run_id=self._run_id)

    def get_node_ids(self) -> list[int]:
        """All nodes."""
        return list(self._contexts)

    def get_nodes(self) -> list[Any]:
        """All nodes, without names, as in Flower's simulation."""
        return [SimpleNamespace(node_id=each, name="", public_key=b"", last_activated_at="") for each in self._contexts]

    def push_messages(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[str]:
        """Hand messages to their nodes, whose networks do not wait for a node that hangs till the ``timeout``."""
        self._check_not_stopped()
        messages, ids = list(messages), []
        meeting = learners.Meeting(len(messages), self._train, timeout and timeout / 3) if self._train else None
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            ids.append(message.metadata.message_id)
            self._inbox.put((message_to_proto(message).SerializeToString(), meeting))
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Replies to these messages that have arrived; replies to others are kept for later calls."""
        while not self._replies.empty():
            self._sort(self._replies.get())
        return [self._unclaimed.pop(name) for name in message_ids if name in self._unclaimed]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Send, and return the replies that come within ``timeout`` seconds."""
        pending = set(self.push_messages(messages, timeout=timeout))
        end = None if timeout is None else time.monotonic() + timeout
        received = []
        while pending:
            left = math.inf if end is None else max(0.0, end - time.monotonic())
            try:
                self._sort(self._replies.get(timeout=min(left, _LOOK_SECONDS)))
            except queue.Empty:
                self._check_not_stopped()
                if left > _LOOK_SECONDS:
                    continue
                self._replace_workers_on(pending)
                break
            for reply in self.pull_messages(list(pending)):
                pending.remove(reply.metadata.reply_to_message_id)
                received.append(reply)
        return received

    def _check_not_stopped(self) -> None:
        if self._stopped and self._stopped.is_set():
            raise RunError("the run was stopped")

    def _sort(self, raw: bytes) -> None:
        reply = _parse(raw)
        self._unclaimed[reply.metadata.reply_to_message_id] = reply

    def _start_worker(self) -> None:
        # A silo that hangs must not keep the process alive.
        self._threads.append(threading.Thread(target=self._work, name=LIBRARY_THREAD, daemon=True))
        self._threads[-1].start()

    def _replace_workers_on(self, message_ids: set[str]) -> None:
        with self._at_work_lock:
            given_up = self._at_work & message_ids
            self._at_work -= given_up
        for _ in given_up:
            self._start_worker()

    def _work(self) -> None:
        while (task := self._inbox.get()) is not None:
            message, meeting = _parse(task[0]), task[1]
            name = message.metadata.message_id
            with self._at_work_lock:
                self._at_work.add(name)
            with meeting.part() if meeting else contextlib.nullcontext():
                reply = self._answer(message)
            if reply:
                self._replies.put(message_to_proto(reply).SerializeToString())
            with self._at_work_lock:
                if name not in self._at_work:
                    return  # given up, and replaced
                self._at_work.remove(name)

    def _answer(self, message: Message) -> Message | None:
        """The node's reply, or None if the message has expired before its turn came."""
        node_id = message.metadata.dst_node_id
        with self._turns[node_id]:
            if time.time() > message.metadata.created_at + message.metadata.ttl:
                return None
            try:
                with one_thread(), unsynced():
                    return self._client_app(message, self._contexts[node_id])
            except Exception as error:  # the engine does the same with whatever an app raises
                return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, repr(error)), reply_to=message)


@contextmanager
def _steady_warnings() -> Iterator[None]:
    """Put warning filters back after the run: a forest empties the list that all threads share before Python 3.14."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", re.escape(_NO_FILTERS), UserWarning)
        show = warnings.showwarning

        def show_others(message: Warning | str, *where: Any, **more: Any) -> None:
            if not str(message).startswith(_NO_FILTERS):
                show(message, *where, **more)

        warnings.showwarning = show_others
        yield


def _parse(raw: bytes) -> Message:
    return message_from_proto(ProtoMessage.FromString(raw))


@contextmanager
def _task_identity(run_id: int) -> Iterator[None]:
    before = (TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id)
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, run_id, _SUPERLINK
    try:
        yield
    finally:
        TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id = before


def run_in_process(
    settings: Mapping[str, Any],
    num_silos: int,
    log: Path,
    watch: Callable[[], bool],
    *,
    train: Train | None = None,
    outlives: bool = False,
    then: Callable[[], None] | None = None,
) -> None:
    """Run the app with these run-config values and one simulated node per silo; output goes to ``log``.

    Runs of several threads take turns. A silo that hangs stays in this process until it ends. ``train`` is for
    networks, see ``run_loopback``. ``outlives`` is for a process that goes on where this is interrupted: then the run
    is stopped first. ``then`` is called at the end, before another run begins here.
    """
    failures: list[Exception] = []
    stopped = threading.Event()

    def work() -> None:
        try:
            run_loopback(own_server_app, own_client_app, settings, simulated_nodes(num_silos), None, stopped, train)
        except Exception as error:
            failures.append(error)

    with _ONE_RUN, _logged(log):
        run = threading.Thread(target=work, daemon=True)
        run.start()
        try:
            while run.is_alive():
                watch()
                run.join(_LOOK_SECONDS)
        except BaseException:
            if outlives:
                stopped.set()
                run.join(_THREAD_STOP_SECONDS)
            raise
        watch()
        if then:
            then()
    if failures:
        raise RunError(f"the run failed: {failures[0]}") from failures[0]


@contextmanager
def _logged(path: Path) -> Iterator[None]:
    """Send the apps' log to the file, as the engine does, and not between the lines of the command."""
    logger = logging.getLogger("flwr")
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(levelname)s : %(message)s"))
    before, level = logger.handlers[:], logger.level
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.handlers[:] = before
        logger.setLevel(level)
        handler.close()
