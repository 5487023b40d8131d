"""Whole runs in which silos share probabilities."""

from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import ConfigError
from tests.federation.conftest import Federation

SOFT: dict[str, Any] = {"algorithm": "prediction-consensus", "trust": "dynamic"}
NETWORK: dict[str, Any] = {
    "learner": "tests.federation.learners.network",
    "learner_params": "{}",
    "local_steps": 5,
    "learning_rate": 0.02,
}
EVERY = pytest.mark.parametrize("settings", [SOFT, {**SOFT, **NETWORK}], ids=["tree", "network"])


def ends_like(one: RunFolder, other: RunFolder) -> None:
    first, second = one.load_checkpoint(), other.load_checkpoint()
    np.testing.assert_array_equal(first.targets, second.targets)
    for name, value in first.state.items():
        np.testing.assert_array_equal(value, second.state[name])
    assert one.trust() == other.trust()


@EVERY
def test_a_resumed_run_ends_as_one_that_was_not_interrupted(settings: dict[str, Any], federation: Federation) -> None:
    settings = {**settings, "save_models": True}
    if "network" not in settings.get("learner", ""):
        settings["stop_at_fixed_point"] = False
    whole = federation.run(**settings, run_dir=str(federation.path / "whole"))
    federation.run(**settings, num_server_rounds=1)
    # A line that a crash left behind its checkpoint is forgotten.
    with (federation.path / "run" / "trust.jsonl").open("a") as file:
        file.write('{"round": 2, "silos": [], "matrix": []}\n')
    resumed = federation.run(**settings, num_server_rounds=3, resume=True)
    assert [entry["round"] for entry in resumed.trust()] == [1, 2, 3]
    ends_like(resumed, whole)


def test_a_silo_that_leaves_for_a_round_takes_its_trust_with_it_and_brings_it_back(federation: Federation) -> None:
    federation.behave[1] = federation.away(2)
    settings: dict[str, Any] = {"algorithm": "prediction-consensus", "trust": "static", "stop_at_fixed_point": False}
    folder = federation.run(**settings, min_silos=3)
    with_all, without, again = folder.trust()
    assert len(without["silos"]) == 3
    assert set(with_all["silos"]) - set(without["silos"]) == {"budapest"}
    assert again == {**with_all, "round": 3}
    rows = [with_all["silos"].index(silo) for silo in without["silos"]]
    kept = np.array(with_all["matrix"])[np.ix_(rows, rows)]
    np.testing.assert_allclose(without["matrix"], kept / kept.sum(axis=1, keepdims=True), atol=1e-3)


def test_warm_up_costs_training_and_no_messages(federation: Federation) -> None:
    folders = [
        federation.run(
            **SOFT, **NETWORK, warm_up_rounds=warm_up, num_server_rounds=1, run_dir=str(federation.path / str(warm_up))
        )
        for warm_up in (1, 5)
    ]
    short, long = (folder.load_checkpoint().state["votes"] for folder in folders)
    # The longer they train, the surer they are.
    assert np.abs(long - 0.5).mean() > np.abs(short - 0.5).mean() + 0.02
    sent = [folder.rounds()[0]["instruction_bytes"] for folder in folders]
    assert sent[0] == sent[1] < 100


def test_distributed_distillation_is_the_mean(federation: Federation) -> None:
    dd = federation.run(algorithm="dd", run_dir=str(federation.path / "dd"))
    naive = federation.run(algorithm="prediction-consensus", trust="naive")
    ends_like(dd, naive)
    assert dd.trust()[0]["matrix"] == [[0.25] * 4] * 4


def test_fedmd_learns_the_mean_first_and_its_own_records_then(federation: Federation) -> None:
    settings: dict[str, Any] = {**NETWORK, "warm_up_rounds": 1, "num_server_rounds": 2}
    one, other = (
        federation.run(algorithm=name, **settings, run_dir=str(federation.path / name)) for name in ("fedmd", "dd")
    )
    first, second = one.rounds(), other.rounds()
    # The first answer is the same; what is made of others' is not.
    assert one.trust() == other.trust()
    assert first[0]["class_counts"] == second[0]["class_counts"]
    assert (one.load_checkpoint().state["votes"] != other.load_checkpoint().state["votes"]).any()
    assert not any(entry["absent"] for entry in first)


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "fedmd", "trust": "static"},
        {"algorithm": "fedmd", "trust": "static", "learner": "svm"},
        {"algorithm": "fedmd", "trust": "static", "consensus_weight": 2.0},
        {"learner": "svm"},
        {"learner": "logistic-regression,svm,svm,svm"},
        {"protection": "dp-linear"},
        {"pseudo_weight": 2.0},
        {"algorithm": "dd"},
        {"algorithm": "fedct-agreement", "trust": "naive"},
        {"algorithm": "fedct", "trust": "static", "warm_up_rounds": 2},
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_runs(
    settings: dict[str, Any], federation: Federation, wording: SnapshotAssertion
) -> None:
    with pytest.raises(ConfigError) as caught:
        federation.run(**{**SOFT, "learner_params": "{}", **settings})
    assert str(caught.value) == wording
    assert not federation.sent
