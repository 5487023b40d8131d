"""Flower's SuperNode, which also shows a client certificate to the gateway, and ends when its work does.

Takes ``--client-certificate FILE --client-key FILE`` and Flower's options. Needs Flower and a few files alone.
"""

import argparse
import contextlib
import importlib
import os
import signal
import ssl
import sys
import threading
import traceback
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, Final

LOOKS: Final = "FEDCT_LOOKS"
"""In the environment of a SuperNode: the descriptor that it writes a byte to for each look for work."""
SETTINGS_CODE: Final = 2
"""Exit code of a SuperNode with wrong options or a wrong client certificate: starting it again cannot help."""
RETURNED: Final = 70
"""Exit code of a SuperNode whose work has ended without a signal."""
_PROGRAM: Final = "flower-supernode"
_SOME: Final = 0
"""Stands for a run's number, which Flower's loop only compares with None."""


def show_certificate(certificate: str, key: str) -> None:
    """Have this process show the certificate to each server. Raises OSError or ssl.SSLError for wrong files."""
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key)
    load = ssl.SSLContext.load_verify_locations

    def load_and_show(self: ssl.SSLContext, *arguments: Any, **others: Any) -> None:
        load(self, *arguments, **others)
        self.load_cert_chain(certificate, key)

    ssl.SSLContext.load_verify_locations = load_and_show  # type: ignore[method-assign]


def follow_nothing() -> None:
    """Make this process follow no redirection, which could lead to any address in the hospital."""
    import httpx

    send = httpx.Client.send

    def stay(self: httpx.Client, request: httpx.Request, **others: Any) -> httpx.Response:
        return send(self, request, **others | {"follow_redirects": False})

    httpx.Client.send = stay  # type: ignore[method-assign]


def send_what_waits(looked: Callable[[], None]) -> None:
    """Make this process's SuperNode send pending replies at each look for work, and call ``looked`` then.

    Flower sends one reply after each question. Where a pull is aborted, its reply takes the place of the next one, and
    each later round waits for a silo that has replied. Issue for Flower, "SuperNode: replies lag one message behind
    after an interrupted pull": `start_client_internal` calls `_push_messages` only after a message was pulled.
    """
    module: Any = importlib.import_module("flwr.supernode.start_client_internal")
    look = module._pull_and_store_message

    def look_and_see_what_waits(*, state: Any, **others: Any) -> int | None:
        run: int | None = look(state=state, **others)
        looked()
        return _SOME if run is None and _has_reply(state) else run

    module._pull_and_store_message = look_and_see_what_waits


def _has_reply(state: Any) -> bool:
    """Whether there is a reply that was not taken yet. Flower's own question takes what it finds."""
    with state.lock_msg_store:
        return any(
            entry.message.metadata.reply_to_message_id and not entry.is_retrieved for entry in state.msg_store.values()
        )


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
                "and take it with 'fedct silo join'\n"
            )
            sys.exit(SETTINGS_CODE)
    follow_nothing()
    looks = int(os.environ.pop(LOOKS, 0))

    def looked() -> None:
        with contextlib.suppress(OSError):
            os.write(looks, b".")

    send_what_waits(looked if looks else lambda: None)
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
    """Wait for the end of standard input, which comes when the process at the other end is gone."""
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
