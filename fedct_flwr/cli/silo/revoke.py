"""``fedct silo revoke``: from now on nothing leaves."""

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from fedct_flwr.cli.output import Output
from fedct_flwr.cli.silo.folder import Folder, FolderOption, silo_file
from fedct_flwr.config import SiloConfig
from fedct_flwr.hospital.approval import current
from fedct_flwr.hospital.egress_log import AtWorkError, EgressLog
from fedct_flwr.hospital.keys import load_egress_key
from fedct_flwr.hospital.log_entry import read_entries
from fedct_flwr.hospital.revocation import is_revoked, put_down, withdraw
from fedct_flwr.text.printable import in_shell
from fedct_flwr.types import ConfigError, RunError

_AGENT_SECONDS: Final = 5.0
"""The agent looks once a second, whatever else it does."""
_POLL_SECONDS: Final = 0.1


def revoke(
    folder: Folder = None,
    folder_option: FolderOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Withdraw the approval at once, also while the agent is at work. What has left cannot be called back."""
    silo = silo_file(folder, folder_option)
    config = SiloConfig.read_toml(silo)
    out = Output()
    # Whatever the log says that cannot be read: revoked is revoked.
    if is_revoked(config.state) or not _is_approved(config.state):
        out.say("Nothing is approved: nothing leaves.")
        return
    if not yes and not typer.confirm("Withdraw the approval, so that nothing leaves from now on?"):
        raise typer.Exit(1)
    withdraw(config.state)
    if _logged(config):
        out.say("Revoked: nothing leaves from now on, and the log says so.")
    else:
        out.say(
            "Revoked: nothing leaves from now on. The log does not say so yet, and until it does that stands in a file "
            f"alone: end the agent, if it hangs, or see fedct silo verify {in_shell(silo.parent)}"
        )
    out.say("To allow it again: fedct silo approve")


def _logged(config: SiloConfig) -> bool:
    """Put it into the log, or wait for the agent that is at work to do so. Whether it stands there."""
    try:
        with EgressLog.open(config.state, config.silo, load_egress_key(config.egress_key)) as log:
            put_down(log, config.state)
        return True
    except AtWorkError:
        end = time.monotonic() + _AGENT_SECONDS
        while (waits := is_revoked(config.state)) and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        return not waits and not _is_approved(config.state)
    except (ConfigError, RunError):
        return False


def _is_approved(state: Path) -> bool:
    try:
        return current(read_entries(state)) is not None
    except RunError:
        return True
