"""Whole runs with consensus rules that know their silos."""

from typing import Any

import numpy as np
import pytest

from tests.federation.conftest import Federation

RULES = {"fedct-dawid-skene": "balanced_accuracy", "fedct-agreement": "trust"}
every_rule = pytest.mark.parametrize("rule", RULES)


@every_rule
def test_the_round_log_tells_what_a_rule_thinks_of_each_silo(rule: str, federation: Federation) -> None:
    rounds = federation.run(algorithm=rule).rounds()
    for entry in rounds:
        assert len(entry["silos"]) == 4
        for silo in entry["silos"].values():
            assert 0 <= silo["quality"][RULES[rule]] <= 1
    plain = federation.run(algorithm="fedct", run_dir=str(federation.path / "plain")).rounds()
    assert all(silo["quality"] is None for entry in plain for silo in entry["silos"].values())


@every_rule
def test_a_resumed_run_ends_as_one_that_was_not_interrupted(rule: str, federation: Federation) -> None:
    settings: dict[str, Any] = {"algorithm": rule, "stop_at_fixed_point": False, "learner_params": '{"max_depth": 2}'}
    whole = federation.run(**settings, num_server_rounds=3, run_dir=str(federation.path / "whole"))
    federation.run(**settings, num_server_rounds=1)
    resumed = federation.run(**settings, num_server_rounds=3, resume=True)
    np.testing.assert_array_equal(resumed.load_checkpoint().targets, whole.load_checkpoint().targets)
    for one, other in zip(resumed.rounds(), whole.rounds(), strict=True):
        assert {name: silo["quality"] for name, silo in one["silos"].items()} == {
            name: silo["quality"] for name, silo in other["silos"].items()
        }


@every_rule
def test_a_silo_that_leaves_for_a_round_is_known_when_it_comes_back(rule: str, federation: Federation) -> None:
    federation.behave[1] = federation.away(2)
    folder = federation.run(algorithm=rule, stop_at_fixed_point=False, min_silos=3)
    there = [set(entry["silos"]) for entry in folder.rounds()]
    assert [len(silos) for silos in there] == [4, 3, 4]
    assert set(folder.load_checkpoint().state["silos"].tolist()) == there[0]


@pytest.mark.parametrize(("rule", "name"), [("fedct-dawid-skene", "balanced_accuracy"), ("fedct-agreement", "trust")])
def test_a_silo_with_random_labels_is_told_apart(rule: str, name: str, federation: Federation) -> None:
    folder = federation.run(
        algorithm=rule,
        data="breast-cancer",
        learner="logistic-regression",
        learner_params="{}",
        private_size=200,
        public_size=250,
        bad_silos="silo-3",
        corruption="random-labels",
        silos=5,
        num_server_rounds=1,
    )
    quality = {silo: told["quality"][name] for silo, told in folder.rounds()[0]["silos"].items()}
    assert min(quality, key=quality.__getitem__) == "silo-3"
    assert quality["silo-3"] < min(value for silo, value in quality.items() if silo != "silo-3") - 0.1


def test_colluders_run_like_any_silo(federation: Federation) -> None:
    folder = federation.run(
        algorithm="fedct-dawid-skene", bad_silos="zurich", corruption="collusion", corruption_number=0
    )
    rounds = folder.rounds()
    assert all(not entry["absent"] for entry in rounds)
    assert rounds[0]["silos"]["zurich"]["quality"]["recall"][0] > 0.9
    assert rounds[0]["silos"]["zurich"]["quality"]["recall"][1] < 0.1


def test_class_balanced_silos_label_otherwise(federation: Federation) -> None:
    runs = [
        federation.run(class_weight=weight, num_server_rounds=1, run_dir=str(federation.path / weight))
        for weight in ("none", "balanced")
    ]
    targets = [folder.load_checkpoint().targets for folder in runs]
    assert (targets[0] != targets[1]).any()
