"""Callers who say nothing, or a byte now and then, keep nobody else waiting for long."""

import http.client
import http.server
import socket
import threading
from collections.abc import Iterator

import pytest

from fedct_flwr.cli.connection_limit import connection_limit
from tests.patience import PATIENCE, eventually

MOST, SECONDS = 4, 2.0


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        connection_limit(server, MOST, SECONDS)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def answers(port: int) -> bool:
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        asked.request("GET", "/")
        return asked.getresponse().status == 204
    except (OSError, http.client.HTTPException):
        return False
    finally:
        asked.close()


def test_those_who_say_nothing_are_cut_off_and_what_is_too_many_is_closed(port: int) -> None:
    callers = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) for _ in range(3 * MOST)]
    for caller in callers:
        assert caller.recv(1) == b""
    eventually(lambda: answers(port))
    for caller in callers:
        caller.close()


def test_a_byte_now_and_then_gains_no_time(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as slow:

        def is_cut_off() -> bool:
            try:
                slow.sendall(b"G")
            except ConnectionError:
                return True
            return False

        eventually(is_cut_off)
    assert answers(port)


def test_those_who_ask_are_answered_again_and_again(port: int) -> None:
    assert all(answers(port) for _ in range(5 * MOST))
