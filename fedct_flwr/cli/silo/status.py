"""``fedct silo status``: what the agent does, what has left, what is left of the limits. Light: health checks ask."""

from typing import Annotated

import typer

from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.silo.folder import Folder, silo_file
from fedct_flwr.config.silo import SiloFolder
from fedct_flwr.hospital.agent_status import read_agent
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
    config = SiloFolder.read_toml(file)
    if healthy:
        raise typer.Exit(0 if read_agent(config).healthy and may_leave(config) else 1)
    from fedct_flwr.cli.silo.status_report import report_of, table

    report = report_of(config)
    Output(as_json=json_).show(report, table(report))


def may_leave(config: SiloFolder) -> bool:
    """Whether an approval is in force. That it covers today's files is the agent's to see: it shuts."""
    try:
        decisions = [
            entry.event for entry in read_entries(config.state) if entry.event in (Event.APPROVED, Event.REVOKED)
        ]
    except FedctError:
        return False
    return decisions[-1:] == [Event.APPROVED] and not is_revoked(config.state)
