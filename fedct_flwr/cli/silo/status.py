"""``fedct silo status``: what the agent does, what has left, what is left of the limits."""

import time
from typing import Annotated, Final

import typer
from rich.live import Live

from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.silo.agent_file import may_leave, read_agent
from fedct_flwr.cli.silo.folder import Folder, FolderOption, silo_file
from fedct_flwr.config import SiloConfig

_REFRESH_SECONDS: Final = 1.0


def status(
    folder: Folder = None,
    folder_option: FolderOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Stay, and show what changes.")] = False,
    json_: Json = False,
    healthy: Annotated[
        bool,
        typer.Option(
            "--healthy", help="Print nothing; exit code 1 unless the agent is in contact and approved labels may leave."
        ),
    ] = False,
) -> None:
    """Show what the agent does, what has left, and what is left of the limits."""
    file = silo_file(folder, folder_option)
    config = SiloConfig.read_toml(file)
    if healthy:
        raise typer.Exit(0 if read_agent(config).healthy and may_leave(config) else 1)

    from fedct_flwr.cli.silo.status_report import facts, study_of, table

    study = study_of(config)
    out = Output(as_json=json_)
    if json_ or not (watch and out.console.is_terminal):
        said = facts(config, study)
        out.show(said, table(said))
        return
    with Live(table(facts(config, study)), console=out.console, auto_refresh=False) as live:
        while True:
            time.sleep(_REFRESH_SECONDS)
            live.update(table(facts(config, study)), refresh=True)
