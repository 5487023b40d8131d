"""What the lines of an egress log add up to: for the gate, which holds it against the limits, and for who reads it."""

from collections.abc import Iterable
from typing import NamedTuple

from client_app.log_entry import Event, LogEntry


class Spent(NamedTuple):
    """What left: replies with labels, labels, bytes. A reply that left again counts again in bytes alone."""

    rounds: int = 0
    queries: int = 0
    bytes: int = 0

    def plus(self, entry: LogEntry) -> "Spent":
        """With one more line of the log."""
        if entry.event not in (Event.RELEASED, Event.REPEATED):
            return self
        first = entry.event is Event.RELEASED
        return Spent(self.rounds + first, self.queries + first * entry.queries, self.bytes + entry.bytes)


def spent(entries: Iterable[LogEntry]) -> Spent:
    """What left by these lines."""
    total = Spent()
    for entry in entries:
        total = total.plus(entry)
    return total
