"""Flower's SuperNode, which also shows a client certificate to the gateway and says how its calls end.

``certified_supernode [--client-certificate FILE --client-key FILE]``, and Flower's own options. Flower 1.41 has no
option for a certificate. Needs Flower alone, as that and a few files of ours are all that the image of a SuperNode has.
It is run by ``supervised_supernode``, which reads from its standard output a line for each call to the coordinator.
"""

import argparse
import base64
import contextlib
import hashlib
import importlib
import json
import os
import signal
import ssl
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, Final

from fedct_flwr.hospital.late_answers import send_late_answers
from fedct_flwr.hospital.link import Link
from fedct_flwr.hospital.noted_calls import note_calls, tell_agents
from fedct_flwr.hospital.supervised_supernode import FINGERPRINT, FORMER, NODE, SUPERVISED, option

RETURNED: Final = 70
"""Exit code of a SuperNode whose work has ended while nobody had asked for that."""


def show_certificate(certificate: str, key: str) -> None:
    """From now on SuperNodes of this process show this certificate to their SuperLink, and to nobody else.

    Raises OSError or ssl.SSLError for files that are no certificate and its key, at once.
    """
    module: Any = importlib.import_module("flwr.supernode.fleet_http_connection")

    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key)
    original = module.FleetHttpClient

    class Certified(original):  # type: ignore[misc, valid-type]
        def __init__(self, base_url: str, *, verify: Any, **others: Any) -> None:
            if not isinstance(verify, ssl.SSLContext):
                raise TypeError("a SuperNode with a client certificate needs --root-certificates")
            verify.load_cert_chain(certificate, key)
            super().__init__(base_url, verify=verify, **others)

    module.FleetHttpClient = Certified


def fingerprint(node_key: str) -> str:
    """What ``ssh-keygen -l`` calls the key whose private half this file has; empty if nobody can tell."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

    try:
        public = load_ssh_private_key(Path(node_key).read_bytes(), None).public_key()
        blob = base64.b64decode(public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).split()[1])
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        return ""
    return f"SHA256:{base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip('=')}"


def main() -> None:
    """Run ``flower-supernode``."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--client-certificate")
    parser.add_argument("--client-key")
    given, rest = parser.parse_known_args()
    files = (given.client_certificate, given.client_key)
    if any(files):
        if not all(files):
            sys.exit("--client-certificate and --client-key belong together: give both or neither")
        try:
            show_certificate(*files)
        except (OSError, ssl.SSLError) as error:
            sys.exit(
                f"cannot use the client certificate {files[0]} with the key {files[1]} "
                f"({error.strerror or type(error).__name__}): ask the coordinator for a new invitation, "
                "and take it with 'fedct silo renew'"
            )
    before = os.environ.pop(SUPERVISED, "")
    link, notes = (Link(float(before)), _Notes()) if before else (Link(), None)

    def note(call: str, said: str) -> None:
        if call != NODE:
            link.note(call, said)
        if notes:
            notes.write(call, said)

    note_calls(note, os.environ.pop(FORMER, ""))
    tell_agents(link)
    send_late_answers()
    if notes:
        notes.write(FINGERPRINT, fingerprint(option(rest, "--auth-supernode-private-key")))
        threading.Thread(target=_end_with_supervisor, daemon=True).start()
    sys.argv = ["flower-supernode", *rest]
    from flwr.supernode.cli import flower_supernode

    try:
        flower_supernode()
    except Exception:
        traceback.print_exc()
    # A SuperNode's work has no end. Flower's thread that serves the agent would keep the process, with nobody in it who
    # calls the coordinator.
    sys.stderr.write("the SuperNode's work has ended, and nobody had asked for that\n")
    sys.stderr.flush()
    os._exit(RETURNED)


class _Notes:
    """The way to the supervisor: what was the standard output. What others print there goes to standard error."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._pipe = os.dup(1)
        os.dup2(2, 1)

    def write(self, call: str, said: str) -> None:
        # A supervisor that is gone is noticed elsewhere.
        with contextlib.suppress(OSError):
            os.write(self._pipe, (json.dumps([call, said]) + "\n").encode())


def _end_with_supervisor() -> None:
    """Nothing ever comes by standard input, until the process at the other end is no more."""
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
