"""A small HTTP server that no caller can hold up: so many at once, each for so many seconds.

A server of the standard library waits for ever for a caller who says nothing. A thousand of them take all file
descriptors of the process, and then it answers nobody.
"""

import contextlib
import socket
import threading
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final

_MOST: Final = 32
_SECONDS: Final = 20.0


def connection_limit(server: TCPServer, most: int = _MOST, seconds: float = _SECONDS) -> None:
    """From now on the ``server``, with a thread for each caller, closes what is more, or takes longer."""
    if not isinstance(server, ThreadingMixIn):
        raise TypeError("not a server with a thread for each caller")
    free = threading.BoundedSemaphore(most)
    begin, serve = server.process_request, server.process_request_thread
    changed: Any = server

    def process_request(caller: Any, address: Any) -> None:
        if free.acquire(blocking=False):
            begin(caller, address)
        else:
            server.shutdown_request(caller)

    def process_request_thread(caller: Any, address: Any) -> None:
        # One who sends a byte now and then is cut off too.
        end = threading.Timer(seconds, _cut, [caller])
        end.daemon = True
        try:
            end.start()
            serve(caller, address)
        finally:
            end.cancel()
            free.release()

    changed.process_request, changed.process_request_thread = process_request, process_request_thread


def _cut(caller: socket.socket) -> None:
    with contextlib.suppress(OSError):
        caller.shutdown(socket.SHUT_RDWR)
