"""``fedct silo status``: what the agent does, what has left, what is left of the limits.

Whether the agent is what it says of itself in ``agent.json`` is here too. Light: health checks ask often.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import psutil
import typer

from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.silo.folder import Folder, silo_file
from fedct_flwr.config import SiloConfig
from fedct_flwr.hospital.agent_status import STILL, Status, read_status, sentence_of
from fedct_flwr.hospital.link import STATUS_FILE, LinkStatus
from fedct_flwr.hospital.log_entry import Event, is_revoked, read_entries
from fedct_flwr.types import FedctError


def status(
    folder: Folder = None,
    json_: Json = False,
    healthy: Annotated[
        bool,
        typer.Option(
            "--healthy", help="Print nothing; exit code 1 unless the agent is in contact and approved labels may leave."
        ),
    ] = False,
) -> None:
    """Show what the agent does, what has left, and what is left of the limits."""
    file = silo_file(folder)
    config = SiloConfig.read_toml(file)
    if healthy:
        raise typer.Exit(0 if read_agent(config).healthy and may_leave(config) else 1)

    from fedct_flwr.cli.silo.status_report import facts, study_of, table

    said = facts(config, study_of(config))
    Output(as_json=json_).show(said, table(said))


CONTACT_SECONDS: Final = 60.0
"""So long the agent may be without a word from its SuperNode and count as healthy."""
_JUST_NOW_SECONDS: Final = 10.0
_START_SECONDS: Final = 600.0
"""Longest that an agent needs from the start of its process until it says when it started."""


@dataclass(frozen=True)
class Agent:
    """What the agent says of itself; ``alive`` is whether its process is there.

    ``link`` is what the SuperNode's supervisor says, None where that is not to be seen from here.
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
            return "waits for its SuperNode: fedct silo connect"
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


def read_agent(config: SiloConfig) -> Agent:
    """What ``agent.json`` says, whether the process it names is there, and what is known of the link."""
    status = read_status(config.state)
    return Agent(status, _lives(status), LinkStatus.read(status_file(config)))


def may_leave(config: SiloConfig) -> bool:
    """Whether an approval is in force. That it covers today's files is the agent's to see: it shuts."""
    try:
        said = [entry.event for entry in read_entries(config.state) if entry.event in (Event.APPROVED, Event.REVOKED)]
    except FedctError:
        return False
    return said[-1:] == [Event.APPROVED] and not is_revoked(config.state)


def status_file(config: SiloConfig) -> Path:
    """Where the SuperNode's supervisor writes how the link is."""
    return config.connection.secret.with_name(STATUS_FILE)


def _lives(status: Status) -> bool:
    """Whether the agent's process is there, and not another one of its number.

    An agent in a container has a number that means nothing out here, but it has just heard from its SuperNode.
    """
    if not status.pid:
        return False
    if abs(time.time() - status.seen) < _JUST_NOW_SECONDS:
        return True
    try:
        return -1 <= status.started - psutil.Process(status.pid).create_time() < _START_SECONDS
    except psutil.Error:
        return False
