"""Whole runs with consensus rules that know their silos."""

from typing import Any

import numpy as np
import pytest

from tests.federation.conftest import Federation

RULES = {"fedct-dawid-skene": "balanced_accuracy", "fedct-agreement": "trust"}
every_rule = pytest.mark.parametrize("rule", RULES)


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
