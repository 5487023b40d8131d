"""FedMD's scenario: silos that know one subclass of each superclass, and no two kinds of network alike.

D. Li, J. Wang, "FedMD: Heterogenous federated learning via model distillation", arXiv:1910.03581, on FashionMNIST's
kinds of clothes in place of CIFAR-100's superclasses. Silos tell tops, trousers, dresses, shoes and bags apart; where
they differ, each has seen one of four kinds of tops and one of three kinds of shoes.
"""

import json
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from benchmarks import report
from benchmarks.federation import Runs
from benchmarks.methods import SETTINGS, one_thread_per_silo
from benchmarks.prediction_consensus import ALONE, Length, Measured, measure
from fedct_flwr import datasets
from fedct_flwr.baselines.references import centralized
from fedct_flwr.config import RunConfig
from fedct_flwr.scoring import accuracy
from fedct_flwr.types import SiloName

_CNN: Final = "benchmarks.fedmd_networks.cnn"
_MLP: Final = "fashion-mnist-mlp"

ARCHITECTURES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "CNN of 3 layers": (_CNN, {"channels": [8, 16, 32]}),
    "CNN of 2 layers": (_CNN, {"channels": [8, 16]}),
    "MLP 784-128-128-5": (_MLP, {"width": 128}),
    "MLP 784-32-32-5": (_MLP, {"width": 32}),
    "linear": ("torch.nn.Linear", {"in_features": 784, "out_features": 5}),
}
"""Two silos of each: silo 1 and 6 the first, silo 2 and 7 the second."""

_TWICE: Final = [*ARCHITECTURES.values()] * 2

SCENARIO: Final[dict[str, Any]] = {
    **SETTINGS,
    "learner": ",".join(name for name, _ in _TWICE),
    "learner-params": json.dumps([params for _, params in _TWICE]),
}

SPLITS: Final = {"one subclass of each": "fashion-superclasses", "iid": "fashion-superclasses-iid"}

METHODS: Final[dict[str, dict[str, Any]]] = {
    "local only": {"algorithm": ALONE},
    "FedMD": {"algorithm": "fedmd"},
    "DD": {"algorithm": "dd"},
    "FedCT": {"algorithm": "fedct"},
    "prediction consensus, dynamic": {"algorithm": "prediction-consensus", "trust": "dynamic"},
}
CENTRALIZED: Final = "centralized"
_COLUMNS: Final = (*METHODS, CENTRALIZED)

# 13 answers: as many rounds as the configuration for CIFAR-100 in what passes for the authors' code has.
LENGTH: Final = Length(rounds=17, warm_up=5, steps=40)
FAST: Final = Length(rounds=6, warm_up=2, steps=15)


def run(seeds: int | None, fast: bool) -> None:
    """FedMD's superclasses with five kinds of network: FedMD, DD, FedCT, prediction consensus, alone, pooled.

    FashionMNIST, 2 seeds of 17 rounds of 40 steps, 6 rounds of 15 if ``fast``.
    """
    logging.getLogger("flwr").setLevel(logging.ERROR)
    one_thread_per_silo()
    seeds, length, start = seeds or 2, FAST if fast else LENGTH, time.perf_counter()
    runs = {split: compare(data, length, seeds) for split, data in SPLITS.items()}
    text = (
        f"# FedMD's scenario: FashionMNIST's superclasses, 10 silos, five kinds of network, {seeds} seeds\n\n"
        f"{_about(length)}\n"
        + report.table(
            ["Held-out accuracy", *_COLUMNS],
            [[split, *(report.cell(found, name) for name in _COLUMNS)] for split, found in runs.items()]
            + [["bytes a silo sends in a round", *(_bytes(runs, name) for name in _COLUMNS)]],
        )
        + "".join(f"\nBy network, {split}:\n\n{_by_architecture(found)}" for split, found in runs.items())
    )
    settings = {**SCENARIO, **length._asdict(), "splits": SPLITS, "methods": METHODS}
    report.write("fedmd", text, runs, settings, time.perf_counter() - start)


def _about(length: Length) -> str:
    return (
        "3,000 private records in all, 5,000 public examples, Adam with rate .001. Five superclasses: tops (four "
        "subclasses), shoes (three), trousers, dresses, bags. Each silo has one subclass of tops and one of shoes, or "
        "all of them (iid); all are tested on all. A constant has .4. Mean over the silos' models, and over the seeds "
        f"± standard error. {length.rounds} rounds of {length.steps} steps; silos that share probabilities train "
        f"alone for the first {length.warm_up}. FedMD's take as many steps on the public set besides. FedCT is by "
        "majority. Centralized: each network for as many steps on all private records.\n"
    )


def compare(data: str, length: Length, seeds: int) -> Runs:
    """Accuracy by method and by method and architecture, bytes and seconds; one value for each seed."""
    runs = Runs()
    for seed in range(seeds):
        settings = {**SCENARIO, "data": data, "seed": seed}
        for name, method in METHODS.items():
            found = measure({**settings, **method}, length)
            _add(runs, name, found.accuracy)
            runs.add(**_costs(name, found))
            print(f"{data}, seed {seed}, {name}: {runs.values[name][-1]:.3f}", file=sys.stderr, flush=True)
        start = time.perf_counter()
        _add(runs, CENTRALIZED, _pooled(settings, length))
        runs.add(**{f"{CENTRALIZED}: seconds": time.perf_counter() - start})
    return runs


def _costs(name: str, found: Measured) -> dict[str, float]:
    return {f"{name}: bytes": found.bytes_per_silo_and_round, f"{name}: seconds": found.seconds}


def _pooled(settings: Mapping[str, Any], length: Length) -> dict[SiloName, float]:
    """Accuracy of each architecture's network, trained on all private records, under the name of a silo that has it."""
    config = RunConfig.from_flower({**settings, **length.settings(ALONE)})
    dataset = datasets.load(config)
    return {
        dataset.silos[position].name: accuracy(centralized(config, dataset, position), dataset.test)
        for position in range(len(ARCHITECTURES))
    }


def _add(runs: Runs, name: str, reached: Mapping[SiloName, float]) -> None:
    runs.add(**{name: fmean(reached.values())})
    for number, architecture in enumerate(ARCHITECTURES, start=1):
        theirs = [reached[silo] for silo in _silos_with(number) if silo in reached]
        runs.add(**{f"{name}, {architecture}": fmean(theirs)})


def _silos_with(number: int) -> Sequence[SiloName]:
    return [f"silo-{silo}" for silo in range(number, len(_TWICE) + 1, len(ARCHITECTURES))]


def _bytes(runs: Mapping[str, Runs], name: str) -> str:
    if name in ("local only", CENTRALIZED):
        return "-"
    return f"{fmean(found.mean(f'{name}: bytes') for found in runs.values()):,.0f}"


def _by_architecture(found: Runs) -> str:
    rows = [
        [architecture, *(report.cell(found, f"{name}, {architecture}") for name in _COLUMNS)]
        for architecture in ARCHITECTURES
    ]
    return report.table(["", *_COLUMNS], rows)
