"""What ``--json`` prints of a silo: checks, approval, the proof of its log, and several studies."""

from typing import TypedDict


class Finding(TypedDict):
    """``mark``: good, warning, bad or unknown. ``fix`` says what to do, and is empty where nothing is.

    ``code`` is the stable name of a finding about tables, with the column: ``unknown-values:sex``; empty for others.
    """

    mark: str
    said: str
    fix: str
    code: str


class Findings(TypedDict):
    """``fedct doctor`` and ``fedct silo check``: what was looked at, also where the exit code is 3."""

    bad: int
    warnings: int
    findings: list[Finding]


class Sent(TypedDict):
    """What left a silo: messages with labels, labels, bytes in all (refusals too)."""

    messages: int
    labels: int
    bytes: int


class Verification(TypedDict):
    """``fedct silo verify``, also where the log is not intact (exit code 4). ``since_line``: of the hash given."""

    silo: str
    intact: bool
    sentence: str
    lines: int
    bad_line: int | None
    last_hash: str | None
    sent: Sent
    refused: int
    since_line: int | None


class Approval(TypedDict):
    """``fedct silo approve``: what was read, by section, and whether it was approved (if not, the exit code is 1)."""

    approved: bool
    duplicates_alarm: bool
    sections: dict[str, list[str]]
