"""All algorithms by name: each is a class, which is imported when it is first asked for.

To add one, write its file, here or among the baselines, and name it below.
"""

from collections import UserDict
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from fedct_flwr.algorithms.fedct import DawidSkene
from fedct_flwr.coordinator.algorithm import find_algorithm
from fedct_flwr.text.kinds import words_of
from fedct_flwr.wire.kinds import ADDED, NOISY_SUMS, SUMS, kind_for

if TYPE_CHECKING:
    from fedct_flwr.config.run import RunConfig


class _Lazy(UserDict[str, Any]):
    """Classes by name, of which each may stand there as the path that it is imported by."""

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        if isinstance(found, str):
            module, _, kind = found.rpartition(".")
            found = self[name] = getattr(import_module(f"fedct_flwr.{module}"), kind)
        return found


# In the order in which an error lists them.
ALGORITHMS: Final = _Lazy(
    {
        "draw": "algorithms.draw.DrawnSet",
        "count": "algorithms.count.CountedPatients",
        "fedct": "algorithms.fedct.Plurality",
        "fedct-qualified": "algorithms.fedct.Qualified",
        "fedct-dawid-skene": "algorithms.fedct.DawidSkene",
        "fedct-shares": "algorithms.fedct.Shares",
        "fedct-joint": "algorithms.joint.JointLabeler",
        "fedkt": "algorithms.fedkt.FedKT",
        "pate": "algorithms.fedkt.PATE",
        "dp-pate": "algorithms.fedkt.PrivatePATE",
        "fedct-grades": "algorithms.grades.MeanGrade",
        "fedct-median-grades": "algorithms.grades.MedianGrade",
        "dd": "algorithms.prediction.DistributedDistillation",
        "prediction-consensus": "algorithms.prediction.PredictionConsensus",
        "fedmd": "algorithms.prediction.FedMD",
        "fedprox": "baselines.client_drift.FedProx",
        "feddyn": "baselines.client_drift.FedDyn",
        "scaffold": "baselines.client_drift.Scaffold",
        "dp-fedavg": "baselines.dp_fedavg.PrivateFedAvg",
        "feddf": "baselines.feddf.FedDF",
        "fedavg": "baselines.weight_sharing.FedAvg",
    }
)

DEFAULT: Final = DawidSkene.name
"""The algorithm of a run config that names none."""


def what_leaves(config: "RunConfig", quantity: str) -> str:
    """Describe in plain words what leaves a silo. ``quantity``: the number that is predicted (empty: classes)."""
    algorithm, scores = find_algorithm(config), " and test scores" if config.report_scores else ""
    if algorithm.kind is None:
        return f"{algorithm.leaves}{scores}"
    kind = algorithm.kind if algorithm.kind.policy in ADDED else kind_for(algorithm.kind, quantity)
    # Where silos only add their answers, and perhaps shares of noise.
    sums = NOISY_SUMS if config.method.noise_in_shares else SUMS if config.method.in_sums else {}
    return f"{words_of(sums.get(kind.name, kind)).shared}{scores}"
