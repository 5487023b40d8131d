"""Accuracy round by round: the silos' models in FedCT and their spread, the global one of FedAvg, silos on their own.

Abourayya et al., arXiv:2310.05696, Figures 2 (CIFAR10, iid) and 3 (FashionMNIST, Dirichlet 100 and 2); and what the
paper's Proposition 1 promises.
"""

import logging
import tempfile
import time
from collections.abc import Iterator
from statistics import fmean
from typing import Any, Final

import numpy as np

from benchmarks import report
from benchmarks.federation import Runs
from benchmarks.methods import SETTINGS, one_thread_per_silo, run_federation
from benchmarks.variants import change, halves
from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.consensus.bounds import convergence_bound
from fedct_flwr.learners.base import Resumable
from fedct_flwr.learners.build import build_learner
from fedct_flwr.scoring import accuracy
from fedct_flwr.silo.site import simulated_site
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE

SPLITS: Final[dict[str, dict[str, Any]]] = {
    "iid, 5 silos": {},
    "Dirichlet 100 and 2, 10 silos": {"data": halves((100.0, 2.0)), "num-silos": 10},
}
CURVES: Final = ("local only", "FedCT", "spread of FedCT", "churn", "FedAvg")
SHOWN: Final = 8


def run(seeds: int | None, fast: bool) -> None:
    """FashionMNIST: accuracy, spread and label churn round by round (Figures 2 and 3).

    Two seeds of 40 rounds (2,000 steps), or 6 rounds if ``fast``; eight rounds are shown, the JSON file has all.
    """
    seeds, rounds = seeds or 2, 6 if fast else 40
    logging.getLogger("flwr").setLevel(logging.ERROR)
    one_thread_per_silo()
    start = time.perf_counter()
    runs = {name: _measure(settings, seeds, rounds) for name, settings in SPLITS.items()}
    text = f"# Convergence of FedCT on FashionMNIST, 50 steps a round, {seeds} seeds\n\n"
    for name, measured in runs.items():
        shown = sorted({int(number) for number in np.linspace(1, rounds, min(SHOWN, rounds)).round()})
        lines = [
            [str(number * 50), *(report.cell(measured, f"{curve}, round {number}") for curve in CURVES)]
            for number in shown
        ]
        text += f"{name}:\n\n" + report.table(["Steps", *CURVES], lines) + "\n"
    text += (
        "Test accuracy, mean ± standard error over the seeds; spread: standard deviation between the silos' models; "
        "churn: share of the public examples asked about again whose consensus label is another one than before.\n\n"
        "Paper: Figures 2 and 3 are plots; its text says that FedCT converges slightly faster than FedAvg, which ends "
        "slightly higher, that the silos agree after about 700 steps on CIFAR10, and that the spread is larger where "
        f"classes differ.\n\n{_promise(rounds)}\n"
    )
    report.write(
        "fedct-convergence",
        text,
        runs,
        {**SETTINGS, "num-server-rounds": rounds, "splits": SPLITS},
        time.perf_counter() - start,
    )


def _promise(rounds: int) -> str:
    bound = convergence_bound(num_silos=5, num_public=50_000, c=1, first_round=rounds)
    says = "which says nothing" if bound.vacuous else "which says something"
    return (
        "Proposition 1 bounds the probability that a consensus label changes after the last of these rounds by "
        f"{bound.value:,.0f} (5 silos, 50,000 public examples, training accuracy 1 - 1/t in round t), {says}."
    )


def _measure(settings: dict[str, Any], seeds: int, rounds: int) -> Runs:
    runs = Runs()
    for seed in range(seeds):
        raw = {**SETTINGS, **settings, "seed": seed, "num-server-rounds": rounds, "report-scores": True}
        config = RunConfig.from_flower(raw)
        curves: dict[str, list[float]] = {"local only": list(_alone(config))}
        log = _rounds(config)
        curves["FedCT"] = [
            fmean(silo["scores"]["pooled_accuracy"] for silo in entry["silos"].values()) for entry in log
        ]
        curves["spread of FedCT"] = [entry["accuracy_spread"] for entry in log]
        # Before anything was labeled there is none to change.
        curves["churn"] = [entry["churn"] or 0.0 for entry in log]
        curves["FedAvg"] = [entry["scores"]["accuracy"] for entry in _rounds(change(config, algorithm="fedavg"))]
        for name, curve in curves.items():
            runs.add(**{f"{name}, round {number}": value for number, value in enumerate(curve, start=1)})
    return runs


def _rounds(config: RunConfig) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as temporary:
        rounds, _, _ = run_federation(change(config, run_dir=f"{temporary}/run"))
    simulated_site.cache_clear()
    return rounds


def _alone(config: RunConfig) -> Iterator[float]:
    """Mean accuracy after each round's steps where silos never communicate."""
    dataset = datasets.load(config)
    learners = [build_learner(config, dataset, i, silo.private.X) for i, silo in enumerate(dataset.silos)]
    unlabeled = np.full(len(dataset.public), ABSTAIN, dtype=LABEL_DTYPE)
    for _ in range(config.num_server_rounds):
        for learner, silo in zip(learners, dataset.silos, strict=True):
            assert isinstance(learner, Resumable)
            learner.advance(silo.private, dataset.public.X, unlabeled, 1.0)
        yield fmean(accuracy(learner, dataset.test) for learner in learners)
