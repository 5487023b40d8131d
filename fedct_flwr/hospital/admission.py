"""Which questions a silo has admitted, as its egress log tells: one in each round, and no run is forgotten."""

from dataclasses import dataclass

from fedct_flwr.datasets.study_folder import StudyFolder
from fedct_flwr.hospital.approval import approval_in
from fedct_flwr.hospital.log_entry import Event, LogEntry, Spent
from fedct_flwr.kinds import ADDED
from fedct_flwr.wire.refusal import Refusal, Refused


@dataclass(frozen=True)
class Question:
    """The last question of a run that was admitted; ``answer``: SHA-256 of the reply that left, or nothing yet."""

    round: int
    request: str
    answer: str = ""


class Books:
    """What the lines add up to for one study and public set. No run is ever forgotten."""

    def __init__(self, study: StudyFolder) -> None:
        self._study = study.name
        self._public = study.public.fingerprint.hex()
        self.spent = Spent()
        self.answers = 0
        """How many messages with labels, or steps of a sum, left; repeated ones too."""
        self.approved: bytes | None = None
        """Digest of the terms that are approved."""
        self.ready: set[str] = set()
        """SHA-256 of questions that were answered with "ready" for a secure sum."""
        self.added: set[str] = set()
        """Those that a sum was added to."""
        self._last: dict[int, Question] = {}

    def add(self, entry: LogEntry) -> None:
        """Add one line."""
        if entry.event in (Event.APPROVED, Event.REVOKED):
            approval = approval_in(entry)
            before, self.approved = self.approved, approval.digest if approval else None
            if self.approved != before:
                # What is ready has the noise that other terms asked for.
                self.ready.clear()
        elif entry.event is Event.ADMITTED:
            self._last[entry.run] = Question(entry.round, entry.request)
        elif entry.event in (Event.RELEASED, Event.REPEATED):
            self._last[entry.run] = Question(entry.round, entry.request, entry.payload)
            self.answers += 1
            if entry.kind in ADDED:
                self.ready.add(entry.request)
        elif entry.event is Event.ADDED:
            self.added |= {entry.request} - {""}
            self.answers += bool(entry.bytes) and not entry.reason
        if (entry.study, entry.public) == (self._study, self._public):
            self.spent = self.spent.plus(entry)

    def admitted(self, run: int, number: int, request: str) -> Question | None:
        """The question of this round of a run, if it was admitted before; None for a later round than any before.

        ``request`` is its SHA-256. Raises Refused (ROUND) for an earlier round, and for a round that was asked with
        other contents: neither depends on the silo's records.
        """
        last = self._last.get(run)
        if last is None or number > last.round:
            return None
        if (number, request) != (last.round, last.request):
            raise Refused(Refusal.ROUND)
        return last
