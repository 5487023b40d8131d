"""Settings that make no sense together: one sentence before anything runs, whichever algorithm it is."""

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.types import ConfigError
from tests.federation.conftest import Federation
from tests.federation.test_drift import DP_FEDAVG, FEDAVG, NETWORK
from tests.federation.test_joint import RUN as JOINT
from tests.federation.test_secure import PATE as SHARES
from tests.sentences import sentence

MLP = {"learner": "tests.federation.learners.network", "learner_params": "{}"}
TREE = {"learner": "decision-tree", "learner_params": "{}"}
NUMBERS: dict[str, Any] = {
    "silos": 5, "data": "diabetes", "algorithm": "prediction-consensus", "learner": "ridge", "learner_params": "{}",
}  # fmt: skip
ONCE: dict[str, Any] = {"num_server_rounds": 1}
SOFT: dict[str, Any] = {"algorithm": "prediction-consensus", "trust": "dynamic", "learner_params": "{}"}
REFUSED: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "dp-fedavg": (
        DP_FEDAVG,
        [TREE, {"learner": "tests.federation.learners.normalized", "learner_params": "{}"}, {"delta": 0.0}],
    ),
    "weights": (
        FEDAVG,
        [
            TREE,
            {"learner_params": '[{}, {}, {}, {"width": 3}]', "learner": ",".join([FEDAVG["learner"]] * 4)},
            {"resume": True},
            {"protection": "dp-sgd"},
            {**NETWORK, "algorithm": "scaffold", "optimizer": "adam"},
        ],
    ),
    "pfnm": ({}, [{"algorithm": "pfnm"}]),
    "joint": (JOINT, [{"epsilon": 1e-9}, {"may_collude": 4}, {"protection": "dp-linear"}, {"min_summands": 2}]),
    "noise in shares": (
        SHARES,
        [
            {"mechanism": "laplace"},
            {"delta": 0.0},
            {"epsilon": 1e-9},
            {"may_collude": 3},
        ],
    ),
    "sums": (
        {"secure": True},
        [
            {"algorithm": "fedct-dawid-skene"},
            {"algorithm": "dd"},
            {"algorithm": "fedct", "secure": False, "may_collude": 2},
        ],
    ),
    "one shot": (
        ONCE,
        [
            {"algorithm": "pate", "gamma": 1.0},
            {"algorithm": "fedkt", "gamma": 1.0},
            {"algorithm": "fedkt", "protection": "dp-linear"},
            {"algorithm": "dp-pate", "delta": 0.0},
            {"algorithm": "fedkt", "privacy_level": "L2", "mechanism": "gaussian", "delta": 0.0},
            {"algorithm": "fedkt", "privacy_level": "L2", "gamma": 0.04, "teachers": 10, "epsilon": 1.0},
            {"algorithm": "fedavg", "epochs": 3, **MLP},
            {"algorithm": "fedkt", "report_scores": True},
        ],
    ),
    "probabilities": (
        SOFT,
        [
            {"algorithm": "fedmd", "trust": "static"},
            {"algorithm": "fedmd", "trust": "static", "consensus_weight": 2.0},
            {"learner": "svm"},
            {"protection": "dp-linear"},
            {"pseudo_weight": 2.0},
        ],
    ),
    "values": (
        NUMBERS,
        [
            {"algorithm": "fedct"},
            {"partition": "dirichlet"},
            {"class_weight": "balanced"},
            {"protection": "dp-linear"},
            {"learner": "naive-bayes"},
        ],
    ),
    "student": (
        {"student_params": "{}"},
        [
            {"student": "random-forrest"},
            {"student": "rulefit"},
            {"student": "random-forest", "algorithm": "fedavg", "learner": "mlp", "learner_params": "{}"},
        ],
    ),
}


CASES = {f"{name} {i}": {**base, **one} for name, (base, more) in REFUSED.items() for i, one in enumerate(more)}


@pytest.mark.parametrize("name", CASES)
def test_in_one_sentence_before_anything_runs(federation: Federation, name: str, wording: SnapshotAssertion) -> None:
    assert sentence(ConfigError, lambda: federation.run(**CASES[name])) == wording
    assert federation.sent == []
    assert not (federation.path / "run" / "rounds.jsonl").exists()
