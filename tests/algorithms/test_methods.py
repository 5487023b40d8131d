"""Algorithms as objects: every algorithm has one, with the settings that are its own."""

from typing import Any

import pytest

from fedct_flwr.algorithms import methods
from fedct_flwr.algorithms.checks import check_run
from fedct_flwr.algorithms.table import ALGORITHMS
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.study import Subject
from fedct_flwr.datasets import load

RULES: list[Any] = [methods.DawidSkene(), methods.Plurality(), methods.Qualified(), methods.Agreement()]
METHODS: list[Any] = [
    *map(methods.FedCT, RULES), methods.FedKT(), methods.PATE(), methods.PrivatePATE(), methods.PredictionConsensus(),
    methods.DistributedDistillation(), methods.FedMD(), methods.FedAvg(), methods.FedProx(), methods.Scaffold(),
    methods.FedDyn(), methods.FedDF(), methods.PFNM(), methods.PrivateFedAvg(),
]  # fmt: skip
NAMES = [method.settings()["algorithm"] for method in METHODS]

OF_THE_RUN = {
    "query-size", "pseudo-weight", "protection", "report-scores", "stop-at-fixed-point", "num-server-rounds",
    "save-models", "student", "student-params", "roster", "min-silos", "initial-model", "corruption", "calibration",
}  # fmt: skip
"""Not an algorithm's own: many have them."""


def test_every_algorithm_has_one() -> None:
    assert sorted(NAMES) == sorted(ALGORITHMS)


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_its_settings_are_those_that_the_algorithm_uses(method: Any) -> None:
    settings = method.settings()
    own = ALGORITHMS[settings.pop("algorithm")].settings.keys() - OF_THE_RUN
    assert own <= settings.keys()
    assert settings.keys() <= own | OF_THE_RUN


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_its_defaults_are_the_run_configs(method: Any) -> None:
    defaults = RunConfig.defaults()
    for key, value in method.settings().items():
        assert key == "algorithm" or value == defaults[key]


def test_what_is_set_reaches_the_run_config() -> None:
    method = methods.FedProx(mu=0.5)
    config = RunConfig.from_flower(
        {"study": "a", "data": "heart-disease", "learner": "tests.federation.learners.tiny_network"} | method.settings()
    )
    assert (config.algorithm, config.proximal_mu) == ("fedprox", 0.5)


def test_it_is_checked_as_any_run() -> None:
    config = RunConfig.from_flower({"study": "a", "data": "heart-disease"} | methods.FedCT().settings())
    dataset = load(config)
    silos = [silo.name for silo in dataset.silos]
    assert check_run(config, dataset, Subject.simulated(dataset), silos) is ALGORITHMS["fedct-dawid-skene"]
