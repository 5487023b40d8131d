"""Settings that do nothing are refused: every key of the run config against all that a run can be made of.

What is expected here is written down by hand, and not read from the declarations that it checks. A new algorithm needs
a row in ``OF_ALGORITHM``, or these tests fail.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.algorithms.checks import check_run
from fedct_flwr.algorithms.table import ALGORITHMS
from fedct_flwr.config import MEMORY, STUDY, RunConfig
from fedct_flwr.config.protections import OF_PROTECTION
from fedct_flwr.coordinator.study import Subject
from fedct_flwr.datasets import LOADERS, SETTINGS
from fedct_flwr.datasets.corruption import OF_CORRUPTION
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.types import ConfigError
from tests.config import probes
from tests.config.probes import (
    ANOTHER,
    APP_CONFIG,
    BASE,
    LASSO,
    NETWORK,
    SCENARIO,
    TOGETHER,
    TREES,
    config_of,
    probed,
    said_of,
)
from tests.hospitals import HOSPITALS, write_study_folder

initial_model, fitted_once = probes.initial_model, probes.fitted_once

ALWAYS = {
    *("learner-params", "preprocessing", "class-weight", "bad-silos", "corruption", "num-server-rounds", "roster"),
    *("min-silos", "roster-deadline", "round-deadline", "seed", "save-models", "baselines", "tracking"),
}
OF_HEART_DISEASE = {"public-fraction", "test-fraction"}
OF_SPLIT = {"num-silos", "private-size", "public-size", "partition"}

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


def test_another_value_of_every_key_is_tried() -> None:
    assert set(ANOTHER) == set(APP_CONFIG) - SCENARIO
    assert not [key for key, value in ANOTHER.items() if value == APP_CONFIG[key] and key != "initial-model"]


def test_whatever_can_be_chosen_declares_its_settings() -> None:
    assert set(OF_ALGORITHM) == set(ALGORITHMS)
    assert set(SETTINGS) == {*LOADERS, MEMORY, STUDY}
    assert set(OF_CORRUPTION) == set(_choices("corruption"))
    declared = [*(entry.uses() for entry in ALGORITHMS.values()), *OF_PROTECTION.values(), *SETTINGS.values()]
    assert {key for used in declared for key in used} <= set(APP_CONFIG)


def _choices(key: str) -> tuple[str, ...]:
    annotation: Any = RunConfig.model_fields[key].annotation
    return annotation.__args__


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


@pytest.mark.parametrize("learner", ["decision-tree", "xgboost", "ridge", LASSO])
@pytest.mark.parametrize("algorithm", ["dd", "prediction-consensus"])
def test_keys_where_numbers_are_predicted(algorithm: str, learner: str, initial_model: str) -> None:
    base = {"data": "diabetes", "algorithm": algorithm, "learner": learner}
    expected = ALWAYS | OF_SPLIT | OF_ALGORITHM[algorithm]
    expected -= {
        "class-weight",
        "bad-silos",
        "corruption",
        "student",
        "partition",
        "roster",
        "warm-up-rounds",
        "secure",  # values have no grid on which sums are exact
    }
    assert accepted(base, initial_model) == expected


@pytest.mark.parametrize("learner", ["decision-tree", NETWORK], ids=["tree", "network"])
@pytest.mark.parametrize(
    ("protection", "own"),
    [
        ("none", set()),
        ("dp-linear", {"epsilon", "delta"}),
        ("dp-sgd", {"epsilon", "delta", "clipping-norm"}),
        ("teachers", {"epsilon", "delta", "teachers", "noise"}),
        ("randomized-response", {"epsilon", "delta"}),
    ],
)
def test_keys_of_every_protection(protection: str, own: set[str], learner: str, initial_model: str) -> None:
    base = {"algorithm": "fedct", "learner": learner, "protection": protection}
    keys = {"epsilon", "delta", "teachers", "clipping-norm", "noise", "epochs", "quorum", "mechanism", "lessons"}
    if protection == "dp-sgd" and learner != NETWORK:
        assert "trains networks" in said_of(base)
        return
    expected = own | ({"epochs"} if learner == NETWORK and protection == "teachers" else set())
    found = {key for key, settings in probed(base, initial_model) if key in keys and not said_of(settings)}
    # The least epsilon costs so much noise that some mechanisms refuse it, in a sentence of their own.
    assert found | ({"epsilon"} & own) == expected


@pytest.mark.parametrize(
    ("level", "own"),
    [
        ("L0", set()),
        ("L1", {"mechanism", "gamma", "epsilon", "delta"}),
        ("L2", {"mechanism", "gamma", "epsilon", "delta", "lessons"}),
    ],
)
def test_keys_of_every_level_of_fedkt(level: str, own: set[str], initial_model: str) -> None:
    base = {"algorithm": "fedkt", "learner": "decision-tree", "privacy-level": level}
    keys = {"mechanism", "gamma", "epsilon", "delta", "lessons", "clipping-norm", "noise", "protection"}
    assert {key for key, settings in probed(base, initial_model) if key in keys and not said_of(settings)} == own


@pytest.mark.parametrize("data", ["breast-cancer", "own"])
def test_keys_of_data_sets_that_are_split(data: str, initial_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOADERS, "own", LOADERS["breast-cancer"])
    keys = {"dirichlet-concentration", "public-fraction", "test-fraction", "outcome", "label-column", "data-dir"}
    base = {"data": data, "learner": "decision-tree"}
    found = {key for key, s in probed(base, initial_model) if key in keys | OF_SPLIT and not said_of(s)}
    # Nobody here knows what a data set of one's own makes of them.
    assert found == OF_SPLIT | ({"public-fraction", "test-fraction"} if data == "own" else set())
    skewed = {**base, "partition": "dirichlet", "dirichlet-concentration": 0.7}
    assert said_of(skewed) == ""


def test_keys_of_files(tmp_path: Path, initial_model: str) -> None:
    rng = np.random.default_rng(0)
    for name in ("public", "a", "b", "c"):
        rows = [f"{x:.2f},{y:.2f},{int(x + y > 0)}" for x, y in rng.normal(size=(20, 2))]
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,y,ill", *rows]))
    base = {"data": "files", "data-dir": str(tmp_path), "label-column": "ill", "learner": "decision-tree"}
    keys = OF_SPLIT | {"dirichlet-concentration", "public-fraction", "test-fraction"}
    assert {key for key, s in probed(base, initial_model) if key in keys and not said_of(s)} == {"test-fraction"}


@pytest.mark.parametrize("corruption", sorted(set(OF_CORRUPTION) - {"none"}))
def test_the_number_of_a_corruption(corruption: str) -> None:
    base = {"bad-silos": "zurich", "corruption": corruption, "learner": "decision-tree"}
    taken = said_of({**base, "corruption-number": 0}).startswith("corruption-number has no effect")
    assert taken == (corruption in ("label-flip", "random-labels"))


# --- real silos

REAL = {"num-server-rounds", "roster", "min-silos", "roster-deadline", "round-deadline", "seed", "tracking"}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study_folder(tmp_path_factory.mktemp("study"))


def said_of_real(study: Path, **settings: Any) -> str:
    least = {"data": STUDY, "data-dir": str(study), "roster": ",".join(HOSPITALS), "study": "heart-disease"}
    try:
        config = config_of(**{**least, **settings})
        check_run(config, None, Subject.real(read_study(study)), config.roster)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("algorithm", sorted(set(ALGORITHMS) - WEIGHTS - {JOINT}))
def test_keys_of_every_algorithm_with_real_silos(algorithm: str, study: Path, initial_model: str) -> None:
    taken = set()
    for key, settings in probed({"learner": NETWORK}, initial_model):
        given = {name: value for name, value in settings.items() if name != "learner"}
        said = said_of_real(study, algorithm=algorithm, **given)
        if said:
            assert names_one_of({key, *TOGETHER.get(key, {})}, said), (key, said)
        else:
            taken.add(key)
    # Theirs to know: teachers, protection, and how others' labels are weighed.
    expected = REAL | (OF_ALGORITHM[algorithm] - {"pseudo-weight", "protection", "teachers"})
    # The path of the study's folder is another one here.
    expected -= {"num-server-rounds"} if algorithm in ONE_SHOT else set()
    # This study has no [sums].
    expected -= {"secure"}
    assert taken - {"data-dir"} == expected


def test_a_student_of_real_silos_has_the_settings_of_its_kind(study: Path, wording: SnapshotAssertion) -> None:
    student = {"algorithm": "fedct", "student": NETWORK}
    for key in sorted(TRAINED | {"epochs", "class-weight"}):
        assert said_of_real(study, **student, **{key: ANOTHER[key]}) == ""
        if key != "class-weight":
            said = said_of_real(study, **{**student, "student": "decision-tree"}, **{key: ANOTHER[key]})
            assert said == wording(name=key)
    assert said_of_real(study, **student, **{"local-steps": 7, "epochs": 3}).startswith("local-steps has no effect")


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
