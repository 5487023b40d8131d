"""The page of a run that goes on, served to this machine alone: read-only, and without a word on where files are.

The page is made again when the browser asks and the run folder has changed.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from fedct_flwr.report.page import Content, as_script, content, document, fragment
from fedct_flwr.report.summary import Run
from fedct_flwr.text.printable import printable
from fedct_flwr.types import RunError

HOST: Final = "127.0.0.1"
_NAMES: Final = (HOST, "localhost")
_RECENT_SECONDS: Final = 10.0
_LAST_WORDS_SECONDS: Final = 10.0
"""For a page that still asks to learn how the run ended: on a busy machine it asks late."""
_REQUEST_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.1
"""How soon the server notices that it is to end."""
_FILES: Final = ("config.json", "rounds.jsonl", "result.json", "scores.json", "trust.jsonl")


class Feed:
    """Current content of a run's page; asked by several threads at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._content = Content(printable(path.name))
        self._data = b""
        self._seen: Any = ()
        self._asked_at = float("-inf")
        self._told: Any = None

    def page(self) -> bytes:
        """The whole page."""
        with self._lock:
            self._look()
            return document(self._content, live=True).encode()

    def data(self) -> bytes:
        """The changing parts as JSON."""
        with self._lock:
            self._look()
            self._asked_at, self._told = time.monotonic(), self._seen
            return self._data

    @property
    def is_awaited(self) -> bool:
        """Whether a page that asked a moment ago does not know yet how things stand."""
        return time.monotonic() - self._asked_at < _RECENT_SECONDS and self._told != self._state()

    def _look(self) -> None:
        state = self._state()
        if state == self._seen:
            return
        # Otherwise the folder is being made, or its result has just been taken away because the run is resumed.
        with suppress(RunError):
            self._content = content(Run(self._path))
        shown = self._content
        self._data = as_script({**shown.head, "main": fragment(shown), "plots": shown.plots}).encode()
        self._seen = state

    def _state(self) -> list[Any]:
        """Other than before, if a file is."""
        found: list[Any] = []
        for name in _FILES:
            try:
                status = (self._path / name).stat()
                found.append((status.st_ino, status.st_size, status.st_mtime_ns))
            except OSError:
                found.append(None)
        return found


class LiveServer(ThreadingHTTPServer):
    """Serves one run on a free loopback port. Raises OSError without one."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.feed = Feed(path)
        super().__init__((HOST, 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is no error."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    """Two addresses and no parameters; every other method is answered with 501."""

    server: LiveServer
    server_version = "fedct"
    sys_version = ""
    timeout = _REQUEST_SECONDS

    def do_GET(self) -> None:
        # A page of another name that leads here (DNS rebinding) sends that name. A tunnel may have another port.
        if self.headers.get("Host", "").partition(":")[0] not in _NAMES:
            self.send_error(HTTPStatus.FORBIDDEN, "Not under this name")
        elif self.path == "/":
            self._answer("text/html; charset=utf-8", self.server.feed.page())
        elif self.path == "/data":
            self._answer("application/json", self.server.feed.data())
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _answer(self, kind: str, body: bytes) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        super().end_headers()

    def log_message(self, *args: Any) -> None:
        """Nothing between the lines of the command."""


@contextmanager
def live(path: Path) -> Iterator[LiveServer]:
    """Serve in a thread of its own meanwhile. Raises OSError without a free port.

    In the end, a page that is open gets a moment to learn how the run went.
    """
    with LiveServer(path) as server:
        thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), name="fedct-watch", daemon=True)
        thread.start()
        try:
            yield server
        finally:
            end = time.monotonic() + _LAST_WORDS_SECONDS
            while server.feed.is_awaited and time.monotonic() < end:
                time.sleep(0.05)
            server.shutdown()
            thread.join()
