"""Settings that do nothing are refused: every key of the run config against all that a run can be made of.

What is expected here is written down by hand, and not read from the declarations that it checks. A new algorithm needs
a row in ``OF_ALGORITHM``, or these tests fail.
"""

from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.algorithms.table import ALGORITHMS
from fedct_flwr.config import RunConfig
from tests.config import probes
from tests.config.probes import (
    BASE,
    NETWORK,
    TOGETHER,
    TREES,
    probed,
    said_of,
)
from tests.hospitals import write_study_folder

initial_model, fitted_once = probes.initial_model, probes.fitted_once

ALWAYS = {
    *("learner-params", "preprocessing", "class-weight", "bad-silos", "corruption", "num-server-rounds", "roster"),
    *("min-silos", "roster-deadline", "round-deadline", "seed", "save-models", "baselines", "tracking"),
}
OF_HEART_DISEASE = {"public-fraction", "test-fraction"}

TRAINED = {"local-steps", "batch-size", "learning-rate", "decay-steps", "weight-decay", "optimizer", "device"}
"""How networks are trained, by the run config."""

PATE = {"query-size", "student", "report-scores", "protection"}
FEDCT = PATE | {"pseudo-weight", "stop-at-fixed-point"}
SOFT = {"query-size", "student", "report-scores", "stop-at-fixed-point", "warm-up-rounds"}
AVERAGE = {"initial-model", "report-scores"}
ONE_SHOT = {"fedkt", "pate", "dp-pate", "pfnm"}
JOINT = "fedct-joint"

OF_ALGORITHM: dict[str, set[str]] = {
    "fedct": FEDCT | {"secure"},
    "fedct-qualified": FEDCT | {"quorum", "secure"},
    "fedct-dawid-skene": FEDCT,
    "fedct-agreement": FEDCT | {"trust"},
    "fedct-shares": FEDCT,
    "fedct-joint": {
        *("student", "report-scores", "pseudo-weight", "epsilon", "delta", "min-summands"),
        *("may-collude", "joint-labeler"),
    },
    "fedkt": {"secure", "query-size", "student", "teachers", "partitions", "privacy-level"},
    "pate": PATE | {"secure"},
    "dp-pate": PATE | {"secure", "epsilon", "delta", "gamma", "mechanism"},
    "prediction-consensus": SOFT | {"trust", "consensus-weight"},  # secure needs other trust
    "dd": SOFT | {"consensus-weight", "secure"},
    "fedmd": SOFT | {"secure"},
    "fedavg": AVERAGE,
    "fedprox": AVERAGE | {"proximal-mu"},
    "scaffold": AVERAGE,
    "feddyn": AVERAGE | {"feddyn-alpha"},
    "feddf": AVERAGE | {"distillation-steps"},
    "pfnm": AVERAGE | {"pfnm-silo-variance", "pfnm-global-variance", "pfnm-gamma"},
    "dp-fedavg": AVERAGE | {"epsilon", "delta", "clipping-norm"},
}
"""The keys that have an effect on each algorithm, of those that not all algorithms have."""

WEIGHTS = {name for name, keys in OF_ALGORITHM.items() if keys >= AVERAGE}


def accepted(base: dict[str, Any], initial_model: str) -> set[str]:
    """The keys that may be set in this run; every refusal names its key in one line."""
    assert said_of(base) == ""
    found = set()
    for key, settings in probed(base, initial_model):
        said = said_of(settings)
        if not said:
            found.add(key)
        else:
            assert names_one_of({key, *TOGETHER.get(key, {})}, said), (key, said)
    return found


def names_one_of(keys: set[str], said: str) -> bool:
    return "\n" not in said and any(key in said for key in keys)


# --- every key


@pytest.mark.parametrize("learner", [*TREES, NETWORK], ids=["tree", "xgboost", "own class", "network"])
@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_keys_of_every_algorithm_and_kind_of_learner(algorithm: str, learner: str, initial_model: str) -> None:
    base = {"algorithm": algorithm, "learner": learner, **BASE.get(algorithm, {})}
    if learner in TREES and (algorithm in WEIGHTS or algorithm == "fedmd"):
        assert said_of(base) != ""
        return
    expected = ALWAYS | OF_HEART_DISEASE | OF_ALGORITHM[algorithm]
    if learner == NETWORK:
        expected = (expected | TRAINED) - {"stop-at-fixed-point"}
        expected |= {"epochs"} if algorithm == "fedkt" else set()
        # Its control variates are means of steps of one length.
        expected -= {"decay-steps"} if algorithm == "scaffold" else set()
    else:
        # A learner that starts anew learns no more of the same records in another round.
        expected -= {"warm-up-rounds"}
    if algorithm in {*ONE_SHOT, JOINT}:
        expected -= {"num-server-rounds"}
    assert accepted(base, initial_model) == expected - base.keys()


# --- real silos


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study_folder(tmp_path_factory.mktemp("study"))


# --- what is said


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 0.1},
        {"quorum": 0.5},
        {"batch-size": 16},
        {"num-silos": 3},
        {"learner": NETWORK, "stop-at-fixed-point": False},
        {"data": "breast-cancer", "dirichlet-concentration": 0.1},
        {"learner": NETWORK, "epochs": 3},
        {"algorithm": "dd", "warm-up-rounds": 2},
        {"data": "diabetes", "algorithm": "dd", "learner": "ridge", "warm-up-rounds": 2},
        {"algorithm": "dp-pate", "gamma": 0.1, "epsilon": 0.5},
    ],
)  # fmt: skip
def test_the_sentence_says_why_and_what_to_do(settings: dict[str, Any], wording: SnapshotAssertion) -> None:
    assert said_of({"algorithm": "fedct", "learner": "decision-tree", **settings}) == wording


def test_what_somebody_named_is_refused_although_it_is_the_default() -> None:
    base = {"algorithm": "fedct", "learner": "decision-tree"}
    assert said_of({**base, "epsilon": 1.0}) == ""
    assert "epsilon has no effect" in said_of({**base, "epsilon": 1.0}, named={"epsilon"})
    assert said_of({**base, "protection": "randomized-response", "epsilon": 1.0}, named={"epsilon"}) == ""


# --- runs that began before


def test_a_resumed_run_keeps_what_it_began_with_except_an_epsilon_that_protects_nothing(
    wording: SnapshotAssertion,
) -> None:
    base = {"algorithm": "fedct", "learner": "decision-tree", "resume": True, "run-dir": "/run"}
    begun = {**RunConfig.defaults(), **base, "batch-size": 16}
    again = {**base, "batch-size": 16}
    assert said_of(again, begun=begun) == ""
    assert said_of({**again, "stop-at-fixed-point": False}, begun=begun) == ""
    assert said_of({**again, "student": "decision-tree", "epochs": 2}, begun=begun).startswith("epochs has no effect")
    assert said_of({**again, "epsilon": 0.1}, begun={**begun, "epsilon": 0.1}) == wording
