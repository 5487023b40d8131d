"""A run's settings: one sentence for every mistake, and the same values on both sides of Flower's flat run config."""

import tomllib
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.config.run import STUDY, RunConfig
from fedct_flwr.types import ConfigError
from tests.readme import ROOT
from tests.sentences import sentence

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
APP_CONFIG: dict[str, Any] = PYPROJECT["tool"]["flwr"]["app"]["config"]
REQUIRED = {"study": "a-study", "data": "heart-disease"}

TRAINING: dict[str, Any] = {
    "preprocessing": "none", "pseudo-weight": 0.5, "class-weight": "balanced", "local-steps": 7, "batch-size": 16,
    "learning-rate": 0.01, "decay-steps": 100, "weight-decay": 0.5, "optimizer": "sgd", "epochs": 3, "device": "cpu",
    "seed": 42,
}  # fmt: skip
ANOTHER_THAN_THE_DEFAULTS: dict[str, Any] = {
    "study": "Study_1.2", "data": "files", "data-dir": "/data", "label-column": "num", "text-columns": "note,plan",
    "outcome": "number", "num-silos": 3, "algorithm": "fedct-qualified",
    "quorum": 0.6, "learner": "svm,decision-tree", "learner-params": '[{"C": 2}, {}]', "stop-at-fixed-point": False,
    "roster": "a,b,c", "min-silos": 3, "round-deadline": 2.5, **TRAINING,
}  # fmt: skip


def read(**settings: Any) -> RunConfig:
    """A run config with these settings (underscores for hyphens) and defaults for the rest."""
    return RunConfig.from_flower({**REQUIRED, **{key.replace("_", "-"): value for key, value in settings.items()}})


def message(settings: dict[str, Any]) -> str:
    """What is said about these settings: one line, whatever is wrong."""
    return sentence(ConfigError, RunConfig.from_flower, settings)


# --- the app's config in pyproject.toml


def test_the_app_config_has_exactly_the_keys_of_the_run_config_with_their_defaults() -> None:
    # Flower lets nobody override a key that is not there.
    assert sorted(APP_CONFIG) == sorted({*RunConfig.defaults(), *REQUIRED})
    defaults = RunConfig.defaults()
    for key in APP_CONFIG.keys() - REQUIRED.keys():
        assert (type(APP_CONFIG[key]), APP_CONFIG[key]) == (type(defaults[key]), defaults[key]), key


def test_a_run_plans_its_rounds_and_queries() -> None:
    privacy = read(protection="dp-sgd", num_server_rounds=4, clipping_norm=2.0, epsilon=2.0).privacy_settings(50)
    assert (privacy.protection, privacy.clipping_norm, privacy.epsilon) == ("dp-sgd", 2.0, 2.0)
    assert (privacy.rounds, privacy.queries) == (4, 200)
    for gone in ("teachers", "fedkt-l2"):
        with pytest.raises(ConfigError, match=f"protection = '{gone}' in the run config: there are none, dp-sgd"):
            read(protection=gone)


@pytest.mark.parametrize("key", ["epsilon", "num-server-rounds", "pseudo-weight"])
def test_a_truth_value_is_no_number(key: str) -> None:
    assert message({**REQUIRED, key: True}).startswith(f"{key} = True in the run config: ")


# --- to and from Flower


def test_what_goes_to_flower_comes_back() -> None:
    config = RunConfig.from_flower(ANOTHER_THAN_THE_DEFAULTS)
    assert config.to_flower() == {
        **RunConfig.defaults_of_run(),
        **config.method.settings(),
        **ANOTHER_THAN_THE_DEFAULTS,
    }
    assert RunConfig.from_flower(config.to_flower()) == config


# --- unknown and missing keys


def test_a_misspelling_names_the_nearest_key_of_all_algorithms() -> None:
    for wrong, meant in (("num-silo", "num-silos"), ("quorom", "quorum")):
        assert message({**REQUIRED, wrong: 1}) == f"unknown key {wrong!r} in the run config: did you mean {meant!r}?"


@pytest.mark.parametrize("key", sorted(REQUIRED))
def test_a_missing_key_is_named(key: str) -> None:
    left = {name: value for name, value in REQUIRED.items() if name != key}
    assert message(left) == f"{key!r} is missing in the run config"


# --- settings that must fit together


@pytest.mark.parametrize("key", ["bad-silos", "corruption", "corruption-number"])
def test_a_setting_that_went_is_answered_with_what_serves_now(key: str) -> None:
    said = message({**REQUIRED, key: 1})
    assert said.startswith(f"there is no setting '{key}' any more: hand simulate() tables")


@pytest.mark.parametrize(
    ("settings", "concerned"),
    [
        ({"learner": ""}, ["learner"]),
        ({"learner-params": "[{}, {}]"}, ["learner-params"]),
        ({"data": "files"}, ["data-dir"]),
        ({"data": "breast-cancer", "outcome": "number"}, ["data", "outcome"]),
        ({"data": "files", "data-dir": "/", "label-column": "y", "outcome": "size"}, ["outcome", "'number'"]),
        ({"data": STUDY}, ["data-dir", "roster"]),
        ({"data": STUDY, "roster": "a,b"}, ["data-dir"]),
        ({"roster": "a"}, ["roster", "min-silos"]),
        ({"roster": "a,b,c", "min-silos": 4}, ["roster", "min-silos"]),
        ({"public-fraction": 0.5, "test-fraction": 0.5}, ["public-fraction", "test-fraction"]),
    ],
)
def test_settings_that_do_not_go_together_are_named(
    settings: dict[str, Any], concerned: list[str], wording: SnapshotAssertion
) -> None:
    text = message({**REQUIRED, **settings})
    assert [key for key in concerned if key not in text] == []
    assert text == wording


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({}, 5000),
        ({"algorithm": "pate"}, 60_000),
        ({"algorithm": "fedkt"}, 60_000),
        ({"algorithm": "dp-pate"}, 5000),
        ({"algorithm": "fedkt", "privacy_level": "L1"}, 5000),
        ({"algorithm": "fedkt", "privacy_level": "L2"}, 5000),
        ({"algorithm": "fedkt", "privacy_level": "L2", "lessons": 80}, 60_000),
    ],
)
def test_whoever_asks_once_asks_about_all_unless_labels_are_paid_for(settings: dict[str, Any], asked: int) -> None:
    assert read(**settings).asked_about(60_000) == asked
    assert read(**settings).asked_about(4000) == 4000
    assert read(**settings, query_size=70).asked_about(60_000) == 70


# --- learners


@pytest.mark.parametrize("text", ["{", "{'max_depth': 3}", "", "max_depth=3", "{} {}"])
def test_parameters_that_are_no_json_are_quoted_with_the_place_of_the_fault(
    text: str, wording: SnapshotAssertion
) -> None:
    said = message({**REQUIRED, "learner-params": text})
    assert said == wording
    assert "at position" in said


def test_several_learners_go_by_position_with_parameters_of_their_own() -> None:
    config = read(learner="svm,decision-tree", learner_params='[{"C": 2}, {"max_depth": 3}]')
    found = [config.learner_settings(silo, 2) for silo in range(2)]
    assert [(one.name, one.params) for one in found] == [("svm", {"C": 2}), ("decision-tree", {"max_depth": 3})]


def test_how_a_learner_trains_is_the_run_configs_for_every_silo() -> None:
    config = RunConfig.from_flower({**ANOTHER_THAN_THE_DEFAULTS, "learner": "svm", "learner-params": "{}"})
    assert config.learner_settings(1, 4) == LearnerSettings.read({"name": "svm", **TRAINING}, "a test")
