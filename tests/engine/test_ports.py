"""A port is kept for the program that is to listen at it."""

import socket

import pytest

from fedct_flwr.engine.ports import reserved_port


def test_a_server_listens_at_it_and_nobody_else_is_given_it() -> None:
    with reserved_port("127.0.0.1") as port:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        # As asyncio, gRPC and socketserver do.
        address = ("127.0.0.1", port)
        with socket.create_server(address) as server, socket.create_connection(address) as caller:
            accepted, name = server.accept()
            accepted.close()
            assert name == caller.getsockname()


def test_afterwards_it_is_free() -> None:
    with reserved_port("127.0.0.1") as port:
        pass
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
