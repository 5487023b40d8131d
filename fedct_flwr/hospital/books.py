"""What the lines of an egress log add up to, in numbers: for the gate's limits, and for readers of the log."""

from collections.abc import Iterable
from functools import reduce
from typing import Final, NamedTuple

from fedct_flwr.hospital.log_entry import Event, LogEntry

_BYTES_LEAVE: Final = (Event.RELEASED, Event.REPEATED, Event.ADDED, Event.REFUSED)


class Spent(NamedTuple):
    """What counts towards the totals of a policy.

    A question counts with its round and its labels as soon as it is admitted, whatever becomes of it: what happens
    afterwards depends on the records. Every byte that leaves counts, those of repeated answers and of refusals too.
    """

    rounds: int = 0
    queries: int = 0
    bytes: int = 0

    def plus(self, entry: LogEntry) -> "Spent":
        """With one more line of the log."""
        # An earlier version wrote no line for a question: its answer's line stands for both.
        counts = entry.event is Event.ADMITTED or (entry.event is Event.RELEASED and not entry.request)
        leaves = entry.event in _BYTES_LEAVE
        return Spent(self.rounds + counts, self.queries + counts * entry.queries, self.bytes + leaves * entry.bytes)


class Left(NamedTuple):
    """What left: messages with labels, their labels, and bytes in all, of repeated messages and refusals too."""

    messages: int = 0
    labels: int = 0
    bytes: int = 0

    def plus(self, entry: LogEntry) -> "Left":
        """With one more line of the log."""
        first, leaves = entry.event is Event.RELEASED, entry.event in _BYTES_LEAVE
        return Left(self.messages + first, self.labels + first * entry.queries, self.bytes + leaves * entry.bytes)


def spent(entries: Iterable[LogEntry]) -> Spent:
    """What counts towards the totals by these lines."""
    return reduce(Spent.plus, entries, Spent())


def left(entries: Iterable[LogEntry]) -> Left:
    """What left by these lines."""
    return reduce(Left.plus, entries, Left())
