"""A run outlasts the SuperLink's restart, whichever call it falls into.

Flower 1.41 asks again when a connection is refused or reset, and gives up when the SuperLink dies or stands still in a
handshake of TLS: it cannot tell that from a certificate that is wrong.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
from flwr.serverapp import Grid

from fedct_flwr.coordinator.http_grid import is_http
from fedct_flwr.types import RunError

if TYPE_CHECKING:
    from flwr.supercore.retry import RetryInvoker

_UNTRUSTED = (
    "the SuperLink's certificate has expired, or the coordinator's authority has not signed it: renew it with 'fedct "
    "coordinator init', restart the coordinator, then go on with --resume"
)


class UntrustedError(RunError, httpx.ConnectError):
    """The SuperLink shows a wrong certificate. For Flower, whose heartbeats go on, it is the error that it was."""


@dataclass
class Interruptions:
    """Calls to the SuperLink that failed, and were made again."""

    count: int = 0


def outlast_restarts(grid: Grid) -> Interruptions:
    """From now on no call of this grid ends the run because a connection broke off. Returns the count of such calls.

    A call to a SuperLink whose certificate is out of date or of somebody else raises UntrustedError.
    """
    if not is_http(grid):
        return Interruptions()
    noted = be_patient(grid._retry_invoker)
    gives_up = grid._retry_invoker.should_giveup

    def gives_up_in_words(error: Exception) -> bool:
        if _is_untrusted(error):
            raise UntrustedError(_UNTRUSTED) from None
        return gives_up is not None and gives_up(error)

    grid._retry_invoker.should_giveup = gives_up_in_words
    return noted


def be_patient(retries: "RetryInvoker") -> Interruptions:
    """From now on these retries do not give up because a connection broke off. Returns the count of such calls."""
    noted = Interruptions()
    gives_up = retries.should_giveup

    def gives_up_where_it_may(error: Exception) -> bool:
        broken_off = isinstance(error, httpx.TransportError) and not _is_untrusted(error)
        if not broken_off and gives_up is not None and gives_up(error):
            return True
        noted.count += 1
        return False

    retries.should_giveup = gives_up_where_it_may
    return noted


def _is_untrusted(error: Exception) -> bool:
    return isinstance(error, httpx.TransportError) and "certificate_verify_failed" in str(error).lower()
