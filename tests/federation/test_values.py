"""Whole runs in which silos predict a number: real patients, and nothing but values travels."""

import csv
from typing import Any

import numpy as np
import pytest

from fedct_flwr import datasets
from fedct_flwr.algorithms.table import find_algorithm
from fedct_flwr.config import RunConfig
from fedct_flwr.runs import scores
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.simulation import scoreboard
from fedct_flwr.types import ConfigError
from tests.federation.conftest import Federation

NUMBERS: dict[str, Any] = {
    "silos": 5,
    "data": "diabetes",
    "algorithm": "prediction-consensus",
    "learner": "ridge",
    "learner_params": "{}",
}


def ends_like(one: RunFolder, other: RunFolder) -> None:
    first, second = one.load_checkpoint(), other.load_checkpoint()
    np.testing.assert_array_equal(first.targets, second.targets)
    assert all(np.array_equal(value, second.state[name]) for name, value in first.state.items())
    assert one.trust() == other.trust()
    assert (one.path / "values.csv").read_bytes() == (other.path / "values.csv").read_bytes()


@pytest.mark.parametrize("trust", ["naive", "static", "dynamic"])
def test_silos_explain_more_of_what_they_have_not_seen_than_alone(trust: str, federation: Federation) -> None:
    folder = federation.run(**NUMBERS, trust=trust, save_models=True)
    config = RunConfig.from_flower(folder.settings())
    rows = scoreboard.score(config, find_algorithm(config), datasets.load(config), folder)
    mean = {method: np.mean([row.pooled[method] for row in rows]) for method in scores.METHODS}
    # The seed's: alone .09, together .27, central .34.
    assert mean["local"] + 0.1 < mean["federated"] < mean["centralized"]


def test_the_run_folder_tells_of_values_and_of_nothing_that_has_classes(federation: Federation) -> None:
    folder = federation.run(**NUMBERS, trust="dynamic")
    assert (folder.quantity, folder.read_json("config.json")["classes"]) == ("progression", [])
    first, *_, last = folder.rounds()
    assert {"agreement", "changed", "abstained", "class_counts"}.isdisjoint(first)
    assert first["moved"] is None
    assert last["distance"] < first["distance"]
    # Four bytes for each of the 180 examples, and what else is in a message.
    assert all(720 < silo["bytes_sent"] < 840 for silo in first["silos"].values())
    assert [entry["round"] for entry in folder.trust()] == [1, 2, 3]
    np.testing.assert_allclose(np.sum(folder.trust()[-1]["matrix"], axis=1), 1, atol=1e-3)

    checkpoint = folder.load_checkpoint()
    with (folder.path / "values.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["example"]) for row in rows] == list(range(180))
    np.testing.assert_array_equal(np.float32([row["progression"] for row in rows]), checkpoint.targets)
    assert not (folder.path / "labels.csv").exists()
    # The consensus is the mean of the targets, by the trust of the last round.
    shares = np.mean(folder.trust()[-1]["matrix"], axis=0)
    mean = np.tensordot(shares, checkpoint.state["votes"], axes=1)[:, 0]
    np.testing.assert_allclose(checkpoint.targets, mean, rtol=1e-3)
    distances = np.sqrt(((checkpoint.state["votes"][:, :, 0] - checkpoint.targets) ** 2).mean(axis=1))
    told = [last["silos"][silo]["distance"] for silo in checkpoint.state["voters"]]
    np.testing.assert_allclose(told, distances, rtol=1e-5)


def test_silos_may_say_how_good_they_are_after_each_round(federation: Federation) -> None:
    first, *_, last = federation.run(**NUMBERS, report_scores=True).rounds()
    known = [[silo["scores"] for silo in entry["silos"].values()] for entry in (first, last)]
    # They have no test sets of their own.
    assert {name for scores in known for told in scores for name in told} == {"pooled_r_squared"}
    before, after = (np.mean([told["pooled_r_squared"] for told in scores]) for scores in known)
    assert before + 0.1 < after < 1


def test_a_resumed_run_ends_as_one_that_was_not_interrupted(federation: Federation) -> None:
    settings = {**NUMBERS, "query_size": 60, "stop_at_fixed_point": False}
    whole = federation.run(**settings, run_dir=str(federation.path / "whole"))
    federation.run(**settings, num_server_rounds=1)
    resumed = federation.run(**settings, num_server_rounds=3, resume=True)
    ends_like(resumed, whole)
    assert [entry["queried"] for entry in resumed.rounds()] == [60, 60, 60]
    # Of 180 examples, some were never asked about.
    assert 0 < np.isnan(resumed.load_checkpoint().targets).sum() < 120


def test_distributed_distillation_is_the_mean_and_comes_to_a_fixed_point(federation: Federation) -> None:
    settings = {**NUMBERS, "learner": "decision-tree", "learner_params": '{"max_depth": 1}', "num_server_rounds": 30}
    naive = federation.run(**settings, trust="naive")
    dd = federation.run(**{**settings, "algorithm": "dd"}, run_dir=str(federation.path / "dd"))
    ends_like(dd, naive)
    assert dd.trust()[0]["matrix"] == [[0.2] * 5] * 5
    assert dd.read_json("result.json")["fixed_point"] == len(dd.rounds()) < 30


def test_each_silo_has_a_regressor_of_its_own_kind(federation: Federation) -> None:
    learners = "ridge,random-forest,decision-tree,svm,sklearn.linear_model.HuberRegressor"
    params = '[{}, {"n_estimators": 5}, {}, {}, {}]'
    folder = federation.run(**{**NUMBERS, "learner": learners, "learner_params": params}, num_server_rounds=2)
    assert not any(entry["absent"] for entry in folder.rounds())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"algorithm": "fedct"}, "algorithm 'fedct' needs classes, and the outcome 'progression' of 'diabetes' is a"),
        ({"algorithm": "fedmd"}, "set algorithm to 'prediction-consensus' or 'dd'"),
        ({"algorithm": "fedavg"}, "needs classes"),
        ({"partition": "dirichlet"}, "partition = 'dirichlet' needs classes"),
        ({"bad_silos": "silo-1", "corruption": "label-flip"}, "corruption = 'label-flip' needs classes"),
        ({"class_weight": "balanced"}, "class-weight = 'balanced' needs classes"),
        ({"protection": "dp-linear"}, "protection = 'dp-linear' needs classes"),
        ({"student": "ridge"}, "student = 'ridge' needs classes"),
        ({"learner": "naive-bayes"}, "learner 'naive-bayes' predicts classes"),
        ({"learner": "sklearn.neighbors.KNeighborsRegressor"}, "takes no sample weights"),
        ({"outcome": "number"}, "outcome = 'number' is for data = 'files'"),
    ],
)
def test_what_needs_classes_is_refused_before_anything_runs(
    settings: dict[str, Any], said: str, federation: Federation
) -> None:
    with pytest.raises(ConfigError, match=said):
        federation.run(**{**NUMBERS, **settings})
    assert not federation.sent
