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


class Audit(TypedDict):
    """``fedct audit`` and ``fedct silo audit``, also the file ``audit.json`` of a run.

    ``epsilon`` is what the run promises each record (null: nothing), ``lower_epsilon`` what the guesses prove with 95%
    confidence. ``planted``: attacked records stood in the public set; ``forged``: with false labels. ``silos``: the
    strongest attack's area from the coordinator's seat.
    """

    study: str
    algorithm: str
    protection: str
    epsilon: float | None
    delta: float
    lower_epsilon: float | None
    refits: int
    candidates: int
    planted: bool
    forged: bool
    seats: list[Seat]
    silos: dict[str, Metric]
    exposed: list[ExposedRecord]
    seconds: float
