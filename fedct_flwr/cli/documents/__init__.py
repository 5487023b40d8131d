"""What ``--json`` prints, by command. Keys stay what they are; others may be added.

Accuracies and shares are in 0..1, sizes in bytes, times in seconds, paths absolute or as they were given. ``null`` is
what is not known, does not apply, or is infinite (JSON has no word for that).
"""

from fedct_flwr.cli.documents.coordinator import (
    CoordinatorsSilo,
    CoordinatorStatus,
    Departed,
    Invited,
    ListedSilo,
    Registration,
    Silos,
    Stopped,
)
from fedct_flwr.cli.documents.data import ColumnBySite, DataFinding, Inspection, SiteFacts
from fedct_flwr.cli.documents.privacy import (
    Account,
    Attack,
    Audit,
    ExposedRecord,
    PrivacySheet,
    Seat,
)
from fedct_flwr.cli.documents.runs import Comparison, Predictions, Repeats, Run, Verdict
from fedct_flwr.cli.documents.scores import Bin, MeanScores, Metric, Model, OnTest, OwnTest, Scores, SiloScores
from fedct_flwr.cli.documents.silo import (
    Approval,
    Finding,
    Findings,
    Sent,
    Verification,
)

__all__ = [
    "Account", "Approval", "Attack", "Audit", "Bin", "ColumnBySite", "Comparison", "CoordinatorStatus",
    "CoordinatorsSilo", "DataFinding", "Departed", "ExposedRecord", "Finding", "Findings", "Inspection",
    "Invited", "ListedSilo", "MeanScores", "Metric", "Model", "OnTest", "OwnTest", "Predictions",
    "PrivacySheet", "Registration", "Repeats", "Run", "Scores", "Seat", "Sent", "SiloScores", "Silos",
    "SiteFacts", "Stopped", "Verdict", "Verification",
]  # fmt: skip
