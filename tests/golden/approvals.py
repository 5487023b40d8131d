"""What ``fedct silo approve`` signs, for every protection and kind of answer.

A silo that has approved a study goes on without asking anybody as long as its digest, ``terms``, is this one.
"""

from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.approval import approve
from fedct_flwr.hospital.egress_log import EgressLog
from tests.golden.record import Record
from tests.hospitals import write_silo_folder

NAME: Final = "approvals"

Tables = dict[str, dict[str, Any]]

COUNTS: Final[Tables] = {"policy": {"kinds": ["counts"]}}
TEACHERS: Final[Tables] = {"privacy": {"protection": "fedkt-l2", "epsilon": 4.0, "rounds": 1, "queries": 228}}

SILOS: Final[dict[str, Tables]] = {
    "hard": {},
    "soft": {"policy": {"kinds": ["soft"]}},
    "counts": COUNTS,
    "all kinds": {"policy": {"kinds": ["hard", "soft", "counts"]}},
    "limits": {"policy": {"max-rounds": 20, "max-queries": 5000, "max-bytes": 100_000, "metrics": True}},
    "limits on probabilities": {
        "policy": {"kinds": ["soft"], "max-consensus-weight": 0.5},
    },
    "students": {**COUNTS, "transfer": {"partitions": 3, "teachers": 4}},
    "no protection said": {"privacy": {"protection": "none"}},
    "randomized-response": {"privacy": {"protection": "randomized-response", "epsilon": 3.0, "delta": 1e-6}},
    "dp-linear": {"privacy": {"protection": "dp-linear", "epsilon": 0.5}},
    "dp-sgd": {
        "privacy": {"protection": "dp-sgd", "rounds": 5, "clipping-norm": 0.7},
        "learner": {"name": "tests.federation.learners.network", "packages": ["tests"]},
    },
    "students with teachers under noise": {**COUNTS, **TEACHERS},
    "students with a noise of their own": {
        **COUNTS,
        **TEACHERS,
        "transfer": {"partitions": 2, "teachers": 10, "noise": "gumbel", "gamma": 0.1},
    },
    "students with lessons": {**COUNTS, **TEACHERS, "transfer": {"lessons": 100}},
    "forest": {
        "learner": {
            "name": "random-forest",
            "params": {"n_estimators": 10},
            "pseudo-weight": 0.5,
            "class-weight": "balanced",
            "preprocessing": "none",
            "seed": 3,
        }
    },
    "network": {
        "learner": {
            "name": "tests.federation.learners.network",
            "packages": ["tests"],
            "params": {"width": 8},
            "local-steps": 20,
            "batch-size": 32,
            "learning-rate": 0.1,
            "weight-decay": 1e-4,
            "optimizer": "sgd",
            "device": "cpu",
        }
    },
    "network that is trained once": {
        **COUNTS,
        "learner": {"name": "tests.federation.learners.network", "packages": ["tests"], "epochs": 7},
    },
    "mapped labels": {"data": {"mapping": {"healthy": "healthy", "diseased": "diseased"}}},
    "elsewhere": {"connection": {"superlink": "fedct.example.org:443", "supernode": "127.0.0.1:9095"}},
}
"""By what is said in ``silo.toml``; all of it is of one hospital and one study."""

_KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(32))


def record(folder: Path) -> Record:
    """For each silo what the line of its log says of its terms, their digest first."""
    found: Record = {}
    for number, (name, tables) in enumerate(SILOS.items()):
        config = SiloConfig.read_toml(write_silo_folder(folder / str(number), **tables))
        config.check_effects()
        study = read_study(config.study)
        with EgressLog.open(config.state, config.silo, _KEY) as log:
            details = dict(approve(log, config, study).details)
        del details["versions"]  # of what is installed, which is no part of the terms
        found[name] = {"study": study.digest.hex(), **details}
    return found
