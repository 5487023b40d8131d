"""Settings that do nothing are refused, with the reason and what to do."""

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr import datasets
from fedct_flwr.algorithms.checks import check_run
from fedct_flwr.config.run import RunConfig
from fedct_flwr.coordinator.study import Subject
from fedct_flwr.types import ConfigError

NETWORK = "tests.federation.learners.network"


def said_of(settings: dict[str, Any], **options: Any) -> str:
    """The sentence that refuses these settings before a simulation; empty if they are taken."""
    try:
        config = RunConfig.from_flower({"study": "s", "data": "heart-disease", **settings})
        dataset = datasets.load(config)
        check_run(config, dataset, Subject.simulated(dataset), [silo.name for silo in dataset.silos], **options)
    except ConfigError as error:
        return str(error)
    return ""


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
