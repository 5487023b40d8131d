"""Flower's SuperNode, which also shows a client certificate to the gateway, and ends when its work does.

Takes ``--client-certificate FILE --client-key FILE`` and Flower's options. Needs Flower and a few files alone.
"""

import argparse
import contextlib
import os
import signal
import ssl
import sys
import threading
import traceback
from importlib.metadata import entry_points
from typing import Any, Final

import httpx

from fedct_flwr.flower import stale_replies
from fedct_flwr.hospital.supervisor import LOOKS, SETTINGS_CODE

RETURNED: Final = 70
"""Exit code of a SuperNode whose work has ended without a signal."""
_PROGRAM: Final = "flower-supernode"


def show_certificate(certificate: str, key: str) -> None:
    """Have this process show the certificate to each server. Raises OSError or ssl.SSLError for wrong files."""
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key)
    load = ssl.SSLContext.load_verify_locations

    def load_and_show(self: ssl.SSLContext, *arguments: Any, **others: Any) -> None:
        load(self, *arguments, **others)
        self.load_cert_chain(certificate, key)

    ssl.SSLContext.load_verify_locations = load_and_show  # type: ignore[method-assign]


def follow_nothing() -> None:
    """From now on this process follows no redirection: it could lead to any address in the house."""
    send = httpx.Client.send

    def stay(self: httpx.Client, request: httpx.Request, **others: Any) -> httpx.Response:
        return send(self, request, **others | {"follow_redirects": False})

    httpx.Client.send = stay  # type: ignore[method-assign]


def main() -> None:
    """Run ``flower-supernode``."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--client-certificate", default="")
    parser.add_argument("--client-key", default="")
    given, rest = parser.parse_known_args()
    if given.client_certificate:
        try:
            show_certificate(given.client_certificate, given.client_key)
        except (OSError, ssl.SSLError) as error:
            sys.stderr.write(
                f"cannot use the client certificate {given.client_certificate} with the key {given.client_key!r} "
                f"({error.strerror or type(error).__name__}): ask the coordinator for a new invitation, "
                "and take it with 'fedct silo renew'\n"
            )
            sys.exit(SETTINGS_CODE)
    follow_nothing()
    looks = int(os.environ.pop(LOOKS, 0))

    def looked() -> None:
        with contextlib.suppress(OSError):
            os.write(looks, b".")

    stale_replies.install(looked if looks else lambda: None)
    if looks:
        threading.Thread(target=_end_with_supervisor, daemon=True).start()
    sys.argv = [_PROGRAM, *rest]
    (program,) = entry_points(group="console_scripts", name=_PROGRAM)
    try:
        program.load()()
    except Exception:
        traceback.print_exc()
    # A SuperNode's work has no end. Flower's thread that serves the agent would keep the process alive, without
    # anything in it that calls the coordinator.
    sys.stderr.write("the SuperNode's work has ended without a signal\n")
    sys.stderr.flush()
    os._exit(RETURNED)


def _end_with_supervisor() -> None:
    """Nothing ever comes by standard input, until the process at the other end is no more."""
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
