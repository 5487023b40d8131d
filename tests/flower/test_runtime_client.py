"""The agent's way to its SuperNode, with a real SuperNode's API, and with what may answer in its place."""

import hashlib
import threading
import time
import tracemalloc
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, RecordDict
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.flower import runtime_client
from fedct_flwr.flower.runtime_client import SuperNode, SuperNodeError, Task, TaskLostError
from fedct_flwr.types import ConfigError
from fedct_flwr.wire.messages import from_record, to_record
from tests.hospital.runtime_api import CODE, NODE_ID, RuntimeApi, secret_file
from tests.patience import eventually
from tests.sentences import sentence


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
    assert sentence(SuperNodeError, nobody.acquire) == wording
    assert time.monotonic() - began < 60
    nobody.close()


@pytest.mark.parametrize("content", [None, b""])
def test_a_secret_that_is_not_there_is_said(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "secret").write_bytes(content)
    with pytest.raises(ConfigError, match="secret"):
        SuperNode("127.0.0.1:1", tmp_path / "secret")


def refuse(api: RuntimeApi, link: SuperNode, task: Task | None) -> None:
    """Answer a task whose message was not fetched."""
    assert task is not None
    assert not task.message.content
    link.push(task, to_record(b"refusal"))
    assert from_record(api.reply().content) == b"refusal"


def test_a_message_of_too_many_objects_is_not_fetched_but_can_be_answered(api: RuntimeApi, link: SuperNode) -> None:
    api.ask(RecordDict({f"record-{number}": ConfigRecord({"number": number}) for number in range(100)}))
    refuse(api, link, link.acquire())


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
    assert sum(pulled) <= 64 * 2**20 + size
    refuse(api, link, task)


@pytest.mark.parametrize("content", [b"", b"Message,,1\x00\xff", b"ConfigRecord,,0\x00"])
def test_a_message_that_is_none_can_be_answered(
    api: RuntimeApi, link: SuperNode, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_client, "_PULL_SECONDS", 0.2)
    monkeypatch.setattr(api.state, "get_object", lambda *_: content)
    api.ask(to_record(b"question"))
    refuse(api, link, link.acquire())


def test_a_task_of_a_supernode_that_was_restarted_is_lost(
    api: RuntimeApi, link: SuperNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_client, "_BEAT_SECONDS", 0.05)
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
        assert not link.awaits(task)
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
    monkeypatch.setattr(runtime_client, "_ANSWER_BYTES", 100_000)
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
