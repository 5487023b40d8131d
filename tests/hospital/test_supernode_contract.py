"""What the agent uses of Flower's insides is where it was, and the agent talks to a real SuperNode's API with it."""

import dataclasses
import hashlib
import importlib
import inspect
import threading
import time
import tracemalloc
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from flwr.app import ConfigRecord, RecordDict
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.hospital import bounded_transport, supernode
from fedct_flwr.hospital.supernode import SuperNode, SuperNodeError, TaskLostError
from fedct_flwr.types import ConfigError
from fedct_flwr.wire.messages import from_record, to_record
from tests.hospital.runtime_api import CODE, NODE_ID, RuntimeApi, odd_record, secret_file
from tests.patience import eventually

# Every name of Flower's that fedct_flwr/hospital/supernode.py uses, with what it is called with.
CALLABLES = {
    "flwr.app.message:make_message": ("metadata", "content", "error"),
    "flwr.app.message:remove_content_from_message": ("message",),
    "flwr.common.serde:message_to_proto": ("message",),
    "flwr.common.serde:user_config_from_proto": ("proto",),
    "flwr.common.serde_utils:metadata_from_proto": ("metadata_proto",),
    "flwr.supercore.auth:load_superexec_auth_secret": ("secret_file",),
    "flwr.supercore.inflatable.inflatable_object:get_all_nested_objects": ("obj",),
    "flwr.supercore.inflatable.inflatable_object:get_object_tree": ("obj",),
    "flwr.supercore.inflatable.inflatable_object:iterate_object_tree": ("tree",),
    "flwr.supercore.inflatable.inflatable_object:no_object_id_recompute": (),
    "flwr.supercore.inflatable.inflatable_utils:inflate_object_from_contents": ("object_id", "object_contents"),
    "flwr.supercore.interceptors:SuperExecAuthHttpInterceptor": ("master_secret", "protected_methods"),
    "flwr.supercore.interceptors:SuperExecAuthHttpInterceptor.intercept": ("self", "context", "call_next"),
    "flwr.supercore.retry:RetryInvoker": ("wait_gen_factory", "recoverable_exceptions", "max_tries", "max_time"),
    "flwr.supercore.retry:exponential": ("base_delay", "max_delay"),
    "flwr.supercore.runtime:RuntimeHttpClient": ("base_url", "interceptors", "verify", "retry_invoker"),
    "flwr.supercore.runtime:RuntimeHttpClient.AcquireTask": ("self", "request"),
    "flwr.supercore.runtime:RuntimeHttpClient.ConfirmMessageReceived": ("self", "request"),
    "flwr.supercore.runtime:RuntimeHttpClient.PullMessages": ("self", "request"),
    "flwr.supercore.runtime:RuntimeHttpClient.PullObject": ("self", "request"),
    "flwr.supercore.runtime:RuntimeHttpClient.PullTaskInput": ("self", "request"),
    "flwr.supercore.runtime:RuntimeHttpClient.PushMessages": ("self", "request"),
    "flwr.supercore.runtime:RuntimeHttpClient.PushObject": ("self", "request"),
    "flwr.supercore.runtime:RuntimeHttpClient.PushTaskOutput": ("self", "request"),
    "flwr.supercore.runtime:RuntimeHttpClient.SendTaskHeartbeat": ("self", "request"),
    "flwr.supercore.runtime:RuntimeHttpClient.close": ("self",),
    "flwr.supercore.runtime_version_compatibility:RuntimeVersionMetadata.from_local_component": ("component_name",),
    "flwr.supercore.runtime_version_compatibility:RuntimeVersionMetadata.as_metadata": ("self",),
}
MESSAGES = {
    "flwr.proto.message_pb2:ConfirmMessageReceivedRequest": ("node", "run_id", "message_object_id"),
    "flwr.proto.message_pb2:ObjectTree": ("object_id", "children"),
    "flwr.proto.message_pb2:PullObjectRequest": ("node", "run_id", "object_id"),
    "flwr.proto.message_pb2:PullObjectResponse": ("object_found", "object_available", "object_content"),
    "flwr.proto.message_pb2:PushObjectRequest": ("node", "run_id", "object_id", "object_content", "session_id"),
    "flwr.proto.message_pb2:PushObjectResponse": ("stored",),
    "flwr.proto.message_pb2:Context": ("run_id", "node_id", "run_config"),
    "flwr.proto.fab_pb2:Fab": ("content",),
    "flwr.proto.run_pb2:Run": ("run_id",),
    "flwr.proto.node_pb2:Node": ("node_id",),
    "flwr.proto.runtime_pb2:AcquireTaskRequest": ("supported_task_types",),
    "flwr.proto.runtime_pb2:AcquireTaskResponse": ("task", "token"),
    "flwr.proto.runtime_pb2:PullAppMessagesRequest": (),
    "flwr.proto.runtime_pb2:PullAppMessagesResponse": ("messages_list", "message_object_trees"),
    "flwr.proto.runtime_pb2:PullTaskInputRequest": (),
    "flwr.proto.runtime_pb2:PullTaskInputResponse": ("context", "run", "fab", "task_id"),
    "flwr.proto.runtime_pb2:PushAppMessagesRequest": ("messages_list", "message_object_trees"),
    "flwr.proto.runtime_pb2:PushAppMessagesResponse": ("objects_to_push", "session_id"),
    "flwr.proto.runtime_pb2:PushTaskOutputRequest": ("sub_status", "details"),
    "flwr.proto.runtime_pb2:SendTaskHeartbeatRequest": (),
    "flwr.proto.runtime_pb2:SendTaskHeartbeatResponse": ("success",),
}
VALUES = {
    "flwr.common.constant:SubStatus.COMPLETED": "completed",
    "flwr.supercore.constant:TASK_TOKEN_HEADER": "flwr-task-token",
    "flwr.supercore.constant:TaskType.CLIENT_APP": "flwr-clientapp",
    "flwr.supercore.protobuf.constants:PROTOBUF_MEDIA_TYPE": "application/protobuf",
}
FIELDS = {"flwr.supercore.protobuf.client:ProtobufRequestContext": ("rpc_method", "message", "request")}


def find(name: str) -> Any:
    """What lies at ``module:attribute``; fails with one sentence if it has moved."""
    module, _, path = name.partition(":")
    try:
        found = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        pytest.fail(f"this Flower has moved {name}: fedct_flwr/hospital/supernode.py needs it", pytrace=False)
    return found


@pytest.mark.parametrize("name", CALLABLES)
def test_a_function_takes_what_it_took(name: str) -> None:
    parameters = inspect.signature(find(name)).parameters
    missing = [wanted for wanted in CALLABLES[name] if wanted not in parameters]
    if missing:
        pytest.fail(f"in this Flower {name} no longer takes {', '.join(missing)}", pytrace=False)
    unknown = [
        known
        for known, parameter in parameters.items()
        if parameter.default is parameter.empty
        and known not in CALLABLES[name]
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]
    if unknown:
        pytest.fail(f"in this Flower {name} cannot do without {', '.join(unknown)}", pytrace=False)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_has_the_fields_it_had(name: str) -> None:
    missing = set(MESSAGES[name]) - set(find(name).DESCRIPTOR.fields_by_name)
    if missing:
        pytest.fail(f"in this Flower {name} has no {', '.join(sorted(missing))}", pytrace=False)


@pytest.mark.parametrize("name", VALUES)
def test_a_constant_has_its_value(name: str) -> None:
    assert find(name) == VALUES[name]


@pytest.mark.parametrize("name", FIELDS)
def test_a_dataclass_has_the_fields_it_had(name: str) -> None:
    assert {field.name for field in dataclasses.fields(find(name))} >= set(FIELDS[name])


def test_the_client_keeps_its_connection_where_the_agent_puts_its_own() -> None:
    client = find("flwr.supercore.runtime:RuntimeHttpClient")("http://127.0.0.1:1", verify=False)
    assert isinstance(vars(client).get("_client"), httpx.Client)
    client.close()


def test_the_identity_of_a_task_can_be_set() -> None:
    identity = find("flwr.supercore.task_identity:TaskIdentity")
    identity.task_id, identity.run_id, identity.node_id = 1, 2, 3
    assert (identity.task_id, identity.run_id, identity.node_id) == (1, 2, 3)


def test_nothing_of_flower_is_used_that_is_not_checked_here() -> None:
    checked = {name.partition(":")[2].partition(".")[0] for name in {**CALLABLES, **MESSAGES, **VALUES, **FIELDS}}
    public = {"Message", "RecordDict", "TaskIdentity", "ProtobufCall"}
    used = {
        name
        for line in inspect.getsource(supernode).replace("(\n", "(").split("\nfrom ")
        if line.startswith("flwr.")
        for name in line.partition(" import ")[2].replace("(", "").partition(")")[0].replace(",", " ").split()
        if name.isidentifier() and name not in {"from", "import"}
    }
    assert used - public - {"fedct_flwr"} <= checked | {"types", "ConfigError", "FedctError"}


@pytest.fixture
def api() -> Iterator[RuntimeApi]:
    served = RuntimeApi()
    yield served
    served.close()


@pytest.fixture
def link(api: RuntimeApi, tmp_path: Path) -> Iterator[SuperNode]:
    connected = SuperNode(api.address, secret_file(tmp_path))
    yield connected
    connected.close()


def test_a_message_is_fetched_and_its_answer_handed_over(api: RuntimeApi, link: SuperNode) -> None:
    assert link.acquire() is None
    asked = api.ask(to_record(b"question"), run_id=12)
    task = link.acquire()
    assert task is not None
    assert (task.run_id, task.node_id) == (12, NODE_ID)
    assert task.code_hash == hashlib.sha256(CODE).hexdigest()
    assert task.run_config == {"report-scores": True}
    assert from_record(task.message.content) == b"question"
    link.push(task, to_record(b"answer"))
    reply = api.reply()
    assert from_record(reply.content) == b"answer"
    assert reply.metadata.reply_to_message_id == asked.metadata.message_id
    (done,) = api.tasks()
    assert (done.status.sub_status, done.status.details) == ("completed", "")
    context = api.state.get_run_series_context(12)
    assert context is not None
    assert not context.state
    assert link.acquire() is None


def test_one_connection_serves_all_messages(api: RuntimeApi, link: SuperNode) -> None:
    pool = link._client._client._transport._inner._pool  # type: ignore[attr-defined]
    ports = set()
    for number in range(3):
        api.ask(to_record(b"question %d" % number))
        task = link.acquire()
        assert task is not None
        link.push(task, to_record(b"answer"))
        api.reply()
        (connection,) = pool.connections
        ports.add(connection._connection._network_stream.get_extra_info("client_addr"))
    assert len(ports) == 1


def test_a_wrong_secret_gets_no_task_and_one_sentence(api: RuntimeApi, tmp_path: Path) -> None:
    secret_file(tmp_path).write_bytes(b"guessed")
    stranger = SuperNode(api.address, tmp_path / "secret")
    api.ask(to_record(b"question"))
    with pytest.raises(SuperNodeError, match="does not know this agent: give both the same secret"):
        stranger.acquire()
    stranger.close()


def test_no_supernode_at_all_is_said_soon(tmp_path: Path, wording: SnapshotAssertion) -> None:
    nobody = SuperNode("127.0.0.1:1", secret_file(tmp_path))
    began = time.monotonic()
    with pytest.raises(SuperNodeError) as caught:
        nobody.acquire()
    assert str(caught.value) == wording
    assert time.monotonic() - began < 60
    nobody.close()


@pytest.mark.parametrize("content", [None, b""])
def test_a_secret_that_is_not_there_is_said(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "secret").write_bytes(content)
    with pytest.raises(ConfigError, match="secret"):
        SuperNode("127.0.0.1:1", tmp_path / "secret")


def test_a_message_of_too_many_objects_is_not_fetched_but_can_be_answered(api: RuntimeApi, link: SuperNode) -> None:
    api.ask(RecordDict({f"record-{number}": ConfigRecord({"number": number}) for number in range(100)}))
    task = link.acquire()
    assert task is not None
    assert not task.message.content
    link.push(task, to_record(b"refusal"))
    assert from_record(api.reply().content) == b"refusal"


@pytest.mark.parametrize("size", [8 * 2**20, 65 * 2**20], ids=["many large objects", "a huge object"])
def test_a_message_of_too_many_bytes_is_not_fetched_to_its_end_but_can_be_answered(
    api: RuntimeApi, link: SuperNode, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled: list[int] = []
    big = bytes(size)

    def large(*_: object) -> bytes:
        pulled.append(size)
        return big

    monkeypatch.setattr(api.state, "get_object", large)
    api.ask(RecordDict({f"record-{number}": ConfigRecord({"number": number}) for number in range(50)}))
    tracemalloc.start()
    try:
        task = link.acquire()
        # What is kept here, and the copies of one object on its way through server and client.
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20 + 6 * size
    finally:
        tracemalloc.stop()
    assert task is not None
    assert not task.message.content
    assert sum(pulled) <= 64 * 2**20 + size
    link.push(task, to_record(b"refusal"))
    assert from_record(api.reply().content) == b"refusal"


def test_a_run_config_that_cannot_be_read_is_answered(
    api: RuntimeApi, link: SuperNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(proto: object) -> dict[str, Any]:
        raise TypeError("attribute name must be string, not 'NoneType'")

    monkeypatch.setattr(supernode, "user_config_from_proto", unknown)
    api.ask(to_record(b"question"))
    task = link.acquire()
    assert task is not None
    assert (len(task.message.content), task.run_config) == (0, {})
    link.push(task, to_record(b"refusal"))
    assert from_record(api.reply().content) == b"refusal"


@pytest.mark.parametrize("content", [b"", b"no head", b"Message,,1\x00\xff", b"Other,,0\x00", b"ConfigRecord,,0\x00"])
def test_a_message_that_is_none_can_be_answered(
    api: RuntimeApi, link: SuperNode, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supernode, "_PULL_SECONDS", 0.2)
    monkeypatch.setattr(api.state, "get_object", lambda *_: content)
    api.ask(to_record(b"question"))
    task = link.acquire()
    assert task is not None
    assert not task.message.content
    link.push(task, to_record(b"refusal"))
    assert from_record(api.reply().content) == b"refusal"


def test_an_expired_message_can_be_answered(api: RuntimeApi, link: SuperNode) -> None:
    message = api.ask(odd_record())
    metadata = message.metadata
    task = link.acquire()
    assert task is not None
    task.message.metadata.__dict__["_created_at"] = metadata.created_at - 2 * metadata.ttl
    link.push(task, to_record(b"late"))
    assert from_record(api.reply().content) == b"late"


def test_a_task_of_a_supernode_that_was_restarted_is_lost(
    api: RuntimeApi, link: SuperNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supernode, "_BEAT_SECONDS", 0.05)
    api.ask(to_record(b"question"))
    task = link.acquire()
    assert task is not None
    heard = threading.Event()
    with link.kept_alive(task, heard.set):
        eventually(heard.is_set)
        assert not task.lost.is_set()
        api.close()
        again = RuntimeApi(api.port)
        eventually(task.lost.is_set)
        with pytest.raises(TaskLostError):
            link.push(task, to_record(b"answer"))
    again.close()


class _Odd(BaseHTTPRequestHandler):
    """A server that answers what no SuperNode answers."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        answer = self.server.answer  # type: ignore[attr-defined]
        if answer == "redirect":
            self.send_response(307)
            self.send_header("location", self.server.elsewhere)  # type: ignore[attr-defined]
            self.send_header("content-length", "0")
            self.end_headers()
        elif answer == "endless":
            self.send_response(200)
            self.send_header("content-type", "application/protobuf")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"400\r\n" + bytes(0x400) + b"\r\n")
            except OSError:
                self.close_connection = True
        else:
            self.send_response(200)
            if answer == "zipped":
                self.send_header("content-encoding", "gzip")
            if answer != "empty":
                self.send_header("content-type", "application/protobuf")
            said = b"" if answer == "empty" else b"\xff\xff\xff"
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize("answer", ["redirect", "endless", "zipped", "noise", "empty"])
def test_whatever_answers_in_the_supernodes_place_gets_one_sentence(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: RuntimeApi
) -> None:
    monkeypatch.setattr(bounded_transport, "_BYTES", 100_000)
    # A proxy that is not there: whoever asks it gets no answer at all.
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    server = HTTPServer(("127.0.0.1", 0), _Odd)
    server.answer, server.elsewhere = answer, f"http://{api.address}/v1/runtime/acquire-task"  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    link = SuperNode(f"127.0.0.1:{server.server_port}", secret_file(tmp_path))
    try:
        for asks in (link.acquire, link.ping):
            with pytest.raises(SuperNodeError, match=r"127\.0\.0\.1"):
                asks()
    finally:
        link.close()
        server.shutdown()
        thread.join()
        server.server_close()
