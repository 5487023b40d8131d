"""The FedCT paper's experiments with networks: ``experiments.toml`` declares them."""

import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from statistics import fmean
from typing import Any, Final

import numpy as np

from benchmarks.declared import tables
from benchmarks.harness import Settings
from benchmarks.methods import METHODS, SETTINGS, one_thread_per_silo, run_federation
from benchmarks.variants import change
from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.learners.base import Resumable
from fedct_flwr.learners.build import build_learner
from fedct_flwr.scoring import accuracy
from fedct_flwr.silo.simulated import simulated_site
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE


def config_of(settings: Settings) -> RunConfig:
    """The settings of a run; ``steps`` in all give its rounds."""
    given = {key: value for key, value in settings.items() if key != "steps"}
    if "steps" in settings:
        given["num-server-rounds"] = max(1, settings["steps"] // settings.get("local-steps", 50))
    return RunConfig.from_flower(given)


def _with(method: str, settings: Settings) -> Mapping[str, float]:
    one_thread_per_silo()
    return METHODS[method](config_of(settings))._asdict()


def _log(config: RunConfig) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as temporary:
        rounds, _ = run_federation(change(config, run_dir=f"{temporary}/run"))
    simulated_site.cache_clear()
    return rounds


def _alone(config: RunConfig) -> Iterator[float]:
    """Mean accuracy after each round's steps where silos never communicate."""
    dataset = datasets.load(config)
    learners = [build_learner(config, dataset, n, silo.private.X) for n, silo in enumerate(dataset.silos)]
    unlabeled = np.full(len(dataset.public), ABSTAIN, dtype=LABEL_DTYPE)
    for _ in range(config.num_server_rounds):
        for learner, silo in zip(learners, dataset.silos, strict=True):
            assert isinstance(learner, Resumable)
            learner.advance(silo.private, dataset.public.X, unlabeled, 1.0)
        yield fmean(accuracy(learner, dataset.test) for learner in learners)


def _curves(settings: Settings) -> dict[str, float]:
    """Accuracy of silos' models in FedCT and their spread, of FedAvg's, and alone, after each round."""
    one_thread_per_silo()
    config = config_of({**settings, "report-scores": True})
    log = _log(config)
    averaged = change(config, algorithm="fedavg", warm_up_rounds="auto", query_size=0)
    curves = {
        "local only": list(_alone(config)),
        "FedCT": [fmean(silo["scores"]["pooled_accuracy"] for silo in entry["silos"].values()) for entry in log],
        "spread of FedCT": [entry["accuracy_spread"] for entry in log],
        # Before anything was labeled there is none to change.
        "churn": [entry["churn"] or 0.0 for entry in log],
        "FedAvg": [entry["scores"]["accuracy"] for entry in _log(averaged)],
    }
    return {f"{name}, {number}": value for name, curve in curves.items() for number, value in enumerate(curve, 1)}


TABLES: Final = tables(
    __file__, {"": _curves, **{name: partial(_with, name) for name in METHODS}}, {"network": SETTINGS}
)
