"""All algorithms by name: each is a class, which is imported when it is first asked for.

To add one, write its file, here or among the baselines, and name it below. ``checks`` says what is wrong with the
settings of a run.
"""

from typing import Final

from fedct_flwr.config.method import Methods

# In the order in which an error lists them.
ALGORITHMS: Final = Methods(
    {
        "draw": "algorithms.noisy_counts.DrawnSet",
        "count": "algorithms.noisy_counts.CountedPatients",
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

DEFAULT: Final = "fedct-dawid-skene"
"""The algorithm of a run config that names none."""
