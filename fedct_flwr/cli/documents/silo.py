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


class StudyOverview(TypedDict):
    """One study of ``fedct silo overview``. ``approval``: approved, changed, none or revoked; ``records``: the file.

    ``labels_left``: by the study's own limit, and by the one that it shares with other studies if that leaves fewer.
    """

    folder: str
    silo: str
    study: str | None
    approval: str
    healthy: bool
    records: str
    sent: dict[str, int]
    labels_left: int


class SharedLimits(TypedDict):
    """Limits that ``studies`` (folders) set over all studies about their records, under ``[records]`` in ``silo.toml``.

    ``folder`` is where they count together, and ``counted`` how many silo folders do. ``used`` is null if that cannot
    be told, and then nothing leaves. ``privacy`` has ``epsilon``, ``delta``, ``spent`` and ``left`` of the budget over
    all studies, the last two null if they cannot be told; null itself without such a budget.
    """

    folder: str
    studies: list[str]
    counted: int
    limits: dict[str, int]
    used: dict[str, int] | None
    privacy: dict[str, float | None] | None


class Overview(TypedDict):
    """``fedct silo overview``. ``records``: what left about each file of records, over all studies."""

    studies: list[StudyOverview]
    records: dict[str, dict[str, int]]
    limits: list[SharedLimits]
