"""What lies between a silo and its coordinator, and how it fails: a relay of TCP.

A fault begins at once, also for connections that are open; ``heal`` ends it. TLS goes through untouched.
"""

import contextlib
import socket
import struct
import threading
import time
from typing import Final, Self

_CHUNK: Final = 65536
_PAUSE: Final = 0.05

FAULTS: Final = ("drop", "reset", "503", "stall")
"""Closes at once; resets; answers with an HTTP status; takes calls and says nothing."""


class Relay:
    """Carries what comes to ``port`` to ``target``, a port of this machine. A context manager."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.fault = ""
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        # A thread that waits in accept() would take one more call from a socket that is only closed.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._end_all(reset=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def fail(self, fault: str) -> None:
        assert fault in FAULTS
        self.fault = fault
        if fault != "stall":
            self._end_all(reset=fault == "reset")

    def heal(self) -> None:
        # What waited in a fault that holds bytes back is of no use to anybody.
        self.fault = ""
        self._end_all(reset=True)

    def _accept(self) -> None:
        while not self._closed:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        with contextlib.suppress(OSError), caller:
            self._add(caller)
            if self._refuses(caller):
                return
            with socket.create_connection(("127.0.0.1", self._target)) as coordinator:
                self._add(coordinator)
                down = threading.Thread(target=self._pump, args=(coordinator, caller), daemon=True)
                down.start()
                self._pump(caller, coordinator)
                down.join()

    def _refuses(self, caller: socket.socket) -> bool:
        """Do what the fault does to those who call; whether that is all that they get."""
        if self.fault == "reset":
            _reset(caller)
        elif self.fault == "503":
            caller.recv(_CHUNK)
            caller.sendall(b"HTTP/1.1 503 Away\r\nContent-Length: 4\r\nConnection: close\r\n\r\nAway")
        return self.fault in ("drop", "reset", "503")

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(_CHUNK):
                while self.fault == "stall" and not self._closed:
                    time.sleep(_PAUSE)
                target.sendall(chunk)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _add(self, connection: socket.socket) -> None:
        with self._lock:
            self._open = {one for one in self._open if one.fileno() >= 0} | {connection}

    def _end_all(self, *, reset: bool) -> None:
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    _reset(connection) if reset else connection.shutdown(socket.SHUT_RDWR)
            self._open.clear()


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.shutdown(socket.SHUT_RDWR)
    connection.close()
