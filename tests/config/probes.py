"""Every key of the run config with another value than its default, and what is said of it before a run."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sklearn.tree import DecisionTreeClassifier

from fedct_flwr import datasets
from fedct_flwr.algorithms.checks import check_run
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.study import Subject
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners import preprocessing
from fedct_flwr.learners.build import build_learner
from fedct_flwr.types import ConfigError, Features

ROOT = Path(__file__).parents[2]
APP_CONFIG: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["flwr"]["app"][
    "config"
]

NETWORK = "tests.config.probes.small_network"
LASSO = "sklearn.linear_model.Lasso"
OWN_CLASS = "tests.config.probes.OwnTree"

SCENARIO = {"study", "data", "algorithm", "learner", "run-dir", "resume"}
"""Keys that say which run it is."""

ANOTHER: dict[str, Any] = {
    "data-dir": "/nowhere",
    "label-column": "ill",
    "text-columns": "note",
    "group-column": "patient",
    "outcome": "number",
    "positive-class": "ill",
    "accept": "one-per-record:ward",
    "num-silos": 3,
    "private-size": 100,
    "public-size": 90,
    "partition": "dirichlet",
    "dirichlet-concentration": 0.7,
    "public-fraction": 0.3,
    "test-fraction": 0.3,
    "bad-silos": "zurich",
    "corruption": "label-flip",
    "corruption-number": 0,
    "quorum": 0.6,
    "trust": "dynamic",
    "consensus-weight": 0.9,
    "warm-up-rounds": 2,
    "secure": True,
    "min-summands": 4,
    "may-collude": 2,
    "joint-labeler": "additive",
    "learner-params": "",
    "preprocessing": "none",
    "pseudo-weight": 0.4,
    "class-weight": "balanced",
    "local-steps": 7,
    "batch-size": 16,
    "learning-rate": 0.02,
    "decay-steps": 2,
    "weight-decay": 0.05,
    "optimizer": "sgd",
    "epochs": 3,
    "device": "cpu",
    "student": "decision-tree",
    "student-params": '{"max_depth": 2}',
    "initial-model": "",
    "proximal-mu": 0.7,
    "feddyn-alpha": 0.3,
    "distillation-steps": 9,
    "pfnm-silo-variance": 0.1,
    "pfnm-global-variance": 5.0,
    "pfnm-gamma": 7.0,
    "protection": "randomized-response",
    "epsilon": 0.1,
    "delta": 1e-6,
    "teachers": 4,
    "clipping-norm": 0.5,
    "noise": "gaussian",
    "privacy-level": "L1",
    "partitions": 3,
    "mechanism": "gumbel",
    "gamma": 0.001,
    "lessons": 30,
    "num-server-rounds": 2,
    "query-size": 50,
    "stop-at-fixed-point": False,
    "roster": "cleveland,budapest,zurich",
    "min-silos": 3,
    "roster-deadline": 1.5,
    "round-deadline": 100.0,
    "seed": 42,
    "report-scores": True,
    "save-models": False,
    "baselines": "none",
    "tracking": "tensorboard",
}
"""Another value than the default for each key that is probed; "" is filled in by ``probed``."""

TOGETHER = {"bad-silos": {"corruption": "label-flip"}, "corruption": {"bad-silos": "zurich"}}
"""What a key cannot be without."""

BASE: dict[str, dict[str, Any]] = {"scaffold": {"optimizer": "sgd", "learning-rate": 0.1}}
"""What an algorithm cannot be without."""

TREES = ("decision-tree", "xgboost", OWN_CLASS)


class OwnTree(DecisionTreeClassifier):
    """A classifier of somebody's own."""


def small_network(num_classes: int, num_features: int, width: int = 6) -> Any:
    """A network of one hidden layer."""
    from torch import nn

    return nn.Sequential(nn.Linear(num_features, width), nn.ReLU(), nn.Linear(width, num_classes))


def config_of(**settings: Any) -> RunConfig:
    least = {"study": "s", "data": "heart-disease"}
    return RunConfig.from_flower({**least, **{key.replace("_", "-"): value for key, value in settings.items()}})


def check(settings: dict[str, Any], **options: Any) -> None:
    """What is done before a simulation with these settings."""
    config = config_of(**settings)
    dataset = datasets.load(config)
    check_run(config, dataset, Subject.simulated(dataset), [silo.name for silo in dataset.silos], **options)


def said_of(settings: dict[str, Any], **options: Any) -> str:
    """The sentence that refuses these settings; empty if they are taken."""
    try:
        check(settings, **options)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def initial_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "network.safetensors"
    config = config_of(learner=NETWORK, seed=9)
    dataset = datasets.load(config)
    network = build_learner(config, dataset, 0, dataset.silos[0].private.X)
    network.save(path)  # type: ignore[attr-defined]
    return str(path)


def probed(base: dict[str, Any], initial_model: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key that the base does not set, with the settings in which it has another value."""
    params = {NETWORK: '{"width": 5}', "ridge": '{"alpha": 2}', LASSO: '{"alpha": 2}'}.get(
        base["learner"], '{"max_depth": 2}'
    )
    for key, value in ANOTHER.items():
        if key not in base:
            found = {"initial-model": initial_model, "learner-params": params}.get(key, value)
            yield key, {**base, **TOGETHER.get(key, {}), key: found}


@pytest.fixture(scope="module", autouse=True)
def fitted_once() -> Iterator[None]:
    """The same columns are preprocessed the same way in thousands of checks: half of the time of these tests."""
    original, known = preprocessing.standard, dict[tuple[Any, bytes, bool], Any]()

    def standard(schema: Schema, *references: Features, texts: bool = False) -> Any:
        key = schema, b"".join(X.tobytes() for X in references), texts
        if key not in known:
            known[key] = original(schema, *references, texts=texts)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preprocessing, "standard", standard)
        yield
