"""An approval for an agent that is at work: nobody else may write its egress log, so it puts the line down itself.

A file has the line, signed with the egress key. The agent ends what it does, and starts anew with the settings and the
study of now; whoever opens the log next puts the approval down there. To withdraw the approval takes the file away. The
signature is for one place in the log: once anything else was approved or revoked, a copy of the file is worth nothing.
"""

import json
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.hospital.approval import approval_in, current
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.four_eyes import last_decision
from fedct_flwr.hospital.log_entry import Event, LogEntry
from fedct_flwr.hospital.revocation import NEXT, put_down
from fedct_flwr.types import RunError

_PURPOSE: Final = b"fedct next approval "


def leave(state: Path, entry: LogEntry, key: Ed25519PrivateKey, after: int) -> None:
    """Leave an approval for the agent, ``after`` the line of the last decision. Raises OSError."""
    said = json.dumps({"study": entry.study, "public": entry.public, "details": dict(entry.details), "after": after})
    signature = key.sign(_PURPOSE + said.encode()).hex()
    write_atomically(state / NEXT, json.dumps({"said": said, "signature": signature}).encode())


def is_waiting(state: Path) -> bool:
    """Whether there is one."""
    return (state / NEXT).exists()


def settle(log: EgressLog, state: Path) -> None:
    """Put down what was decided while nobody could write the log: a withdrawal first, then an approval after it."""
    after = last_decision(log.entries()) if is_waiting(state) else 0
    put_down(log, state)
    take(log, state, after)


def take(log: EgressLog, state: Path, after: int) -> None:
    """Put a waiting approval into the log, if it was given ``after`` this line.

    Raises RunError if it cannot be written, or if it is one that the log's key did not sign, or not for this place.
    """
    path = state / NEXT
    try:
        found = json.loads(path.read_text("utf-8"))
        said = str(found["said"])
        log.key.public_key().verify(bytes.fromhex(found["signature"]), _PURPOSE + said.encode())
        terms = json.loads(said)
        entry = LogEntry(Event.APPROVED, terms["study"], terms["public"], details=terms["details"])
        if terms["after"] == after:
            log.append(entry)
        elif (approval := approval_in(entry)) is None or approval.digest != current(log.entries()):
            raise ValueError
        # Or else a crash has come between the line and this.
    except FileNotFoundError:
        return
    except (InvalidSignature, ValueError, KeyError, TypeError, RecursionError):
        raise RunError(f"{path} is no approval that was given here: remove it, and approve again") from None
    except OSError as error:
        raise RunError(f"cannot write the egress log {log.path}: {error.strerror or error}") from None
    # Unless somebody has withdrawn it in this moment: that stands in a file of its own.
    path.unlink(missing_ok=True)
