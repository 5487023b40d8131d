"""The way to this silo's SuperNode, in Flower's runtime API: take a message, hand back the answer.

A stock SuperNode starts a process for every message, which installs and runs the code that the coordinator sent. This
is that process's part and its launcher's in one, for a process that stays: it takes tasks as ``flower-superexec`` does
and talks as ``flwr-clientapp`` does, but what it gets of the code is the hash.

Nearly everything imported here is internal to Flower. It is used in this file alone, and the test of this file says
what a new Flower has moved.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import httpx
from flwr.app import Message, RecordDict
from flwr.app.message import make_message, remove_content_from_message
from flwr.common.constant import SubStatus
from flwr.common.serde import message_to_proto, user_config_from_proto
from flwr.common.serde_utils import metadata_from_proto
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    ObjectTree,
    PullObjectRequest,
    PushObjectRequest,
)
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullAppMessagesRequest,
    PullAppMessagesResponse,
    PullTaskInputRequest,
    PushAppMessagesRequest,
    PushTaskOutputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore.auth import load_superexec_auth_secret
from flwr.supercore.constant import TASK_TOKEN_HEADER, TaskType
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.interceptors import SuperExecAuthHttpInterceptor
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE
from flwr.supercore.retry import RetryInvoker, exponential
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.runtime_version_compatibility import RuntimeVersionMetadata
from flwr.supercore.task_identity import TaskIdentity

from fedct_flwr.hospital.bounded_transport import BoundedTransport, TooLongError
from fedct_flwr.types import ConfigError, FedctError
from fedct_flwr.wire.parts import is_short

ACQUIRE_TASK: Final = "/flwr.proto.Runtime/AcquireTask"

_TIMEOUT: Final = httpx.Timeout(30.0, connect=5.0)
_MESSAGE_BYTES: Final = 64 * 2**20
"""All objects of one message together. A labels' message has a byte for some of its labels."""
_MAX_OBJECTS: Final = 64
"""Objects that one message may consist of. A labels' message has three."""
_ANY_CLIENT_APP: Final = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
_TRIES: Final = 4
_PULL_SECONDS: Final = 60.0
_PULL_PAUSE: Final = 0.01
_BEAT_SECONDS: Final = 2.0

_Answer = TypeVar("_Answer")


class SuperNodeError(FedctError):
    """The SuperNode cannot be reached, refuses the agent, or says what makes no sense."""


class EndlessAnswerError(SuperNodeError):
    """An answer is longer, or takes longer, than any that makes sense."""


class TaskLostError(SuperNodeError):
    """The SuperNode no longer knows the task: it was restarted, or has given the task up."""


@dataclass(eq=False)
class Task:
    """One message to answer. ``code_hash`` is the SHA-256 (hex) of the code that the coordinator offered with it.

    ``message`` has no records if what came cannot be read. ``lost`` is set once the SuperNode takes no answer any more.
    """

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


class Asker(Protocol):
    """Where tasks come from and answers go: a SuperNode, or the two files of a silo without a connection."""

    @property
    def address(self) -> str:
        """Its name in sentences."""

    def acquire(self) -> Task | None:
        """The next message for this silo, or None if there is none now. Raises SuperNodeError."""

    def ping(self) -> None:
        """See whether it is there. Raises SuperNodeError."""

    def push(self, task: Task, content: RecordDict) -> None:
        """Hand the answer to a task over. Raises SuperNodeError."""

    def awaits(self, task: Task) -> bool:
        """Whether it still wants the answer to this task."""

    def kept_alive(self, task: Task, heard: Callable[[], None]) -> AbstractContextManager[None]:
        """While the context lasts, the task is worked on."""


class SuperNode:
    """The SuperNode at ``address`` (``host:port``), over plain HTTP on a network that both share with nobody.

    What is asked with ``secret`` is signed and what is asked for a task carries the task's token, so a stranger gets no
    task; but nothing is encrypted. One connection serves all messages. No proxy and no redirection is followed.
    """

    def __init__(self, address: str, secret: Path) -> None:
        """Raises ConfigError if the secret cannot be read."""
        try:
            key = load_superexec_auth_secret(str(secret))
        except ValueError:
            raise ConfigError(f"cannot read the SuperNode's secret {secret}, or it is empty") from None
        if not key:
            raise ConfigError(f"{secret} is empty: it holds what the SuperNode knows its agent by")
        self.address = address
        self._credentials = _Credentials(key)
        self._client = RuntimeHttpClient(
            f"http://{address}",
            interceptors=[self._credentials],
            verify=False,
            retry_invoker=RetryInvoker(
                lambda: exponential(base_delay=0.1, max_delay=1), httpx.TransportError, max_tries=_TRIES, max_time=20
            ),
        )
        # Flower's own would ask the environment for a proxy, follow redirections, and wait for an answer without end.
        self._client.close()
        self._client._client = httpx.Client(
            transport=BoundedTransport(PROTOBUF_MEDIA_TYPE),
            timeout=_TIMEOUT,
            trust_env=False,
            follow_redirects=False,
            headers={
                "accept-encoding": "identity",
                **dict(RuntimeVersionMetadata.from_local_component("fedct agent").as_metadata()),
            },
        )

    def acquire(self) -> Task | None:
        """The next message for this silo, or None if there is none now.

        Raises SuperNodeError. A task whose message could not be fetched is given up: without heartbeats the SuperNode
        reports it as failed after a minute.
        """
        found = self._ask(lambda: self._client.AcquireTask(_ANY_CLIENT_APP))
        if not found.HasField("task") or not found.token:
            return None
        self._credentials.token = found.token
        given = self._ask(lambda: self._client.PullTaskInput(PullTaskInputRequest()))
        TaskIdentity.task_id = given.task_id
        TaskIdentity.run_id = run_id = given.run.run_id
        TaskIdentity.node_id = node_id = given.context.node_id
        listed = self._listed()
        metadata = metadata_from_proto(listed.messages_list[0].metadata)
        if metadata.run_id != run_id or given.context.run_id != run_id:
            raise SuperNodeError(f"the SuperNode at {self.address} handed out a message of another run")
        tree = listed.message_object_trees[0]
        content = self._content(tree, Node(node_id=node_id), run_id)
        try:
            run_config = user_config_from_proto(given.context.run_config)
        except (TypeError, ValueError):
            # An odd message like any other, which is to be answered with a refusal.
            content, run_config = RecordDict(), {}
        return Task(
            run_id,
            node_id,
            make_message(metadata, content),
            run_config,
            hashlib.sha256(given.fab.content).hexdigest(),
            found.token,
        )

    def ping(self) -> None:
        """See whether the SuperNode is there. Raises SuperNodeError."""
        self._ask(lambda: self._client.AcquireTask(AcquireTaskRequest()))  # tasks of no type: there are none

    def push(self, task: Task, content: RecordDict) -> None:
        """Hand the answer to a task over, which ends the task. Nothing but ``content`` goes: no context, no details.

        Raises SuperNodeError.
        """
        self._credentials.token = task.token
        reply = Message(content, reply_to=task.message)
        reply.metadata.__dict__["_message_id"] = reply.object_id
        # Empty records in place of the content, which follows as objects.
        bare = message_to_proto(remove_content_from_message(reply))
        with no_object_id_recompute():
            tree, objects = get_object_tree(reply), get_all_nested_objects(reply)
            request = PushAppMessagesRequest(messages_list=[bare], message_object_trees=[tree])
            pushed = self._ask(lambda: self._client.PushMessages(request))
            for name in pushed.objects_to_push:
                piece = PushObjectRequest(
                    node=Node(node_id=task.node_id),
                    run_id=task.run_id,
                    object_id=name,
                    object_content=objects[name].deflate(),
                    session_id=pushed.session_id,
                )
                if not self._ask(lambda piece=piece: self._client.PushObject(piece)).stored:  # type: ignore[misc]
                    raise SuperNodeError(f"the SuperNode at {self.address} did not take the answer")
        # Without a context the SuperNode keeps the one that it made: nothing of the silo's is in it.
        done = PushTaskOutputRequest(sub_status=SubStatus.COMPLETED, details="")
        self._ask(lambda: self._client.PushTaskOutput(done))

    def awaits(self, task: Task) -> bool:
        """Whether the SuperNode is there now and still wants the answer to this task."""
        if task.lost.is_set():
            return False
        self._credentials.token = task.token
        try:
            return self._ask(lambda: self._client.SendTaskHeartbeat(SendTaskHeartbeatRequest())).success
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

    def _beat(self, task: Task, heard: Callable[[], None], finished: threading.Event) -> None:
        while not finished.wait(_BEAT_SECONDS):
            try:
                alive = self._ask(lambda: self._client.SendTaskHeartbeat(SendTaskHeartbeatRequest())).success
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

    def _listed(self) -> PullAppMessagesResponse:
        """The task's message, without its content. A task is there a moment before its message is."""
        end = time.monotonic() + _PULL_SECONDS
        while time.monotonic() < end:
            listed = self._ask(lambda: self._client.PullMessages(PullAppMessagesRequest()))
            if listed.messages_list and listed.message_object_trees:
                return listed
            time.sleep(_PULL_PAUSE)
        raise SuperNodeError(f"the SuperNode at {self.address} handed out a task without a message")

    def _content(self, tree: ObjectTree, node: Node, run_id: int) -> RecordDict:
        """The message's records; none if it has none or they cannot be read."""
        try:
            pieces = self._pieces(tree, node, run_id)
        except (_UnreadableError, EndlessAnswerError):
            pieces = {}
        # In any case: the SuperNode may forget it.
        confirmation = ConfirmMessageReceivedRequest(node=node, run_id=run_id, message_object_id=tree.object_id)
        self._ask(lambda: self._client.ConfirmMessageReceived(confirmation))
        try:
            if not all(map(is_short, pieces.values())):
                return RecordDict()
            message = inflate_object_from_contents(tree.object_id, pieces)
        except Exception:
            # Whatever Flower's parser stumbles over was sent by somebody else, and is answered with a refusal.
            return RecordDict()
        return message.content if isinstance(message, Message) and message.has_content() else RecordDict()

    def _pieces(self, tree: ObjectTree, node: Node, run_id: int) -> dict[str, bytes]:
        pieces: dict[str, bytes] = {}
        room = _MESSAGE_BYTES
        for name in _names(tree):
            pieces[name] = self._piece(name, node, run_id)
            room -= len(pieces[name])
            if room < 0:
                raise _UnreadableError
        return pieces

    def _piece(self, name: str, node: Node, run_id: int) -> bytes:
        # The SuperNode hands the task out while it still fetches the message itself.
        end = time.monotonic() + _PULL_SECONDS
        request = PullObjectRequest(node=node, run_id=run_id, object_id=name)
        while time.monotonic() < end:
            pulled = self._ask(lambda: self._client.PullObject(request))
            if not pulled.object_found:
                break
            if pulled.object_available:
                return pulled.object_content
            time.sleep(_PULL_PAUSE)
        raise _UnreadableError

    def _ask(self, question: Callable[[], _Answer]) -> _Answer:
        """The SuperNode's answer. Raises SuperNodeError with a sentence that holds nothing of what was exchanged."""
        try:
            return question()
        except httpx.TransportError:
            raise SuperNodeError(f"no answer from the SuperNode at {self.address}") from None
        except httpx.HTTPStatusError as error:
            code = error.response.status_code
            if code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
                if not error.request.url.path.endswith("/acquire-task"):
                    raise TaskLostError(f"the SuperNode at {self.address} no longer knows the task") from None
                raise SuperNodeError(
                    f"the SuperNode at {self.address} does not know this agent: give both the same secret, "
                    "and the same time of day"
                ) from None
            raise SuperNodeError(
                f"the SuperNode at {self.address} answered with HTTP status {code}: see that it is of the same "
                "version of Flower"
            ) from None
        except TooLongError:
            raise EndlessAnswerError(f"what answers at {self.address} does not come to an end") from None
        except (httpx.HTTPError, ValueError):
            raise SuperNodeError(f"what answers at {self.address} is no SuperNode") from None
        except RuntimeError:
            # httpx' word for a client that was closed meanwhile, as at the agent's end; others are what they are.
            if not self._client._client.is_closed:
                raise
            raise SuperNodeError(f"the connection to the SuperNode at {self.address} was closed") from None


class _UnreadableError(Exception):
    """A message is not there or is not one."""


class _Credentials:
    """Signs requests for tasks with the secret, and all others with the token of the task in hand."""

    def __init__(self, secret: bytes) -> None:
        self._signature = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=[ACQUIRE_TASK])
        self.token = ""

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        if context.rpc_method == ACQUIRE_TASK:
            return self._signature.intercept(context, call_next)
        context.request.headers[TASK_TOKEN_HEADER] = self.token
        return call_next(context)


def _names(tree: ObjectTree) -> list[str]:
    """The objects that a message consists of, each once. Raises _UnreadableError if they are more than can be."""
    names: dict[str, None] = {}
    for node in iterate_object_tree(tree):
        names[node.object_id] = None
        if len(names) > _MAX_OBJECTS:
            raise _UnreadableError
    return list(names)
