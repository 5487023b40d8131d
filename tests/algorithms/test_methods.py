"""Algorithms as objects: every algorithm is a class with its own settings, which nothing outside its file names."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fedct_flwr
from fedct_flwr.algorithms.checks import check_run
from fedct_flwr.algorithms.table import ALGORITHMS, DEFAULT
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.algorithm import Algorithm
from fedct_flwr.coordinator.study import Subject
from fedct_flwr.datasets import load
from fedct_flwr.types import ConfigError

ROOT = Path(__file__).parents[2]
LEAST = {"study": "a", "data": "heart-disease"}

every_algorithm = pytest.mark.parametrize("algorithm", list(ALGORITHMS.values()), ids=list(ALGORITHMS))


@every_algorithm
def test_its_settings_are_those_of_the_run_config_by_default(algorithm: type[Algorithm]) -> None:
    settings = algorithm().settings()
    assert settings == {**{key: RunConfig.defaults()[key] for key in settings}, "algorithm": algorithm.name}
    assert settings.keys() == {"algorithm", *algorithm.own()}
    assert RunConfig.from_flower(LEAST | settings).method == algorithm()


@every_algorithm
def test_a_key_of_several_algorithms_has_one_default(algorithm: type[Algorithm]) -> None:
    # Flower's run config lists it once.
    for key, value in algorithm.defaults().items():
        assert all(value == other.defaults().get(key, value) for other in ALGORITHMS.values())


@every_algorithm
def test_a_setting_of_another_algorithm_is_refused_and_named(algorithm: type[Algorithm]) -> None:
    of_run = RunConfig.model_fields.keys()
    for other in ALGORITHMS.values():
        for key, field in other.own().items():
            if key not in algorithm.own() and key.replace("-", "_") not in of_run:
                value = getattr(other(), field)
                settings = {**LEAST, "algorithm": algorithm.name, key: value or 1}
                if value:
                    # Flower gives the defaults of all of them.
                    assert RunConfig.from_flower(settings).method == algorithm()
                    settings[key] = "another"
                said = algorithm.refused.get(key, f"{key} has no effect on algorithm '{algorithm.name}'")
                with pytest.raises(ConfigError, match=f"^{re.escape(said)}"):
                    RunConfig.from_flower(settings)


def test_what_is_set_reaches_the_method_and_comes_back() -> None:
    method = fedct_flwr.FedProx(mu=0.5)
    config = RunConfig.from_flower({**LEAST, "learner": "tests.federation.learners.tiny_network"} | method.settings())
    assert (config.algorithm, config.method) == ("fedprox", method)
    assert config.to_flower()["proximal-mu"] == 0.5
    assert config.to_flower()["quorum"] == RunConfig.defaults()["quorum"]


def test_it_is_checked_as_any_run() -> None:
    config = RunConfig.from_flower(LEAST | fedct_flwr.FedCT().settings())
    dataset = load(config)
    silos = [silo.name for silo in dataset.silos]
    assert check_run(config, dataset, Subject.simulated(dataset), silos) == ALGORITHMS[DEFAULT]()


# --- nothing outside its file asks for an algorithm by its name


def comparisons(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Texts that something is compared with, or that a case or a mapping goes by."""
    for node in ast.walk(tree):
        compared: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            compared = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            compared = [node.value]
        elif isinstance(node, ast.Set | ast.Dict):
            compared = [node]
        for part in compared:
            keys: list[Any] = part.keys if isinstance(part, ast.Dict) else [part]
            for inner in (inner for key in keys if key for inner in ast.walk(key)):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    yield inner.lineno, inner.value


def test_the_search_finds_a_branch() -> None:
    planted = 'if name == "pate" or name in {"fedkt"}: pass\nx = {"dd": 1}\ny = "fedmd"'
    assert {text for _, text in comparisons(ast.parse(planted))} == {"pate", "fedkt", "dd"}


def test_no_branch_asks_for_an_algorithm_by_its_name() -> None:
    own = {Path(inspect.getfile(algorithm)) for algorithm in ALGORITHMS.values()}
    files = [path for part in ("fedct_flwr", "server_app", "client_app") for path in (ROOT / part).rglob("*.py")]
    found = [
        (path.relative_to(ROOT), line, text)
        for path in files
        if path not in own
        for line, text in comparisons(ast.parse(path.read_text("utf-8")))
        if text in ALGORITHMS
    ]
    assert found == []
