"""What ``--json`` prints, by command. Keys stay what they are; others may be added.

Accuracies and shares are in 0..1, sizes in bytes, times in seconds, paths absolute or as they were given. ``null`` is
what is not known, does not apply, or is infinite (JSON has no word for that).
"""

from typing import Any, TypedDict


class DataFinding(TypedDict):
    """What the inspection of tables found. ``code`` is its stable name; ``severity``: refused, said or accepted.

    ``column`` and ``silo`` are empty where it is about all, or about the public set.
    """

    code: str
    severity: str
    column: str
    silo: str
    said: str
    fix: str


class ColumnFacts(TypedDict):
    """One column of a table.

    ``kind``: numbers, text, truth values, dates, nothing, something else. ``unknown`` counts cells whose value the
    public set does not have; ``not_numbers`` cells of text among numbers, the first in record ``example`` (from 1).
    """

    name: str
    kind: str
    missing: int
    distinct: int
    unknown: int | None
    not_numbers: int | None
    example: int | None


class TableFacts(TypedDict):
    """One table; ``silo`` is empty for the public set. ``classes`` counts records by class."""

    silo: str
    records: int
    columns: list[ColumnFacts]
    classes: dict[str, int]


class Inspection(TypedDict):
    """``fedct inspect``, also where the exit code is 3. ``unused`` are files in the folder that nobody reads."""

    folder: str
    label: str
    tables: list[TableFacts]
    unused: list[str]
    findings: list[DataFinding]


class Scores(TypedDict):
    """Balanced accuracy (or R², see ``measure``) by method, of a silo or on average: null where there is none.

    ``local``: every silo alone; ``federated``: as it ended the run; ``centralized``: all data in one place.
    """

    local: float | None
    federated: float | None
    centralized: float | None


class SiloScores(TypedDict):
    """One silo: its scores on its ``own`` test records and on the ``pooled`` ones of all, and bytes that it sent."""

    silo: str
    own: Scores
    pooled: Scores
    bytes_sent: int


class MeanScores(TypedDict):
    """The mean over the ``silos`` that have a score for every method that any has; ``bytes_sent`` over all silos."""

    own: Scores
    pooled: Scores
    bytes_sent: float
    silos: int


class Run(TypedDict):
    """``fedct simulate`` and ``fedct coordinator run``: how a run ended. With real silos, scores are those reported.

    ``measure`` is what scores are: ``balanced accuracy``, or ``R²`` where a number is predicted (1 at most, may be
    negative).
    ``findings`` is what the inspection of the silos' own files said.
    ``fixed_point`` is the round in which the consensus stopped changing. ``global_models`` has the balanced accuracy on
    the pooled test set of models that are no silo's. ``leaves`` says what left the silos, in words.
    """

    study: str
    algorithm: str
    run_folder: str
    seconds: float
    rounds: int
    fixed_point: int | None
    leaves: str
    measure: str
    silos: list[SiloScores]
    mean: MeanScores
    global_models: dict[str, float]
    findings: list[DataFinding]


class Estimate(TypedDict):
    """Accuracy of the labels of one silo and of the consensus; ``verdict``: useful, costs accuracy, or noise."""

    mechanism: str
    noise: str
    silo: float
    consensus: float
    verdict: str


class Budget(TypedDict):
    """``fedct budget``.

    ``epsilon`` is null for no noise; ``labels`` are asked of each silo; ``guess`` is the share of the largest class;
    ``plot`` the file that was written, if one was.
    """

    epsilon: float | None
    delta: float
    silos: int
    records: int
    labels: int
    classes: int
    accuracy: float
    guess: float
    estimates: list[Estimate]
    warnings: list[str]
    plot: str | None


class Account(TypedDict):
    """One silo's ledger: its budget, what was ``spent`` of it by how many ``charges``, and whether it was ``kept``.

    ``lower`` bounds from below what any analysis could promise; ``others`` is the number of other studies on the same
    records, ``together`` what all of them spent.
    """

    silo: str
    epsilon: float
    delta: float
    charges: int
    spent: float
    lower: float | None
    accountant: str
    others: int
    together: float
    kept: bool


class PrivacySheet(TypedDict):
    """``fedct privacy-sheet``.

    ``accounts`` is empty where no silo promises anything; ``noise`` is what the coordinator's noise costs, as its run
    says; ``markdown`` the page itself.
    """

    study: str
    protection: str
    accounts: list[Account]
    noise: dict[str, Any] | None
    markdown: str


class Predictions(TypedDict):
    """``fedct predict`` and ``fedct silo predict``. ``unknown`` counts values that are no category of the study's."""

    columns: list[str]
    records: list[dict[str, Any]]
    unknown: dict[str, int]


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


class Registration(TypedDict):
    """``fedct coordinator register``: by silo, whether its key is ``new`` to the SuperLink."""

    registered: list[dict[str, Any]]


class Stopped(TypedDict):
    """``fedct coordinator stop``: Flower's numbers of the runs that were stopped."""

    stopped: list[int]
