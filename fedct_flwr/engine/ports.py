"""A free port that stays free until the program it is for listens at it."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port(host: str = "") -> Iterator[int]:
    """A TCP port of this machine that the system gives nobody else meanwhile, neither as a free one nor to call from.

    A server may listen at it all the same, if it sets ``SO_REUSEADDR``, as servers do: nobody listens here.
    """
    with socket.socket() as reservation:
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reservation.bind((host, 0))
        yield int(reservation.getsockname()[1])
