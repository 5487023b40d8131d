"""A run's settings: one sentence for every mistake, and the same values on both sides of Flower's flat run config."""

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.algorithms.table import ALGORITHMS
from fedct_flwr.config import STUDY, LearnerSettings, RunConfig
from fedct_flwr.config.method import defaults_of_all
from fedct_flwr.types import ConfigError
from tests.config.probes import ANOTHER, APP_CONFIG
from tests.misspellings import misspellings

REQUIRED = {"study": "a-study", "data": "heart-disease"}

NOTHING_AS_IN_THE_DEFAULTS: dict[str, Any] = {
    "study": "Study_1.2",
    "data": "files",
    "data-dir": "/data",
    "label-column": "num",
    "text-columns": "note,plan",
    "group-column": "patient",
    "outcome": "number",
    "positive-class": "ill",
    "accept": "one-per-record:ward",
    "num-silos": 3,
    "private-size": 100,
    "public-size": 200,
    "partition": "dirichlet",
    "dirichlet-concentration": 0.1,
    "public-fraction": 0.5,
    "test-fraction": 0.25,
    "bad-silos": "b",
    "corruption": "label-flip",
    "corruption-number": 2,
    "algorithm": "fedct-qualified",
    "quorum": 0.6,
    "learner": "svm,decision-tree",
    "learner-params": '[{"C": 2}, {}]',
    "preprocessing": "none",
    "pseudo-weight": 0.5,
    "class-weight": "balanced",
    "local-steps": 7,
    "batch-size": 16,
    "learning-rate": 0.01,
    "decay-steps": 100,
    "weight-decay": 0.5,
    "optimizer": "sgd",
    "epochs": 3,
    "device": "cpu",
    "student": "random-forest",
    "student-params": '{"n_estimators": 7}',
    "protection": "teachers",
    "epsilon": 2.5,
    "delta": 1e-6,
    "teachers": 4,
    "clipping-norm": 0.5,
    "noise": "gaussian",
    "num-server-rounds": 7,
    "query-size": 50,
    "stop-at-fixed-point": False,
    "roster": "a,b,c",
    "min-silos": 3,
    "roster-deadline": 1.5,
    "round-deadline": 2.5,
    "seed": 42,
    "report-scores": True,
    "save-models": False,
    "baselines": "local",
    "run-dir": "/runs/1",
    "resume": True,
    "tracking": "mlflow",
}

OF_ALGORITHMS: dict[str, Any] = {
    **{key: ANOTHER[key] for key in defaults_of_all()},
    "initial-model": "/models/a.safetensors",
    # Noise that silos can add in shares, and that has lessons.
    "mechanism": "gaussian",
    "privacy-level": "L2",
}
"""Settings that single algorithms have."""


def read(**settings: Any) -> RunConfig:
    """A run config with these settings (underscores for hyphens) and defaults for the rest."""
    return RunConfig.from_flower({**REQUIRED, **{key.replace("_", "-"): value for key, value in settings.items()}})


def message(settings: dict[str, Any]) -> str:
    """What is said about these settings: one line, whatever is wrong."""
    with pytest.raises(ConfigError) as caught:
        RunConfig.from_flower(settings)
    text = str(caught.value)
    assert "\n" not in text
    return text


# --- the app's config in pyproject.toml


def test_the_app_config_has_exactly_the_keys_of_the_run_config() -> None:
    # Flower lets nobody override a key that is not there.
    assert sorted(APP_CONFIG) == sorted({*RunConfig.defaults(), *REQUIRED})


@pytest.mark.parametrize("key", sorted(set(APP_CONFIG) - set(REQUIRED)))
def test_the_app_config_states_the_default_of_every_key(key: str) -> None:
    default = RunConfig.from_flower(REQUIRED).to_flower()[key]
    assert APP_CONFIG[key] == default
    assert type(APP_CONFIG[key]) is type(default)


def test_a_run_plans_its_rounds_and_queries() -> None:
    privacy = read(protection="teachers", num_server_rounds=4, noise="gaussian", epsilon=2.0).privacy_settings(50)
    assert (privacy.protection, privacy.noise, privacy.epsilon) == ("teachers", "gaussian", 2.0)
    assert (privacy.rounds, privacy.queries) == (4, 200)
    with pytest.raises(ConfigError, match="a single teacher"):
        read(teachers=1)


# --- to and from Flower


def test_what_goes_to_flower_comes_back() -> None:
    config = RunConfig.from_flower(NOTHING_AS_IN_THE_DEFAULTS)
    assert config.to_flower() == {**RunConfig.defaults(), **NOTHING_AS_IN_THE_DEFAULTS}
    assert RunConfig.from_flower(config.to_flower()) == config


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_what_an_algorithm_has_goes_to_flower_and_comes_back(algorithm: str) -> None:
    own = {key: value for key, value in OF_ALGORITHMS.items() if key in ALGORITHMS[algorithm].own()}
    if {"secure", "trust"} <= own.keys():
        # Sums know no trust.
        own["trust"] = "naive"
    config = RunConfig.from_flower({**REQUIRED, "algorithm": algorithm, **own})
    assert own.items() <= config.to_flower().items()
    assert RunConfig.from_flower(config.to_flower()) == config


def test_flower_gets_nothing_but_flat_scalars() -> None:
    values = RunConfig.from_flower(NOTHING_AS_IN_THE_DEFAULTS).to_flower().values()
    assert {type(value) for value in values} == {str, int, float, bool}


# --- unknown and missing keys


@pytest.mark.parametrize("key", list(APP_CONFIG))
def test_every_misspelling_of_a_run_config_key_names_it(key: str) -> None:
    for wrong in misspellings(key):
        if wrong not in APP_CONFIG:
            # partition and partitions are as near as can be.
            meant = {key, key.removesuffix("s")} & APP_CONFIG.keys()
            assert message({**REQUIRED, wrong: 1}) in {
                f"unknown key {wrong!r} in the run config: did you mean {known!r}?" for known in meant
            }


@pytest.mark.parametrize("key", sorted(REQUIRED))
def test_a_missing_key_is_named(key: str) -> None:
    left = {name: value for name, value in REQUIRED.items() if name != key}
    assert message(left) == f"{key!r} is missing in the run config"


# --- values


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("study", ""),
        ("study", "two words"),
        ("study", "../elsewhere"),
        ("study", ".hidden"),
        ("study", "line\n"),
        ("study", "s" * 65),
        ("study", 2024),
        ("data", 1),
        ("num-silos", -1),
        ("partition", "idd"),
        ("dirichlet-concentration", 0.0),
        ("dirichlet-concentration", float("nan")),
        ("public-fraction", 0.0),
        ("public-fraction", 1.0),
        ("test-fraction", -0.1),
        ("test-fraction", 1.0),
        ("learner-params", 3),
        ("preprocessing", "scaled"),
        ("pseudo-weight", 0.0),
        ("pseudo-weight", float("inf")),
        ("num-server-rounds", 0),
        ("num-server-rounds", 2.5),
        ("query-size", -1),
        ("stop-at-fixed-point", "perhaps"),
        ("min-silos", 1),
        ("roster-deadline", 0.0),
        ("round-deadline", float("inf")),
        ("seed", -1),
        ("report-scores", 2),
        ("resume", "later"),
    ],
)
def test_a_value_out_of_range_is_one_sentence_with_key_and_value(key: str, value: object) -> None:
    assert message({**REQUIRED, key: value}).startswith(f"{key} = {value!r} in the run config: ")


# --- settings that must fit together


@pytest.mark.parametrize(
    ("settings", "concerned"),
    [
        ({"learner": ""}, ["learner"]),
        ({"learner": " , "}, ["learner"]),
        ({"learner-params": "[{}, {}]"}, ["learner-params"]),
        ({"data": "files"}, ["data-dir"]),
        ({"data": "files", "label-column": "y"}, ["data-dir"]),
        ({"data": "adult", "outcome": "number"}, ["data", "outcome"]),
        ({"data": "files", "data-dir": "/", "label-column": "y", "outcome": "size"}, ["outcome", "'number'"]),
        ({"data-dir": "/data"}, ["data-dir"]),
        ({"label-column": "3"}, ["label-column"]),
        ({"data": STUDY}, ["data-dir", "roster"]),
        ({"data": STUDY, "data-dir": "/study"}, ["roster"]),
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


@pytest.mark.parametrize("level", ["L0", "L1"])
def test_lessons_are_for_noise_at_the_silos(level: str, wording: SnapshotAssertion) -> None:
    text = message({**REQUIRED, "algorithm": "fedkt", "privacy-level": level, "lessons": 80})
    assert text == wording
    with pytest.raises(ConfigError) as caught:
        read(algorithm="fedkt", privacy_level="L2", lessons=80).check_fits(["a", "b"], 70)
    assert str(caught.value) == wording


def test_a_roster_that_names_a_silo_twice_is_refused() -> None:
    assert "'a'" in message({**REQUIRED, "roster": "a,b,a"})


# --- learners


@pytest.mark.parametrize("text", ["{", "{'max_depth': 3}", "", "max_depth=3", "{} {}"])
def test_parameters_that_are_no_json_are_quoted_with_the_place_of_the_fault(
    text: str, wording: SnapshotAssertion
) -> None:
    said = message({**REQUIRED, "learner-params": text})
    assert said == wording
    assert "at position" in said


@pytest.mark.parametrize("silo", [0, 1, 99])
def test_one_learner_serves_every_silo(silo: int) -> None:
    settings = read(learner="svm", learner_params='{"C": 2}').learner_settings(silo, 100)
    assert (settings.name, settings.params) == ("svm", {"C": 2})


def test_several_learners_go_by_position_with_parameters_of_their_own() -> None:
    config = read(learner="svm,decision-tree", learner_params='[{"C": 2}, {"max_depth": 3}]')
    found = [config.learner_settings(silo, 2) for silo in range(2)]
    assert [(settings.name, settings.params) for settings in found] == [
        ("svm", {"C": 2}),
        ("decision-tree", {"max_depth": 3}),
    ]


@pytest.mark.parametrize("num_silos", [1, 3])
def test_several_learners_must_be_one_for_each_silo(num_silos: int, wording: SnapshotAssertion) -> None:
    config = read(learner="svm,decision-tree")
    with pytest.raises(ConfigError) as caught:
        config.learner_settings(0, num_silos)
    assert str(caught.value) == wording


def test_how_a_learner_trains_is_the_run_configs_for_every_silo() -> None:
    config = RunConfig.from_flower({**NOTHING_AS_IN_THE_DEFAULTS, "learner": "svm", "learner-params": "{}"})
    keys = (
        "preprocessing", "pseudo-weight", "class-weight", "local-steps", "batch-size", "learning-rate",
        "decay-steps", "weight-decay", "optimizer", "epochs", "device", "seed",
    )  # fmt: skip
    same = {key: NOTHING_AS_IN_THE_DEFAULTS[key] for key in keys}
    assert config.learner_settings(1, 4) == LearnerSettings.read({"name": "svm", **same}, "a test")
