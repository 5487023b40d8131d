"""All algorithms by name: each is a class, which is imported when it is first asked for.

To add one, write its file, here or among the baselines, and name it below.
"""

from collections import UserDict
from importlib import import_module
from typing import Any, Final

from fedct_flwr.algorithms.fedct import DawidSkene


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
        "fedct-shares": "algorithms.targets.SharesOfVotes",
        "fedct-joint": "algorithms.joint.JointLabeler",
        "fedkt": "algorithms.fedkt.FedKT",
        "pate": "algorithms.fedkt.PATE",
        "dp-pate": "algorithms.fedkt.PrivatePATE",
        "fedct-grades": "algorithms.targets.MeanGrade",
        "fedct-median-grades": "algorithms.targets.MedianGrade",
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
