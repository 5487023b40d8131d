"""The agent's status in ``agent.json``, for commands and health checks. Light, as they ask often.

docker/healthy.py, which stands alone, reads ``connected``, ``seen`` and ``shut`` too.
"""

import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import psutil

from fedct_flwr.config.silo import SiloFolder
from fedct_flwr.files import UNREADABLE
from fedct_flwr.hospital import link
from fedct_flwr.hospital.link import LinkStatus

STATUS_FILE: Final = "agent.json"
_WRITE_SECONDS: Final = 1.0
CONTACT_SECONDS: Final = 60.0
"""So long the agent may be without a word from its SuperNode and count as healthy."""
_JUST_NOW_SECONDS: Final = 10.0
_START_SECONDS: Final = 600.0
"""Longest that an agent needs from the start of its process until it says when it started."""


class Shut(StrEnum):
    """Why an agent lets nothing out until an operator acts."""

    LOG = "log"
    FILES = "files"


STILL: Final = (
    "gives no sign of life: see that the disk with its state is neither full nor read-only; if it is not, end the "
    "agent and start it again"
)
"""Of an agent whose process is there and says nothing, in words, and what to do."""
STALE: Final = (
    "the file of the records, or of those who opted out, was written or removed since the agent read it, and the agent "
    "goes on with the records of before: start the agent again"
)
"""Of an agent whose answers do not follow from the records as they are now, in words, and what to do."""
_NOT_LET_IN: Final = "cannot be asked, as the coordinator does not let its SuperNode in: see the next line"
_SENTENCES: Final[Mapping[str, str]] = {
    Shut.LOG: "the agent cannot write its egress log, so nothing leaves: look for a full disk or a replaced file, and "
    "start the agent again",
    Shut.FILES: "the settings, a key, or files of study or app were written since the agent began, so nothing leaves: "
    "start the agent again",
}


def sentence_of(shut: str) -> str:
    """Why nothing leaves, in words, and what to do.

    >>> sentence_of("log")[:40]
    'the agent cannot write its egress log, s'
    """
    return _SENTENCES.get(shut, "the agent lets nothing out: start it again")


@dataclass
class Status:
    """Contents of ``agent.json`` in the silo's state. Times are seconds since 1970.

    ``pid`` is 0 once the agent has stopped. ``seen``: last word from the SuperNode. ``asked``: when
    the last question came, 0 if none has. ``round``: the last one worked on. ``shut``: why
    nothing leaves, as ``Shut`` knows it, empty if something may. ``stale``: whether the records' file has changed since
    the agent read it. ``since``: when it began with the question that it works on, 0 if none.
    """

    pid: int = 0
    started: float = 0.0
    study: str = ""
    seen: float = 0.0
    connected: bool = False
    working: bool = False
    round: int = 0
    shut: str = ""
    stale: bool = False
    since: float = 0.0
    asked: float = 0.0


def read_status(state: Path) -> Status:
    """Read the status in the silo's ``state``; that of no agent if there is no file, or none that can be read."""
    try:
        stored = json.loads((state / STATUS_FILE).read_text("utf-8"))
        return Status(**{name: type(value)(stored.get(name, value)) for name, value in asdict(Status()).items()})
    except UNREADABLE:
        return Status()


@dataclass(frozen=True)
class AgentStatus:
    """The agent's own status; ``alive`` is whether its process is there.

    ``link`` is the status of the SuperNode's supervisor, None where it cannot be seen from here.
    """

    status: Status
    alive: bool
    link: LinkStatus | None

    @property
    def healthy(self) -> bool:
        """Alive, in contact with its SuperNode, and that with the coordinator; and something may leave."""
        return not self.trouble and not (self.link and self.link.silent)

    @property
    def trouble(self) -> str:
        """Why it answers nothing, and after a colon what to do; empty where all is well."""
        if not self.alive:
            return "not at work: fedct silo start"
        if not self.status.connected:
            # A SuperNode that is not let in ends again and again; the link says why.
            away = self.link is not None and self.link.silent and not self.link.error
            return _NOT_LET_IN if away else "waits for its SuperNode: fedct silo connect"
        return STILL if self.hangs else sentence_of(self.status.shut) if self.status.shut else ""

    @property
    def unheard(self) -> float:
        """Seconds since the agent had word from its SuperNode. A time to come is one of before a clock was set back."""
        return abs(time.time() - self.status.seen)

    @property
    def hangs(self) -> bool:
        """Whether its process is there, and has said nothing for so long that it must hang."""
        return self.alive and self.status.connected and self.unheard >= CONTACT_SECONDS

    @property
    def silence(self) -> float:
        """Seconds since the coordinator last answered the SuperNode; 0 if that is unknown."""
        return self.link.silence if self.link else 0.0

    @property
    def worked(self) -> float:
        """Seconds since the agent began with the question that it works on; 0 if it works on none, or does not say."""
        begun = self.status.since
        return max(0.0, time.time() - begun) if self.status.working and begun else 0.0


def read_agent(config: SiloFolder) -> AgentStatus:
    """Read ``agent.json``, look for the process that it names, and read the link's status."""
    status = read_status(config.state)
    return AgentStatus(status, _lives(status), LinkStatus.read(status_file(config)))


def status_file(config: SiloFolder) -> Path:
    """Where the SuperNode's supervisor writes how the link is."""
    return config.connection.secret.with_name(link.STATUS_FILE)


def _lives(status: Status) -> bool:
    """Whether the agent's process is there, and not another one of its number."""
    if not status.pid:
        return False
    # An agent in a container has a number that means nothing out here, but it has just heard from its SuperNode.
    if abs(time.time() - status.seen) < _JUST_NOW_SECONDS:
        return True
    try:
        return -1 <= status.started - psutil.Process(status.pid).create_time() < _START_SECONDS
    except psutil.Error:
        return False


class StatusFile:
    """``agent.json``: written at most once a second, unsynced."""

    def __init__(self, path: Path, status: Status) -> None:
        self._path = path
        self._status = status
        self._lock = threading.Lock()
        self._written = 0.0
        self.failed = False
        """Whether the file could not be written last time."""
        self.put(urgent=True)

    @property
    def connected(self) -> bool:
        """Whether the SuperNode answered last time."""
        return self._status.connected

    def put(self, *, urgent: bool = False, **changes: float | str | None) -> None:
        """Change fields; the file follows within a second of contact, at once if urgent."""
        with self._lock:
            for name, value in changes.items():
                setattr(self._status, name, value)
            if urgent or time.monotonic() - self._written >= _WRITE_SECONDS:
                self._written = time.monotonic()
                self._write(json.dumps(asdict(self._status)))

    def _write(self, message: str) -> None:
        """Write over the file in one call, without its getting shorter: that needs no room on a full disk."""
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.write(file, message.encode().ljust(os.fstat(file).st_size))
            finally:
                os.close(file)
            self.failed = False
        except OSError:
            self.failed = True
