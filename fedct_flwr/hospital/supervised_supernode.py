"""A SuperNode that is started again whenever it ends or no longer reaches the coordinator.

``supervised_supernode`` takes the options of ``certified_supernode``, which it runs as a process of its own. Each call
of that process to the coordinator is noted here; whatever a person should know is one line on standard output. It ends
with SIGTERM and exit code 0, and with another code where starting again cannot help: the port is taken, the options or
the certificate are wrong. Needs the standard library alone.
"""

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Final, cast

from fedct_flwr.hospital.link import SILENT_SECONDS, UNKNOWN_KEY, Link, Trouble, no_word, sentence_of, span
from fedct_flwr.hospital.log_line import about, log_line

SUPERVISED: Final = "FEDCT_SUPERVISED"
"""In the environment of a SuperNode that ends when its standard input does, and prints notes and nothing else: for how
many seconds the coordinator had been silent before it was started."""
FORMER: Final = "FEDCT_FORMER_NODE"
"""In its environment: by which number the coordinator knew the SuperNode before it, if there was one."""
NODE: Final = "node"
"""What a note has in place of a call that says by which number the coordinator has let this SuperNode in."""
FINGERPRINT: Final = "fingerprint"
"""What a note has in place of a call that says by which key the coordinator knows this silo."""
SILO: Final = "FEDCT_SILO"
"""In the environment of the supervisor: the silo's name, for its log alone."""
SETTINGS_CODE: Final = 2
FAILED_CODE: Final = 4
_CHILD: Final = "fedct_flwr.hospital.certified_supernode"

_PORT_SECONDS: Final = 10.0
"""So long a SuperNode whose supervisor was killed may take to give its port back."""
_STOP_SECONDS: Final = 8.0
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_HOPELESS: Final = 5
"""Starts in a row that end before the first call to the coordinator."""
_FIRST_RENEWAL: Final = 600.0
"""Of silence, after which a new process takes the place of one that calls in vain: it reads certificates, proxies and
names anew, but it loses the answers that the old one has not handed over yet."""
_LONGEST_RENEWAL: Final = 4 * 3600.0
_LOOK_SECONDS: Final = 0.5

Say = Callable[[str], None]


class PortTakenError(Exception):
    """Somebody else listens where the agent looks for its SuperNode."""


class Supervisor:
    """Runs ``command``, which is a SuperNode that writes notes, until ``stop`` is set or nothing can be done."""

    def __init__(self, command: Sequence[str], say: Say, stop: threading.Event) -> None:
        self._command = command
        self._say = say
        self._stop = stop
        self._link = Link()
        self._fingerprint = self._node = ""
        self._said = ""
        self._told_silent = False
        self._was_in_contact = False
        self._renewal = _FIRST_RENEWAL

    def run(self) -> int:
        """The exit code."""
        pause, hopeless = _FIRST_PAUSE, 0
        host, port = option(self._command, "--host") or "127.0.0.1", int(option(self._command, "--port") or 0)
        while True:
            try:
                _await_port(host, port, self._stop)
            except PortTakenError as taken:
                self._say(str(taken))
                return SETTINGS_CODE
            if self._stop.is_set():
                return 0
            self._link, began = Link(self._link.heard().silent), time.monotonic()
            code, why = self._one()
            if self._stop.is_set():
                return 0
            if not self._link.called:
                hopeless += 1
                if code == 0 or hopeless == _HOPELESS:
                    break
            if self._link.trouble == Trouble.CERTIFICATE and not self._was_in_contact:
                self._say(f"the SuperNode has ended: {sentence_of(Trouble.CERTIFICATE)}")
                return SETTINGS_CODE
            if self._link.answers:
                hopeless = 0
                if time.monotonic() - began > _LONGEST_PAUSE:
                    pause = _FIRST_PAUSE
            self._say(f"{why}: it is started again in {pause:.0f} s")
            self._stop.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        if code == 0:
            # It had only been asked for its version, or for help.
            return 0
        self._say(
            f"the SuperNode ended {hopeless} times before it called the coordinator (exit code {code}): see what it "
            "said, and correct that"
        )
        return FAILED_CODE

    def _one(self) -> tuple[int, str]:
        """Run one SuperNode to its end. Returns its exit code and a reason in words."""
        process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, SUPERVISED: f"{self._link.heard().silent:.1f}", FORMER: self._node},
            # What is typed at a terminal is for this process, which hands it on.
            start_new_session=True,
        )  # fmt: skip
        notes: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        output = cast(IO[bytes], process.stdout)
        reader = threading.Thread(target=_read, args=(output, notes), daemon=True)
        reader.start()
        why = ""
        try:
            while process.poll() is None and not self._stop.is_set() and not why:
                self._take(notes, _LOOK_SECONDS)
                why = self._hangs()
        finally:
            _end(process)
            reader.join(_STOP_SECONDS)
            self._take(notes, 0)
            for pipe in (process.stdin, output):
                with contextlib.suppress(OSError):
                    cast(IO[bytes], pipe).close()
        return process.returncode, why or f"the SuperNode has ended (exit code {process.returncode})"

    def _take(self, notes: "queue.SimpleQueue[tuple[str, str]]", seconds: float) -> None:
        """Look at all notes that are there, and wait a moment for the first."""
        with contextlib.suppress(queue.Empty):
            self._hear(*notes.get(timeout=seconds) if seconds else notes.get_nowait())
            while True:
                self._hear(*notes.get_nowait())

    def _hear(self, call: str, said: str) -> None:
        link = self._link
        if call == FINGERPRINT:
            self._fingerprint = said
            return
        if call == NODE:
            self._node = said
            return
        silent = link.heard().silent
        link.note(call, said)
        if said:
            if said != self._said:
                self._say(f"{self._sentence(no_word(said))}; trying again")
            self._said = said
            return
        if self._said or not self._was_in_contact:
            again = f"the coordinator answers again, after {span(silent)}"
            self._say(again if self._was_in_contact else "connected to the coordinator")
        self._said, self._told_silent, self._was_in_contact, self._renewal = "", False, True, _FIRST_RENEWAL

    def _hangs(self) -> str:
        """Why the process is to be replaced, in words; empty if it is not."""
        link = self._link
        silent, trouble = link.heard().silent, link.trouble
        if link.own_silence() < SILENT_SECONDS:
            return "the SuperNode no longer asks the coordinator for work" if link.stuck() else ""
        why = f": {self._sentence(sentence_of(trouble))}" if trouble else ", which the SuperNode no longer calls"
        if not self._told_silent:
            self._told_silent = True
            self._say(f"no word from the coordinator for {span(silent)}{why}")
        # A process that calls in vain can go on, one that calls no more cannot.
        if link.idle() or link.own_silence() > self._renewal:
            self._renewal = min(2 * self._renewal, _LONGEST_RENEWAL)
            return f"no word from the coordinator for {span(silent)}{why}"
        return ""

    def _sentence(self, said: str) -> str:
        return said.replace(
            UNKNOWN_KEY, f"{UNKNOWN_KEY} (fingerprint {self._fingerprint})" if self._fingerprint else UNKNOWN_KEY
        )


def main() -> None:
    """Supervise ``certified_supernode`` with the options of this command line."""
    stop = threading.Event()
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        if hasattr(signal, name):  # Windows knows no SIGHUP
            signal.signal(getattr(signal, name), lambda *_: stop.set())

    def say(sentence: str) -> None:
        # A terminal that is gone is no reason to end.
        with contextlib.suppress(OSError, ValueError):
            print(log_line(sentence), flush=True)

    silo = {"silo": os.environ[SILO]} if os.environ.get(SILO) else {}
    with about(part="connect", **silo):
        sys.exit(Supervisor([sys.executable, "-P", "-m", _CHILD, *sys.argv[1:]], say, stop).run())


def option(words: Sequence[str], name: str) -> str:
    """The value of an option of a command line, as ``--name VALUE`` or ``--name=VALUE``; empty if it is not there.

    >>> option(["--host=a", "--port", "1"], "--host"), option(["--host=a", "--port", "1"], "--port")
    ('a', '1')
    """
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return ""


def _read(output: IO[bytes], notes: "queue.SimpleQueue[tuple[str, str]]") -> None:
    with contextlib.suppress(OSError, ValueError):
        for line in output:
            with contextlib.suppress(ValueError, TypeError):
                call, said = json.loads(line)
                notes.put((str(call), str(said)))


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the process, in order if it can, and wait for it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def _await_port(host: str, port: int, stop: threading.Event) -> None:
    """Wait until one can listen there. Raises PortTakenError with a sentence."""
    end = time.monotonic() + _PORT_SECONDS
    while port:
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
                0
            ]
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                if os.name == "posix":
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
            return
        except OSError as error:
            if time.monotonic() > end:
                raise PortTakenError(
                    f"cannot listen for the agent at {host}:{port} ({error.strerror or type(error).__name__}): end "
                    "what listens there, such as another 'fedct silo connect', or change supernode in silo.toml"
                ) from None
        if stop.wait(0.2):
            return


if __name__ == "__main__":
    main()
