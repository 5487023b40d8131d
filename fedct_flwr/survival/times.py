"""Times of follow-up with their events, as one number for each record.

The time of an event is positive, and that of a censored record negative, as XGBoost's Cox objective has it. So records
travel through folds, pools and files like those of any other number. A censored time of 0 is -0.0.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.text.printable import count, quoted
from fedct_flwr.types import DataError

EVENTS: Final = "write 1 where the event was seen, and 0 where the record is censored"
"""Advice on a column of events."""


class Times(NamedTuple):
    """Follow-up of records ``(n,)``: ``time`` until the event, or until the record is censored."""

    time: NDArray[np.float64]
    event: NDArray[np.bool_]

    @property
    def signed(self) -> NDArray[np.float64]:
        """One number for each record."""
        # An exported zero may be -0.0, and would turn an event at the start into a censored record.
        time = np.abs(self.time)
        return np.where(self.event, time, -time)


def times_of(y: NDArray[Any]) -> Times:
    """Read signed times ``(n,)``."""
    return Times(np.abs(y).astype(np.float64), ~np.signbit(y))


def follow_up(time: NDArray[np.float64], event: NDArray[np.float64], names: tuple[str, str], where: object) -> Times:
    """Check the columns of a table, ``(n,)`` each, called ``names``. Raises DataError, which quotes no record.

    >>> follow_up(np.array([5.0, 2.0]), np.array([1.0, 0.0]), ("days", "died"), "the table").signed
    array([ 5., -2.])
    """
    of_time, of_event = map(quoted, names)
    if missing := int((~np.isfinite(time)).sum()):
        raise DataError(f"{of_time} of {where} is missing in {count(missing, 'record')}: fill it in, or take them out")
    if negative := int((time < 0).sum()):
        raise DataError(f"{of_time} of {where} is negative in {count(negative, 'record')}: count from each one's start")
    if other := int((~np.isin(event, (0, 1))).sum()):
        raise DataError(f"{of_event} of {where} is neither 0 nor 1 in {count(other, 'record')}: {EVENTS}")
    return Times(time, event == 1)


def usual_horizon(parts: Sequence[NDArray[Any]]) -> tuple[float, ...]:
    """The median time of all events, of signed times by silo, as the one horizon; none without an event."""
    times = times_of(np.concatenate(parts))
    return (float(np.median(times.time[times.event])),) if times.event.any() else ()


def check_can_rank(times: Times, where: object) -> None:
    """Raise DataError for records that cannot rank: no event, or one time for all."""
    if not times.event.any():
        raise DataError(f"{where} has no event, so it cannot rank anybody by risk: leave it out, or wait for events")
    if len(np.unique(times.time)) < 2:
        raise DataError(f"{where} has one time for all records, so it cannot rank anybody: check the time column")
