"""The way to this silo's SuperNode, in Flower's runtime API: take a message, hand back the reply.

A stock SuperNode starts a process for every message, which runs the code that the coordinator sent. This is that
process's part and its launcher's, for a process that stays: all it takes of the code is the hash. An answer has a
bounded length and time, as anything may listen at the SuperNode's address.

Issue for Flower, "Runtime API client: bound the size and duration of responses": `RuntimeHttpClient` reads a response
of any length, for any time, follows redirects, and asks the environment for a proxy. Accept an `httpx.Client`.
"""

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import httpx
from flwr.app import Error, Message, RecordDict
from flwr.common.serde import message_to_proto, user_config_from_proto
from flwr.proto import message_pb2 as messages
from flwr.proto import runtime_pb2 as runtime
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    get_object_type_from_object_content,
)
from flwr.supercore.task_identity import TaskIdentity
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Proto

from fedct_flwr.flower.grid import bare, inflated, is_short, part_ids
from fedct_flwr.types import ConfigError, FedctError

ACQUIRE: Final = "acquire-task"
CLIENT_APP: Final = "flwr-clientapp"
"""The type of tasks that an agent takes."""
COMPLETED: Final = "completed"
TOKEN_HEADER: Final = "flwr-task-token"  # noqa: S105 - a header's name
MEDIA_TYPE: Final = "application/protobuf"
_METHOD: Final = "/flwr.proto.Runtime/AcquireTask"
_AUTH_CONTEXT: Final = b"superexec-auth-v1"
_AUTH_HEADER: Final = "flwr-superexec-"

_TIMEOUT: Final = httpx.Timeout(30.0, connect=5.0)
_ANSWER_SECONDS: Final = 120.0
_ANSWER_BYTES: Final = 64 * 2**20
_MESSAGE_BYTES: Final = 64 * 2**20
"""All objects of one message together. A labels' message has a byte for some of its labels."""
_MAX_OBJECTS: Final = 64
"""Objects that one message may consist of. A labels' message has three."""
_APP_BYTES: Final = 1 << 30
_MAX_APP_OBJECTS: Final = 1 << 14
"""The same two for messages of other apps, which hold weights."""
_APP_RECORD_BYTES: Final = 1 << 20
"""Their records of settings may have many fields and lists: most bytes of one, as Flower reads a million for 16 s."""
_TRIES: Final = 4
_PULL_SECONDS: Final = 60.0
_PULL_PAUSE: Final = 0.05
_BEAT_SECONDS: Final = 2.0

_Answer = TypeVar("_Answer", bound=Proto)


def version_headers(component: str) -> dict[str, str]:
    """Headers with the version, which Flower's programs send each other."""
    return {
        "flwr-package-name": "flwr", "flwr-package-version": version("flwr"), "flwr-component-name": component
    }  # fmt: skip


class SuperNodeError(FedctError):
    """The SuperNode cannot be reached, refuses the agent, or says what makes no sense."""


class EndlessAnswerError(SuperNodeError):
    """An answer is longer, or takes longer, than any that makes sense."""


class TaskLostError(SuperNodeError):
    """The SuperNode no longer knows the task: it was restarted, or has given the task up."""


class _UnreadableError(Exception):
    """A message is not there or is not one."""


@dataclass(eq=False)
class Task:
    """One message to answer, without records if they are unreadable; ``code_hash``: SHA-256 of the offered code."""

    run_id: int
    node_id: int
    message: Message
    run_config: dict[str, bool | float | int | str]
    code_hash: str
    token: str = field(repr=False)
    lost: threading.Event = field(default_factory=threading.Event)


def carried_task(run: int, node: int, message_type: str, code: str, run_config: Any, content: RecordDict) -> Task:
    """The task of a question that did not come from a SuperNode, but by hand."""
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, run, node
    message = Message(content, dst_node_id=node, message_type=message_type)
    return Task(run, node, message, run_config, code, "")


def _is_short_of_app(part: bytes) -> bool:
    long = get_object_type_from_object_content(part) in ("ConfigRecord", "MetricRecord")
    return not long or len(part) <= _APP_RECORD_BYTES


class Asker(Protocol):
    """Source of tasks and receiver of answers: a SuperNode, or the two files of a silo without a connection."""

    @property
    def address(self) -> str:
        """Its name in sentences."""

    def acquire(self) -> Task | None:
        """The next message for this silo, or None if there is none now. Raises SuperNodeError."""

    def ping(self) -> None:
        """Check the connection. Raises SuperNodeError."""

    def push(self, task: Task, content: RecordDict | Error) -> None:
        """Hand the answer to a task over. Raises SuperNodeError."""

    def awaits(self, task: Task) -> bool:
        """Whether it still wants the answer to this task."""

    def kept_alive(self, task: Task, heard: Callable[[], None]) -> AbstractContextManager[None]:
        """While the context lasts, the task is worked on."""


class SuperNode:
    """The SuperNode at ``address`` (``host:port``), over HTTP: signed with ``secret``, not encrypted."""

    def __init__(self, address: str, secret: Path, *, other_app: bool = False) -> None:
        """``other_app``: messages are those of an app that is not ours. Raises ConfigError for an unreadable secret."""
        try:
            key = secret.read_bytes()
        except OSError:
            raise ConfigError(f"cannot read the SuperNode's secret {secret}") from None
        if not key:
            raise ConfigError(f"{secret} is empty: it holds what the SuperNode knows its agent by")
        self.address = address
        self._other_app = other_app
        self._key = hmac.new(key, _AUTH_CONTEXT, hashlib.sha256).digest()
        self._token = ""
        self._client = httpx.Client(
            transport=httpx.HTTPTransport(verify=False, trust_env=False),  # plain HTTP: nothing to verify
            timeout=_TIMEOUT,
            trust_env=False,
            follow_redirects=False,
            headers={
                "accept": MEDIA_TYPE,
                "accept-encoding": "identity",
                "content-type": MEDIA_TYPE,
                **version_headers("fedct agent"),
            },
        )

    def acquire(self) -> Task | None:
        """The next message for this silo, or None if there is none now. Raises SuperNodeError."""
        request = runtime.AcquireTaskRequest(supported_task_types=[CLIENT_APP])
        found = self._ask(ACQUIRE, request, runtime.AcquireTaskResponse)
        if not found.HasField("task") or not found.token:
            return None
        self._token = found.token
        given = self._ask("pull-task-input", runtime.PullTaskInputRequest(), runtime.PullTaskInputResponse)
        run_id, node_id = given.run.run_id, given.context.node_id
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = given.task_id, run_id, node_id
        listed = self._listed()
        announced, tree = listed.messages_list[0], listed.message_object_trees[0]
        if announced.metadata.run_id != run_id or given.context.run_id != run_id:
            raise SuperNodeError(f"the SuperNode at {self.address} handed out a message of another run")
        content = self._content(tree, node_id, run_id)
        try:
            run_config = user_config_from_proto(given.context.run_config)
        except (TypeError, ValueError):
            # An odd message like any other, which is to be answered with a refusal.
            content, run_config = RecordDict(), {}
        message = bare(announced)
        message.content = content
        code = hashlib.sha256(given.fab.content).hexdigest()
        return Task(run_id, node_id, message, run_config, code, found.token)

    def ping(self) -> None:
        """Check the connection to the SuperNode. Raises SuperNodeError."""
        # Tasks of no type: there are none.
        self._ask(ACQUIRE, runtime.AcquireTaskRequest(), runtime.AcquireTaskResponse)

    def push(self, task: Task, content: RecordDict | Error) -> None:
        """Hand over the answer, nothing but ``content``, which ends the task. Raises SuperNodeError."""
        self._token = task.token
        reply = Message(content, reply_to=task.message)
        reply.metadata.__dict__["_message_id"] = reply.object_id
        empty = message_to_proto(reply)
        if reply.has_content():
            # Empty records stand for the content, which follows as objects.
            empty.content.Clear()
            empty.content.SetInParent()
        objects = get_all_nested_objects(reply)
        request = runtime.PushAppMessagesRequest(messages_list=[empty], message_object_trees=[get_object_tree(reply)])
        pushed = self._ask("push-messages", request, runtime.PushAppMessagesResponse)
        for name in pushed.objects_to_push:
            piece = messages.PushObjectRequest(
                node=Node(node_id=task.node_id),
                run_id=task.run_id,
                object_id=name,
                object_content=objects[name].deflate(),
                session_id=pushed.session_id,
            )
            if not self._ask("push-object", piece, messages.PushObjectResponse).stored:
                raise SuperNodeError(f"the SuperNode at {self.address} did not take the answer")
        # Without a context the SuperNode keeps the one that it made: nothing of the silo's is in it.
        done = runtime.PushTaskOutputRequest(sub_status=COMPLETED, details="")
        self._ask("push-task-output", done, runtime.PushTaskOutputResponse)

    def awaits(self, task: Task) -> bool:
        """Whether the SuperNode is there now and still wants the answer to this task."""
        if task.lost.is_set():
            return False
        self._token = task.token
        try:
            return self._beats()
        except SuperNodeError:
            return False

    @contextmanager
    def kept_alive(self, task: Task, heard: Callable[[], None]) -> Iterator[None]:
        """Tell the SuperNode every two seconds that the task is worked on; ``heard`` is called when it answers."""
        finished = threading.Event()
        beats = threading.Thread(target=self._beat, args=(task, heard, finished), name="heartbeats", daemon=True)
        beats.start()
        try:
            yield
        finally:
            # Not joined: a beat that waits for an answer holds nothing up.
            finished.set()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _beats(self) -> bool:
        """Send one heartbeat; whether the SuperNode still knows the task."""
        request = runtime.SendTaskHeartbeatRequest()
        return self._ask("send-task-heartbeat", request, runtime.SendTaskHeartbeatResponse).success

    def _beat(self, task: Task, heard: Callable[[], None], finished: threading.Event) -> None:
        while not finished.wait(_BEAT_SECONDS):
            try:
                alive = self._beats()
            except TaskLostError:
                alive = False
            except SuperNodeError:
                # Unreachable for now; it waits for a minute before it gives a task up.
                continue
            if finished.is_set():
                return
            heard()
            if not alive:
                task.lost.set()
                return

    def _listed(self) -> Any:
        """The task's message, without its content. A task is there a moment before its message is."""
        end = time.monotonic() + _PULL_SECONDS
        while time.monotonic() < end:
            listed = self._ask("pull-messages", runtime.PullAppMessagesRequest(), runtime.PullAppMessagesResponse)
            if listed.messages_list and listed.message_object_trees:
                return listed
            time.sleep(_PULL_PAUSE)
        raise SuperNodeError(f"the SuperNode at {self.address} handed out a task without a message")

    def _content(self, tree: Any, node: int, run_id: int) -> RecordDict:
        """The message's records; none if it has none or they cannot be read."""
        try:
            pieces = self._pieces(tree, node, run_id)
        except (_UnreadableError, EndlessAnswerError):
            pieces = {}
        # In any case: the SuperNode may forget it.
        confirmation = messages.ConfirmMessageReceivedRequest(
            node=Node(node_id=node), run_id=run_id, message_object_id=tree.object_id
        )
        self._ask("confirm-message-received", confirmation, messages.ConfirmMessageReceivedResponse)
        try:
            found = inflated(tree.object_id, pieces, _is_short_of_app if self._other_app else is_short)
        except Exception:
            # Bytes that Flower's parser fails on came from outside: they are refused.
            return RecordDict()
        return found.content if found and found.has_content() else RecordDict()

    def _pieces(self, tree: Any, node: int, run_id: int) -> dict[str, bytes]:
        pieces: dict[str, bytes] = {}
        most, room = (_MAX_APP_OBJECTS, _APP_BYTES) if self._other_app else (_MAX_OBJECTS, _MESSAGE_BYTES)
        names = part_ids(tree, most + 1)
        if len(names) > most:
            raise _UnreadableError
        for name in names:
            pieces[name] = self._piece(name, node, run_id)
            room -= len(pieces[name])
            if room < 0:
                raise _UnreadableError
        return pieces

    def _piece(self, name: str, node: int, run_id: int) -> bytes:
        # The SuperNode hands the task out while it still fetches the message itself.
        end = time.monotonic() + _PULL_SECONDS
        request = messages.PullObjectRequest(node=Node(node_id=node), run_id=run_id, object_id=name)
        while time.monotonic() < end:
            pulled = self._ask("pull-object", request, messages.PullObjectResponse)
            if not pulled.object_found:
                break
            if pulled.object_available:
                return bytes(pulled.object_content)
            time.sleep(_PULL_PAUSE)
        raise _UnreadableError

    def _ask(self, name: str, request: Proto, answer: type[_Answer]) -> _Answer:
        """The SuperNode's answer. Raises SuperNodeError with a sentence that holds nothing of what was exchanged."""
        body = request.SerializeToString(deterministic=True)
        for tried in range(1, _TRIES + 1):
            try:
                return answer.FromString(self._sent(name, body))
            except httpx.TransportError:
                if tried == _TRIES:
                    raise SuperNodeError(f"no answer from the SuperNode at {self.address}") from None
                time.sleep(0.1 * 2 ** (tried - 1))
            except (httpx.InvalidURL, DecodeError, ValueError):
                break
            except RuntimeError:
                # httpx' word for a client that was closed meanwhile, as at the agent's end; others are what they are.
                if not self._client.is_closed:
                    raise
                raise SuperNodeError(f"the connection to the SuperNode at {self.address} was closed") from None
        raise SuperNodeError(f"what answers at {self.address} is no SuperNode")

    def _sent(self, name: str, body: bytes) -> bytes:
        headers = self._signed(body) if name == ACQUIRE else {TOKEN_HEADER: self._token}
        url, end = f"http://{self.address}/v1/runtime/{name}", time.monotonic() + _ANSWER_SECONDS
        with self._client.stream("POST", url, content=body, headers=headers) as response:
            code, kind = response.status_code, response.headers.get("content-type", "")
            if code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
                if name != ACQUIRE:
                    raise TaskLostError(f"the SuperNode at {self.address} no longer knows the task")
                raise SuperNodeError(
                    f"the SuperNode at {self.address} does not know this agent: give both the same secret, "
                    "and the same time of day"
                )
            if code != httpx.codes.OK:
                raise SuperNodeError(
                    f"the SuperNode at {self.address} answered with HTTP status {code}: see that it is of the same "
                    "version of Flower"
                )
            # An empty answer is a good one to protobuf, and anything that listens may give it.
            if kind.partition(";")[0].strip().lower() != MEDIA_TYPE or "content-encoding" in response.headers:
                raise ValueError("not an answer in Flower's form")
            found = bytearray()
            for chunk in response.iter_raw():
                found += chunk
                if len(found) > _ANSWER_BYTES or time.monotonic() > end:
                    raise EndlessAnswerError(f"what answers at {self.address} does not come to an end")
            return bytes(found)

    def _signed(self, body: bytes) -> dict[str, str]:
        """Headers by which the SuperNode knows its agent."""
        values = {
            "method": _METHOD,
            "ts": str(int(time.time())),
            "nonce": secrets.token_hex(16),
            "body_sha256": hashlib.sha256(body).hexdigest(),
        }
        text = "\n".join(f"{key}={value}" for key, value in values.items()).encode()
        return {
            f"{_AUTH_HEADER}ts": values["ts"],
            f"{_AUTH_HEADER}nonce": values["nonce"],
            f"{_AUTH_HEADER}body-sha256": values["body_sha256"],
            f"{_AUTH_HEADER}signature": hmac.new(self._key, text, hashlib.sha256).hexdigest(),
        }
