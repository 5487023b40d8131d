"""A run outlasts the SuperLink's restart, whichever call it falls into.

Flower 1.41 asks again when a connection is refused or reset, and gives up when the SuperLink dies or stands still in a
handshake of TLS: it cannot tell that from a certificate that is wrong.
"""

from dataclasses import dataclass

import httpx
from flwr.serverapp import Grid
from flwr.supercore.retry import RetryInvoker
from flwr.superlink.grid import HttpGrid

_UNTRUSTED = "certificate_verify_failed"


@dataclass
class Interruptions:
    """Calls to the SuperLink that failed, and were made again."""

    count: int = 0


def outlast_restarts(grid: Grid) -> Interruptions:
    """From now on no call of this grid ends the run because a connection broke off. Returns the count of such calls."""
    return be_patient(grid._retry_invoker) if isinstance(grid, HttpGrid) else Interruptions()


def be_patient(retries: RetryInvoker) -> Interruptions:
    """From now on these retries do not give up because a connection broke off. Returns the count of such calls."""
    noted = Interruptions()
    gives_up = retries.should_giveup

    def gives_up_where_it_may(error: Exception) -> bool:
        broken_off = isinstance(error, httpx.TransportError) and _UNTRUSTED not in str(error).lower()
        if not broken_off and gives_up is not None and gives_up(error):
            return True
        noted.count += 1
        return False

    retries.should_giveup = gives_up_where_it_may
    return noted
