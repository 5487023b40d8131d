"""The same ServerApp and ClientApps in one process: no Ray, no sockets, milliseconds a round.

Every message is serialized and parsed as Flower does it between processes. Used by tests and quick experiments.
"""

import os
import queue
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from threadpoolctl import threadpool_limits

_FIRST_NODE_ID: Final = 100

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
) -> Context:
    """Run a ServerApp with one ClientApp per node config; returns the ServerApp's context.

    ``workers`` messages are handled at the same time (default: one per core, at least two). A silo that is not done
    when the ServerApp gives up waiting does not count any more, so one that hangs does not stop the others. What the
    ServerApp raises is raised here.
    """
    run_id = secrets.randbits(62)
    grid = LoopbackGrid(client_app, run_config, node_configs, workers or max(2, os.cpu_count() or 1), run_id)
    context = Context(run_id, SUPERLINK_NODE_ID, {}, RecordDict(), dict(run_config))
    with _one_run_at_a_time, _task_identity(run_id), threadpool_limits(1):
        try:
            server_app(grid=grid, context=context)
        finally:
            grid.close()
    return context


class _Slots:
    """Permission to work for a limited number of nodes; it can be withdrawn from one that does not come to an end."""

    def __init__(self, count: int) -> None:
        self._free = threading.Semaphore(count)
        self._held: set[int] = set()
        self._lock = threading.Lock()

    @contextmanager
    def held_by(self, node_id: int) -> Iterator[None]:
        """Wait for a slot, and give it back at the end."""
        self._free.acquire()
        with self._lock:
            self._held.add(node_id)
        try:
            yield
        finally:
            self.withdraw(node_id)

    def withdraw(self, node_id: int) -> None:
        """Let somebody else have the node's slot, if it has one."""
        with self._lock:
            if node_id in self._held:
                self._held.remove(node_id)
                self._free.release()


class LoopbackGrid(Grid):
    """A Grid whose nodes live in this process, each with a thread and a context of its own that last for the run."""

    def __init__(
        self,
        client_app: ClientApp,
        run_config: Mapping[str, Any],
        node_configs: Sequence[Mapping[str, Any]],
        workers: int,
        run_id: int,
    ) -> None:
        self._client_app = client_app
        self._run_id = run_id
        contexts = [
            Context(run_id, node_id, dict(config), RecordDict(), dict(run_config))
            for node_id, config in enumerate(node_configs, start=_FIRST_NODE_ID)
        ]
        self._slots = _Slots(workers)
        self._inboxes: dict[int, queue.SimpleQueue[bytes | None]] = {c.node_id: queue.SimpleQueue() for c in contexts}
        self._replies: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._unclaimed: dict[str, Message] = {}
        for context in contexts:
            # A silo that hangs must not keep the process alive.
            threading.Thread(target=self._work, args=(context,), daemon=True).start()

    def close(self) -> None:
        """Let idle nodes end."""
        for inbox in self._inboxes.values():
            inbox.put(None)

    def set_run(self, run: Run) -> None:
        """Ignored: there is one run."""

    @property
    def run(self) -> Run:
        """The run."""
        return Run.create_empty(self._run_id)

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """A new message; ``Message(...)`` does the same."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        """All nodes."""
        return list(self._inboxes)

    def get_nodes(self) -> list[NodeInfo]:
        """All nodes, without names, as in Flower's simulation."""
        return [NodeInfo(node_id=node_id) for node_id in self._inboxes]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Hand messages to their nodes."""
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            ids.append(message.metadata.message_id)
            self._inboxes[message.metadata.dst_node_id].put(message_to_proto(message).SerializeToString())
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Replies to these messages, as far as they are there; the others stay until somebody asks for them."""
        while not self._replies.empty():
            self._sort(self._replies.get())
        return [self._unclaimed.pop(name) for name in message_ids if name in self._unclaimed]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Send, and return the replies that come within ``timeout`` seconds."""
        messages = list(messages)
        pending = dict(zip(self.push_messages(messages), (m.metadata.dst_node_id for m in messages), strict=True))
        end = None if timeout is None else time.monotonic() + timeout
        received = []
        while pending:
            try:
                self._sort(self._replies.get(timeout=None if end is None else max(0.0, end - time.monotonic())))
            except queue.Empty:
                for node_id in pending.values():
                    self._slots.withdraw(node_id)
                break
            for reply in self.pull_messages(list(pending)):
                del pending[reply.metadata.reply_to_message_id]
                received.append(reply)
        return received

    def _sort(self, raw: bytes) -> None:
        reply = _parse(raw)
        self._unclaimed[reply.metadata.reply_to_message_id] = reply

    def _work(self, context: Context) -> None:
        while (raw := self._inboxes[context.node_id].get()) is not None:
            message = _parse(raw)
            with self._slots.held_by(context.node_id):
                if time.time() > message.metadata.created_at + message.metadata.ttl:
                    continue
                try:
                    reply = self._client_app(message, context)
                except Exception as error:  # the engine does the same with whatever an app raises
                    reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, repr(error)), reply_to=message)
            self._replies.put(message_to_proto(reply).SerializeToString())


def _parse(raw: bytes) -> Message:
    return message_from_proto(ProtoMessage.FromString(raw))


@contextmanager
def _task_identity(run_id: int) -> Iterator[None]:
    before = (TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id)
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, run_id, SUPERLINK_NODE_ID
    try:
        yield
    finally:
        TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id = before
