"""A SuperNode that is started again when it ends, or stops polling while the coordinator answers.

Takes the options of ``fedct_flwr.flower.supernode``, which it runs as a process of its own, and ``--status=FILE``.
That process writes a byte for each look for work that succeeds. While no byte comes, the supervisor calls the
coordinator itself. It ends with SIGTERM and exit code 0, and with 2 where starting again cannot help: its port is
taken, or options or the client certificate are wrong. Needs the standard library alone.
"""

import argparse
import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fedct_flwr.flower.supernode import LOOKS, SETTINGS_CODE
from fedct_flwr.hospital.link import LinkError, LinkStatus, call, sentence_of, span
from fedct_flwr.hospital.log_line import about, log_line

SILO: Final = "FEDCT_SILO"
"""In the environment of the supervisor: the silo's name, for its log alone."""
_CHILD: Final = "fedct_flwr.flower.supernode"

_PORT_SECONDS: Final = 10.0
"""A SuperNode whose supervisor was killed may take this time to give its port back."""
_STOP_SECONDS: Final = 8.0
_PAUSES: Final = (1.0, 20.0)
"""Between two starts: the first, and the longest. For a minute Flower counts a SuperNode that was killed as there."""
_QUIET_SECONDS: Final = 12.0
"""After this time without a look, which Flower makes every 3 s, the supervisor calls the coordinator."""
_BACK_SECONDS: Final = 30.0
"""A SuperNode looks for work within this time after an outage: Flower pauses 20 s at most."""
_STUCK_SECONDS: Final = 600.0
"""A look without end, where the coordinator always answered: large files come over slow lines."""
_POLL_SECONDS: Final = 0.5
_CALL_PAUSE: Final = 5.0

Say = Callable[[str], None]


@dataclass
class Supervisor:
    """Runs ``command``, which is a SuperNode that writes looks, until ``stop`` is set or nothing can be done.

    ``ask`` calls the coordinator, and returns what is wrong as ``LinkError`` writes it, empty if it answers.
    """

    command: Sequence[str]
    ask: Callable[[], str]
    say: Say
    stop: threading.Event
    status: Path | None
    _heard: float = field(default_factory=time.time)
    _error: str = ""
    _said: str = ""
    _connected: bool = False

    def run(self) -> int:
        """The exit code."""
        pause = _PAUSES[0]
        while not self.stop.is_set():
            began = time.monotonic()
            code, why = self._one()
            if self.stop.is_set():
                break
            if code == SETTINGS_CODE or (code == 0 and not self._connected and not why):
                # Wrong options; or it was asked for its version or for help alone.
                return code
            if not self._connected and self.ask() == LinkError.CERTIFICATE:
                self.say(f"the SuperNode has ended: {sentence_of(LinkError.CERTIFICATE)}")
                return SETTINGS_CODE
            if time.monotonic() - began > _PAUSES[1]:
                pause = _PAUSES[0]
            self.say(f"{why or self._ended(code)}: it is started again in {pause:.0f} s")
            self._error = self.ask()
            self._tell()
            self._write()
            self.stop.wait(pause)
            pause = min(2 * pause, _PAUSES[1])
        return 0

    def _ended(self, code: int) -> str:
        ended = f"the SuperNode has ended (exit code {code})"
        self._error = self.ask()
        if self._error or code <= 0:
            return ended
        return (
            f"{ended}, and the coordinator answers. Ask whether connection/node.key.pub is registered, or was "
            "removed; if another SuperNode of this silo ended just now, wait a minute"
        )

    def _one(self) -> tuple[int, str]:
        """Run one SuperNode to its end. Returns its exit code, and why it was ended, empty if it ended by itself."""
        looks, written = os.pipe()
        os.set_blocking(looks, False)
        process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, pass_fds=[written], env={**os.environ, LOOKS: str(written)},
            # Signals typed at a terminal are for this process, which hands them on.
            start_new_session=True,
        )  # fmt: skip
        os.close(written)
        why, failed, back, asked = "", False, 0.0, 0.0
        last = time.monotonic()
        try:
            while process.poll() is None and not why and not self.stop.wait(_POLL_SECONDS):
                now = time.monotonic()
                if _drained(looks):
                    last, failed, back = now, False, 0.0
                    self._answered()
                elif now - last > _QUIET_SECONDS and now - asked > _CALL_PAUSE:
                    asked, self._error = now, self.ask()
                    failed = failed or bool(self._error)
                    back = 0.0 if self._error else back or now
                    self._tell()
                    stuck = now - back > _BACK_SECONDS if failed else now - last > _STUCK_SECONDS
                    if back and stuck:
                        silent = span(time.time() - self._heard)
                        why = f"lost contact with the coordinator {silent} ago; the SuperNode stopped polling"
                self._write()
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(_STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
            process.wait()
            with contextlib.suppress(OSError):
                os.close(looks)
                process.stdin.close()  # type: ignore[union-attr]
        return process.returncode, why

    def _answered(self) -> None:
        if self._said or not self._connected:
            silent = span(time.time() - self._heard)
            again = f"the coordinator answers again, after {silent}"
            self.say(again if self._connected else "connected to the coordinator")
        self._heard, self._error, self._said, self._connected = time.time(), "", "", True

    def _tell(self) -> None:
        if self._error and self._error != self._said:
            self.say(f"no answer from the coordinator: {sentence_of(self._error)}; trying again")
            self._said = self._error

    def _write(self) -> None:
        if self.status:
            LinkStatus(time.time(), self._heard, self._error, self._connected).write(self.status)


def main() -> None:
    """Supervise a SuperNode with the options of this command line."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("--client-certificate", "--client-key", "--root-certificates", "--superlink", "--host", "--status"):
        parser.add_argument(name, default="")
    parser.add_argument("--port", type=int, default=0)
    given, _ = parser.parse_known_args()
    words = [word for word in sys.argv[1:] if not word.startswith("--status=")]
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())

    def say(sentence: str) -> None:
        # A terminal that is gone is no reason to end.
        with contextlib.suppress(OSError, ValueError):
            print(log_line(sentence), flush=True)

    def ask() -> str:
        try:
            context = ssl.create_default_context(cafile=given.root_certificates or None)
            if given.client_certificate:
                context.load_cert_chain(given.client_certificate, given.client_key)
        except (OSError, ssl.SSLError):
            return LinkError.UNTRUSTED
        return call(given.superlink, context).error

    with about(part="connect", **({"silo": os.environ[SILO]} if os.environ.get(SILO) else {})):
        if taken := _port_taken(given.host or "127.0.0.1", given.port, stop):
            say(taken)
            sys.exit(SETTINGS_CODE)
        command = [sys.executable, "-P", "-m", _CHILD, *words]
        sys.exit(Supervisor(command, ask, say, stop, Path(given.status) if given.status else None).run())


def _drained(looks: int) -> bool:
    """Whether there was any look since the last one."""
    try:
        return bool(os.read(looks, 65536))
    except BlockingIOError:
        return False


def _port_taken(host: str, port: int, stop: threading.Event) -> str:
    """Wait until one can listen there. Returns a sentence if another program does, for too long."""
    end = time.monotonic() + _PORT_SECONDS
    while port and not stop.is_set():
        try:
            family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            with socket.socket(family, socket.SOCK_STREAM) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind(address)
            return ""
        except OSError as error:
            if time.monotonic() > end:
                return (
                    f"cannot listen for the agent at {host}:{port} ({error.strerror or type(error).__name__}): end "
                    "what listens there, such as another 'fedct silo connect', or change supernode in silo.toml"
                )
        stop.wait(0.2)
    return ""


if __name__ == "__main__":
    main()
