"""Ways to train the same networks on the same data for as many steps; ``methods.toml`` has FedCT's tables of them."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.declared import tables
from benchmarks.harness import Settings
from benchmarks.pfnm import matched
from benchmarks.variants import change, config_of
from client_app.main import app as client_app
from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.evaluation.references import centralized
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.learners import Resumable, Saveable
from fedct_flwr.learners.build import build_learner
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring import accuracy
from fedct_flwr.silo.simulated import simulated_site
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE
from server_app.main import app as server_app

PAPERS_NETWORK: Final[dict[str, Any]] = {
    "data": "fashion-mnist", "learner": "mlp", "learner-params": '{"width": 512}', "preprocessing": "none",
    "device": "cpu",
}  # fmt: skip
SETTINGS: Final[dict[str, Any]] = {
    **PAPERS_NETWORK, "study": "benchmark", "algorithm": "fedct", "save-models": False, "warm-up-rounds": 1,
}  # fmt: skip
"""The paper's network, optimizer and period b = 50; a public set above 5,000 is asked about in random subsets."""

WORKERS: Final = 2


class Measured(NamedTuple):
    """Accuracy on the pooled test set (mean over the silos' models), and cost."""

    accuracy: float
    bytes_per_silo_and_round: float
    seconds: float


def one_thread_per_silo() -> None:
    """As silos' processes have; threads of several silos on the same cores only wait for each other."""
    import torch  # not at the top: other experiments need no network, and torch may not be there

    torch.set_num_threads(1)


def run_federation(config: RunConfig) -> tuple[list[dict[str, Any]], float]:
    """Run on the loopback; returns the round log, and seconds without reading the data."""
    silos = len(datasets.load(config).silos)
    start = time.perf_counter()
    run_loopback(server_app, client_app, config.to_flower(), simulated_nodes(silos), workers=WORKERS)
    seconds = time.perf_counter() - start
    return RunFolder(Path(config.run_dir)).rounds(), seconds


def _cotrained(algorithm: str, config: RunConfig) -> Measured:
    with tempfile.TemporaryDirectory() as temporary:
        config = change(config, algorithm=algorithm, run_dir=f"{temporary}/run")
        rounds, seconds = run_federation(config)
        dataset = datasets.load(config)
        # The silos' sites, as they are after the last round: scores on replies would take time and bytes.
        sites = [simulated_site(config, position) for position in range(len(dataset.silos))]
        reached = fmean(accuracy(site.learner, dataset.test) for site in sites)
    simulated_site.cache_clear()
    return Measured(reached, _bytes(rounds), seconds)


def _averaged(algorithm: str, config: RunConfig, **settings: Any) -> Measured:
    with tempfile.TemporaryDirectory() as temporary:
        unused = {"pseudo_weight": "auto", "warm_up_rounds": "auto", "query_size": 0}
        config = change(config, algorithm=algorithm, run_dir=f"{temporary}/run", save_models=True, **unused, **settings)
        rounds, seconds = run_federation(config)
        dataset = datasets.load(config)
        model = build_learner(config, dataset, 0, dataset.silos[0].private.X)
        assert isinstance(model, Saveable)
        kept = Path(config.run_dir) / "models" / f"global{model.suffix}"
        reached = accuracy(model.load(kept), dataset.test)
    simulated_site.cache_clear()
    return Measured(reached, _bytes(rounds), seconds)


def _alone(config: RunConfig) -> Measured:
    dataset = datasets.load(config)

    def train(position: int) -> float:
        private = dataset.silos[position].private
        return accuracy(build_learner(config, dataset, position, private.X).fit(*private), dataset.test)

    start = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as threads:
        reached = fmean(threads.map(train, range(len(dataset.silos))))
    return Measured(reached, 0.0, time.perf_counter() - start)


def _matched(gamma: float, config: RunConfig) -> Measured:
    start = time.perf_counter()
    return Measured(*matched(config, gamma), time.perf_counter() - start)


def _centralized(config: RunConfig) -> Measured:
    dataset = datasets.load(config)
    start = time.perf_counter()
    reached = accuracy(centralized(config, dataset, 0), dataset.test)
    return Measured(reached, 0.0, time.perf_counter() - start)


def _bytes(rounds: list[dict[str, Any]]) -> float:
    return fmean(entry["bytes_sent"] / len(entry["silos"]) for entry in rounds)


METHODS: Final[dict[str, Callable[..., Measured]]] = {
    "local only": _alone,
    "FedCT": partial(_cotrained, "fedct"),
    "FedCT (shares)": partial(_cotrained, "fedct-shares"),
    "FedCT (QM)": partial(_cotrained, "fedct-qualified"),
    "FedCT (DS)": partial(_cotrained, "fedct-dawid-skene"),
    "FedAvg": partial(_averaged, "fedavg"),
    "FedProx .1": partial(_averaged, "fedprox", proximal_mu=0.1),
    "FedProx 1": partial(_averaged, "fedprox", proximal_mu=1.0),
    "SCAFFOLD": partial(_averaged, "scaffold"),
    "FedDyn": partial(_averaged, "feddyn"),
    "FedDF": partial(_averaged, "feddf"),
    "PFNM": partial(_matched, 1.0),
    "PFNM, gamma 50": partial(_matched, 50.0),
    "centralized": _centralized,
}
"""QM: qualified majority, with the paper's quorum of 0.9. Shares: of votes, as soft targets.
DS: Dawid-Skene. After FedProx stands mu."""


def _with(method: str, settings: Settings) -> Mapping[str, float]:
    one_thread_per_silo()
    return METHODS[method](config_of(settings))._asdict()


def _log(config: RunConfig) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as temporary:
        rounds, _ = run_federation(change(config, run_dir=f"{temporary}/run"))
    simulated_site.cache_clear()
    return rounds


def _course_alone(config: RunConfig) -> Iterator[float]:
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
        "local only": list(_course_alone(config)),
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
