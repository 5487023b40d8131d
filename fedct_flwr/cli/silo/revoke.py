"""``fedct silo revoke``: withdraw the approval at once."""

from pathlib import Path
from typing import Annotated

import typer

from fedct_flwr.cli.output import Output
from fedct_flwr.cli.silo.folder import Folder, silo_file
from fedct_flwr.config import SiloConfig
from fedct_flwr.hospital import approval
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.keys import load_egress_key
from fedct_flwr.hospital.log_entry import is_revoked, read_entries
from fedct_flwr.text.printable import in_shell
from fedct_flwr.types import ConfigError, RunError


def revoke(
    folder: Folder = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Withdraw the approval at once, also while the agent is at work. What has left cannot be called back."""
    silo = silo_file(folder)
    config, out = SiloConfig.read_toml(silo), Output()
    # Whatever the log says that cannot be read: revoked is revoked.
    if is_revoked(config.state) or not _is_approved(config.state):
        out.say("Nothing is approved: nothing leaves.")
        return
    if not yes and not typer.confirm("Withdraw the approval, so that nothing leaves from now on?"):
        raise typer.Exit(1)
    approval.withdraw(config.state)
    try:
        with EgressLog.open(config.state, config.silo, load_egress_key(config.egress_key)) as log:
            approval.put_down(log, config.state)
        out.say("Revoked: nothing leaves from now on, and the log says so.")
    except (ConfigError, RunError):
        out.say(
            "Revoked: nothing leaves from now on. An agent that is at work writes it into the log within a second, "
            f"otherwise the next command does: fedct silo verify {in_shell(silo.parent)}"
        )
    out.say("To allow it again: fedct silo approve")


def _is_approved(state: Path) -> bool:
    try:
        return approval.current(read_entries(state)) is not None
    except RunError:
        return True
