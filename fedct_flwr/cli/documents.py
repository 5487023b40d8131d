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


class Metric(TypedDict):
    """A number and its 95% interval: null where there is none."""

    value: float | None
    low: float | None
    high: float | None


class Bin(TypedDict):
    """Predictions with a probability between ``low`` and ``high``: their mean, and the observed share with its 95%."""

    low: float
    high: float
    n: int
    predicted: float
    observed: float
    observed_low: float
    observed_high: float


class Model(TypedDict):
    """One model on one test set.

    ``metrics`` has, where it applies, ``balanced_accuracy``, ``accuracy``, ``auc``, ``sensitivity``, ``specificity``,
    ``brier``; or ``r_squared``, ``mae``, ``rmse``. ``confusion`` counts records by true class (rows) and predicted
    class, in the order of the test set's ``classes``; ``calibration`` is empty without probabilities.
    """

    metrics: dict[str, Metric]
    confusion: list[list[int]]
    calibration: list[Bin]


class OnTest(TypedDict):
    """A test set of ``n`` records, how many of each class, and the ``models`` by method.

    ``positive`` is the class that sensitivity is about, empty unless there are two.
    """

    n: int
    classes: dict[str, int]
    positive: str
    models: dict[str, Model]


class OwnTest(TypedDict):
    """The model that a silo ended with against its model alone, on its own test records.

    ``gain`` is the difference of balanced accuracies, ``better`` and ``worse`` the records that it alone gets right and
    wrong, ``p`` how often chance alone makes a difference as large (exact test, by class).
    """

    gain: float
    better: int
    worse: int
    p: float


class SiloScores(TypedDict):
    """One silo: its scores on its ``own`` test records and on the ``pooled`` ones of all, and bytes that it sent.

    ``tests`` has all numbers by test set (``own``, ``pooled``), for simulations and baselines.
    """

    silo: str
    own: Scores
    pooled: Scores
    bytes_sent: int
    tests: dict[str, OnTest]
    verdict: OwnTest | None


class MeanScores(TypedDict):
    """The mean over silos that have a score for every method that any has; ``bytes_sent`` over all silos.

    ``own_silos`` counts them on own test sets, ``silos`` on the pooled one, or on own ones where there is none.
    """

    own: Scores
    pooled: Scores
    bytes_sent: float
    silos: int
    own_silos: int


class Verdict(TypedDict):
    """Who has ``gained`` and ``lost`` beyond chance, the same in words, and what should worry who reads the scores.

    ``judgments`` are what simulated silos make of the consensus: the ``learner`` that they chose, the ``weight`` of
    pseudo-labels, the ``model`` that they use (``own`` or ``co-trained``) and ``why``. Real silos keep theirs to
    themselves.
    """

    gained: list[str]
    lost: list[str]
    after_first_round: str
    at_the_end: str
    warnings: list[str]
    judgments: dict[str, dict[str, Any]]


class Run(TypedDict):
    """``fedct simulate`` and ``fedct coordinator run``: how a run ended. With real silos, scores are those reported.

    ``measure`` is what scores are: ``balanced accuracy``, or ``R²`` where a number is predicted (1 at most, may be
    negative).
    ``findings`` is what the inspection of the silos' own files said.
    ``fixed_point`` is the round in which the consensus stopped changing. ``global_models`` has the balanced accuracy on
    the pooled test set of models that are no silo's. ``leaves`` says what left the silos, in words. ``notes`` are
    sentences on scores that are missing, or that mislead.
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
    notes: list[str]
    verdict: Verdict


class Repeats(TypedDict):
    """``fedct simulate --repeats``: means over ``seeds``, of each silo and over the silos.

    Below ``own`` and ``pooled`` each method has ``mean``, ``error`` (the standard error) and ``n`` (seeds); ``gain`` is
    the paired difference of ``federated`` and ``local``. Methods that were not trained are missing.
    """

    study: str
    algorithm: str
    folder: str
    seeds: list[int]
    measure: str
    silos: list[dict[str, Any]]
    mean: dict[str, Any]


class Comparison(TypedDict):
    """``fedct compare``: ``methods`` from the best mean to the worst.

    Each has ``name``, ``mean``, ``seeds``, ``difference`` to the best with its 95% interval (``low``, ``high``), ``p``
    adjusted for all comparisons, and ``differs``: whether it is worse than the best beyond chance. ``left_out`` has
    ``name`` and ``reason``.
    """

    measure: str
    test: str
    seeds: list[int]
    methods: list[dict[str, Any]]
    left_out: list[dict[str, str]]
    verdict: str


class Estimate(TypedDict):
    """Accuracy of the labels of one silo and of the consensus; ``verdict``: useful, costs accuracy, or noise.

    ``silo`` is null where only sums over the silos can be read.
    """

    mechanism: str
    noise: str
    silo: float | None
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
    """``fedct predict`` and ``fedct silo predict``. ``unknown`` counts values that are no category of the study's.

    ``calibrated``: whether probabilities are, null where there are none. ``positive`` is the class that ``threshold``
    is about; both are null where the model's own classes are shown.
    """

    columns: list[str]
    records: list[dict[str, Any]]
    unknown: dict[str, int]
    calibrated: bool | None
    threshold: float | None
    positive: str | None


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


class Attack(TypedDict):
    """One attack from one seat: intervals as in ``Metric``, shares of members found at 1% and .1% false alarms."""

    auc: Metric
    tpr_at_1_percent: Metric
    tpr_at_01_percent: Metric
    members: int
    non_members: int


class Seat(TypedDict):
    """``coordinator``, ``another silo`` or ``final model``.

    ``vul`` is the area of the ``strongest`` attack, ``right`` the share of memberships told right (guessing: .5).
    """

    seat: str
    strongest: str
    vul: float
    right: Metric
    sentence: str
    attacks: dict[str, Attack]


class ExposedRecord(TypedDict):
    """A record by its position among its silo's private ones, told right in so many refits."""

    silo: str
    record: int
    right: int


class NoiseScale(TypedDict):
    """Scale of noise as a part of the promised one, and its upper limit at 99.9% confidence; below 1: too small."""

    ratio: float
    at_most: float


class SumAttack(TypedDict):
    """What sums with noise tell of a silo as a whole: the game of ``fedct audit`` on the noise that silos add.

    ``epsilon`` at ``delta`` is promised to each silo, ``lower_epsilon`` proven with 99.9% confidence. ``noise`` is the
    scale of the noise as a part of the promised one. ``broken``: more is proven than promised, at this delta or at a
    larger one, or the noise is too small, or less was asked for. ``sums`` were drawn with the noise of ``honest``
    silos, where ``may_collude`` others may; ``right`` is the share of right guesses of how the silo voted.
    """

    epsilon: float
    delta: float
    lower_epsilon: float
    noise: NoiseScale
    broken: bool
    sums: int
    honest: int
    may_collude: int
    right: Metric
    sentence: str


class Audit(TypedDict):
    """``fedct audit`` and ``fedct silo audit``, also the file ``audit.json`` of a run.

    ``epsilon`` is what the run promises each record (null: nothing), ``lower_epsilon`` what the guesses prove with 95%
    confidence. ``planted``: attacked records stood in the public set; ``forged``: with false labels. ``silos``: the
    strongest attack's area from the coordinator's seat. ``sums``: null unless silos add noise to secure sums.
    """

    study: str
    algorithm: str
    protection: str
    epsilon: float | None
    delta: float
    lower_epsilon: float | None
    sums: SumAttack | None
    refits: int
    candidates: int
    planted: bool
    forged: bool
    seats: list[Seat]
    silos: dict[str, Metric]
    exposed: list[ExposedRecord]
    seconds: float


class Registration(TypedDict):
    """``fedct coordinator register``: by silo, whether its key is ``new`` to the SuperLink."""

    registered: list[dict[str, Any]]


class Invited(TypedDict):
    """``fedct coordinator invite``. ``expires``: ISO 8601; ``fingerprint``: of the key that signed the file."""

    silo: str
    file: str
    expires: str
    fingerprint: str
    new_certificate: bool


class ListedSilo(TypedDict):
    """A silo. ``state``: online, offline, waiting (never seen), unregistered, invited (no key yet) or unknown.

    ``seen``: when the SuperLink last heard from it, to within a minute (ISO 8601); ``seconds``: how long ago.
    """

    silo: str
    state: str
    seen: str | None
    seconds: float | None


class Silos(TypedDict):
    """``fedct coordinator list``. ``others``: keys that the SuperLink knows and that are not in ``silos/``."""

    silos: list[ListedSilo]
    others: int


class CoordinatorsSilo(ListedSilo):
    """The same with ``former_keys`` that are still good, and how many days its client certificate lasts."""

    former_keys: int
    certificate_days: int | None


class CoordinatorStatus(TypedDict):
    """``fedct coordinator status``. ``trouble``: why the SuperLink is not ``reachable``, empty if it is.

    ``rotating``: old and new authorities are good. ``database_bytes``: of the SuperLink; ``free_bytes``: of the disk.
    """

    version: str
    superlink: str
    reachable: bool
    trouble: str
    silos: list[CoordinatorsSilo]
    others: int
    certificate_days: dict[str, int | None]
    rotating: bool
    database_bytes: int
    free_bytes: int


class Departed(TypedDict):
    """``fedct coordinator unregister``."""

    departed: list[str]


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


class Stopped(TypedDict):
    """``fedct coordinator stop``: Flower's numbers of the runs that were stopped."""

    stopped: list[int]
