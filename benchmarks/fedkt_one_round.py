"""What one round gives: FedKT beside five algorithms that share weights, on the same parties and network.

Li, He, Song, "Practical one-shot federated learning for cross-silo setting" (FedKT), IJCAI 2021, Table 1.
"""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from benchmarks import methods, report
from benchmarks.federation import Runs
from benchmarks.fedkt import METHODS as FEDKT
from benchmarks.fedkt import clothes, configs, sharing_weights
from fedct_flwr.config import RunConfig

EPOCHS: Final = 10
"""Local ones of what shares weights: the paper's, FedAvg's best number."""
_SGD: Final[dict[str, Any]] = {"optimizer": "sgd", "learning_rate": 0.1}


def shared(method: str, config: RunConfig, **settings: Any) -> dict[str, float]:
    """The global model of one round in which weights are shared."""
    return {"accuracy": methods.METHODS[method](sharing_weights(config, EPOCHS), **settings).accuracy}


def feddf(config: RunConfig) -> dict[str, float]:
    """It distills for as many steps as FedKT's final model takes on the same public examples."""
    steps = max(1, config.epochs * config.public_size // config.batch_size)
    return shared("FedDF", config, distillation_steps=steps)


METHODS: Final[dict[str, Callable[[RunConfig], dict[str, float]]]] = {
    "FedKT": FEDKT["FedKT"],
    "SOLO": FEDKT["SOLO"],
    "FedAvg": FEDKT["FedAvg"],
    "FedProx": partial(shared, "FedProx .1"),
    "FedAvg, SGD": partial(shared, "FedAvg", **_SGD),
    "SCAFFOLD, SGD": partial(shared, "SCAFFOLD", **_SGD),
    "FedDF": feddf,
    "PFNM": partial(shared, "PFNM"),
    "PFNM, gamma 50": partial(shared, "PFNM", pfnm_gamma=50.0),
    "PATE": FEDKT["PATE"],
}
PAPER: Final = {
    "FedKT": "90.5",
    "SOLO": "69.0",
    "FedAvg": "62.8",
    "FedProx": "44.3",
    "SCAFFOLD, SGD": "51.7",
    "FedDF": "83.8",
    "PFNM": "65.9",
    "PATE": "92.7",
}
"""On MNIST, in percent. The paper says of all of them that they use Adam."""


def run(seeds: int | None, fast: bool) -> None:
    """FedKT's one-round comparison with FedAvg, FedProx, SCAFFOLD, FedDF and PFNM, FashionMNIST, 10 parties."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    methods.one_thread_per_silo()
    start, seeds = time.perf_counter(), seeds or 2
    settings = clothes(10_000, 1_000, 5) if fast else clothes(50_000, 5_000, 20)
    runs = measure(settings, seeds)
    text = (
        f"# One round, FedKT's Table 1 on FashionMNIST: {seeds} seeds\n\nAccuracy on the pooled test set, mean ± "
        f"standard error. 10 parties by Dirichlet(.5), {settings['private-size']:,} private and "
        f"{settings['public-size']:,} public images, a network of two hidden layers of 100. FedKT (s = 2, t = 5), SOLO "
        f"and PATE train for {settings['epochs']} epochs (paper: 100), what shares weights for {EPOCHS} local ones, by "
        "Adam but where SGD (rate .1) stands, which SCAFFOLD needs. FedProx has mu = .1. SOLO: each party alone, mean. "
        "PATE: all records in one place, 10 teachers, no noise. Paper: MNIST, in percent, 5 trials. In one round "
        "SCAFFOLD is FedAvg with the same steps, as control variates begin at zero. With PFNM each party begins "
        "with a network of its own, with the others all with one; its variances are 1, and of its published code's "
        "values for gamma 1 is the default.\n\n"
    )
    rows = [[name, report.cell(runs, name), PAPER.get(name, "-")] for name in METHODS]
    text += report.table(["", "accuracy", "paper"], rows)
    report.write("fedkt-one-round", text, {"FashionMNIST": runs}, settings, time.perf_counter() - start)


def measure(settings: dict[str, Any], seeds: int) -> Runs:
    """Accuracy by method, over the first seeds."""
    runs = Runs()
    for config in configs(settings, seeds):
        runs.add(**{name: method(config)["accuracy"] for name, method in METHODS.items()})
    return runs
