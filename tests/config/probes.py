"""Settings of runs, and what is said of them before one."""

import tomllib
from pathlib import Path
from typing import Any

from fedct_flwr import datasets
from fedct_flwr.algorithms.checks import check_run
from fedct_flwr.config.run import RunConfig
from fedct_flwr.coordinator.study import Subject
from fedct_flwr.types import ConfigError

ROOT = Path(__file__).parents[2]
APP_CONFIG: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["flwr"]["app"][
    "config"
]

NETWORK = "tests.config.probes.small_network"


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
