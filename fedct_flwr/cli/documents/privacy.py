"""What ``--json`` prints of promises: the privacy sheet and the audit."""

from typing import Any, TypedDict

from fedct_flwr.cli.documents.scores import Metric


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
