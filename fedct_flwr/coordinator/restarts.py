"""A run outlasts the SuperLink's restart, whichever call it falls into.

Flower 1.41 asks again when a connection is refused or reset, and ends the run when the SuperLink dies in a handshake of
TLS: it cannot tell that from a certificate that is wrong.
"""

import httpx
from flwr.serverapp import Grid
from flwr.superlink.grid import HttpGrid

_UNTRUSTED = "certificate_verify_failed"


def outlast_restarts(grid: Grid) -> None:
    """From now on no call of this grid ends the run because a connection broke off."""
    if not isinstance(grid, HttpGrid):
        return
    retries = grid._retry_invoker
    gives_up = retries.should_giveup

    def gives_up_where_it_may(error: Exception) -> bool:
        if isinstance(error, httpx.TransportError) and _UNTRUSTED not in str(error).lower():
            return False
        return gives_up is not None and gives_up(error)

    retries.should_giveup = gives_up_where_it_may
