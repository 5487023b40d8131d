"""A real pseudo-terminal, and what somebody sees who sits there."""

import contextlib
import os
import pty
import re
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.patience import PATIENCE

_CHUNK = 65_536


class Screen:
    """What is written to a terminal of 40 lines and 100 columns. A context manager."""

    def __init__(self) -> None:
        self._ours, self.file = pty.openpty()
        termios.tcsetwinsize(self.file, (40, 100))
        self._written = b""
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "Screen":
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        """When nobody holds the terminal any more, all has been read."""
        os.close(self.file)
        self._reader.join(PATIENCE)
        os.close(self._ours)

    @property
    def text(self) -> str:
        """All of it, without colors and movements: what was there only for a moment as well."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._written.decode("utf-8", "replace")).replace("\r\n", "\n")

    def type(self, answer: str) -> None:
        os.write(self._ours, answer.encode())

    def _read(self) -> None:
        # An error is the end: then nobody holds the other side any more.
        with contextlib.suppress(OSError):
            while chunk := os.read(self._ours, _CHUNK):
                self._written += chunk


def run_on_a_terminal(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], answer: str = "", seconds: float = PATIENCE
) -> tuple[int, str]:
    """Exit code and screen. ``answer`` is typed at once, and waits there for the question."""
    with Screen() as screen:
        process = subprocess.Popen(
            command, cwd=folder, env={**environment, "TERM": "xterm"}, start_new_session=True,
            stdin=screen.file, stdout=screen.file, stderr=screen.file,
        )  # fmt: skip
        screen.type(answer)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return code, screen.text
