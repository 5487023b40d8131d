"""An approval can be withdrawn at once, also while a running agent holds the egress log.

A file says so: the gate looks for it before each decision. The agent logs it within a second; without an agent, the
next command that opens the log does.
"""

from pathlib import Path
from typing import Final

from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.four_eyes import FIRST
from fedct_flwr.types import RunError

REVOKED: Final = "revoked"


def withdraw(state: Path) -> None:
    """From now on nothing leaves. Raises RunError if that cannot be written."""
    try:
        (state / FIRST).unlink(missing_ok=True)
        write_atomically(state / REVOKED, b"")
    except OSError as error:
        raise RunError(f"cannot write to {state}: {error.strerror}; stop the agent instead") from None


def is_revoked(state: Path) -> bool:
    """Whether the approval was withdrawn, and that does not stand in the log yet."""
    return (state / REVOKED).exists()


def put_down(log: EgressLog, state: Path) -> None:
    """Write a withdrawn approval into the log, if there is one. Raises RunError, and it stays withdrawn."""
    # Imported here: health checks ask whether the approval was withdrawn.
    from fedct_flwr.hospital.approval import revoke

    if is_revoked(state):
        revoke(log)
        (state / REVOKED).unlink()
