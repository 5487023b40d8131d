"""Prediction consensus with strong and weak networks, and how often silos must talk.

D. Fan, C. Mendler-Dünner, M. Jaggi, arXiv:2305.18497, §5.2: Figures 4 (right), 5 and 6, on FashionMNIST. The paper
plots them and gives no figures in the text.
"""

import json
import logging
import time
from collections.abc import Sequence
from statistics import fmean
from typing import Any, Final

from benchmarks import methods, pictures, report
from benchmarks.federation import Runs
from benchmarks.prediction_consensus import CONSENSUS, METHODS, Length, Matrix, measure
from fedct_flwr.config import RunConfig

STRONG: Final = tuple(f"silo-{number}" for number in range(1, 6))
WEAK: Final = tuple(f"silo-{number}" for number in range(6, 11))

_MIXED: Final[dict[str, Any]] = {
    **CONSENSUS,
    "dirichlet-concentration": 1.0,
    "learner": ",".join(["fashion-mnist-mlp"] * len(STRONG) + ["torch.nn.Linear"] * len(WEAK)),
    "learner-params": json.dumps(
        [{"width": 64}] * len(STRONG) + [{"in_features": 784, "out_features": 10}] * len(WEAK)
    ),
}
_ARCHITECTURES: Final = ("local only", "naive", "static", "dynamic")

_EQUAL_STEPS: Final = (Length(25, 5, 40), Length(10, 2, 100), Length(4, 1, 250))
_ANSWERS: Final = (Length(5, 5, 40), Length(8, 5, 40), Length(14, 5, 40), Length(25, 5, 40))
_FAST: Final = (Length(6, 2, 20), Length(2, 1, 60))
_SKEWED: Final[dict[str, Any]] = {**CONSENSUS, "dirichlet-concentration": 1.0}


def architectures(seeds: int | None, fast: bool) -> None:
    """Prediction consensus, Figures 4 and 5: five silos with an MLP, five with a linear model, Dirichlet 1.

    FashionMNIST, 2 seeds of 25 rounds of 40 steps, 6 rounds of 20 if ``fast``.
    """
    logging.getLogger("flwr").setLevel(logging.ERROR)
    methods.one_thread_per_silo()
    seeds, length, start = seeds or 2, _FAST[0] if fast else _EQUAL_STEPS[0], time.perf_counter()
    runs, matrices = Runs(), []
    for seed in range(seeds):
        for name in _ARCHITECTURES:
            found = measure({**_MIXED, **METHODS[name], "seed": seed}, length)
            runs.add(**{f"strong, {name}": found.mean(STRONG), f"weak, {name}": found.mean(WEAK)})
            if name == "dynamic":
                middle = found.trust[len(found.trust) // 2]
                matrices.append(middle)
                runs.add(**{"strong in weak": between(middle, STRONG, WEAK)})
                runs.add(**{"weak in strong": between(middle, WEAK, STRONG)})
    rows = [[who, *(report.cell(runs, f"{who}, {name}") for name in _ARCHITECTURES)] for who in ("strong", "weak")]
    text = (
        f"# Prediction consensus with strong and weak networks: FashionMNIST, Dirichlet 1, {seeds} seeds\n\n"
        "Silos 1 to 5 train an MLP 784-64-64-10, silos 6 to 10 a linear model. "
        f"{length.rounds} rounds of {length.steps} steps, the first {length.warm_up} alone.\n\n"
        + report.table(["Held-out accuracy", *_ARCHITECTURES], rows)
        + f"\nWith dynamic trust, answer {matrices[0].round}, a weak silo gives each strong one "
        f"{runs.mean('weak in strong'):.3f} on average, a strong silo each weak one {runs.mean('strong in weak'):.3f}; "
        "all the same would be .1.\n"
        + pictures.trust_matrices("consensus-architectures", {"dynamic trust, silos 6 to 10 are weak": matrices[0]})
    )
    content = {"Dirichlet 1": runs, "dynamic trust": matrices[0].values()}
    report.write("consensus-architectures", text, content, {**_MIXED, **length._asdict()}, time.perf_counter() - start)


def between(matrix: Matrix, trusting: Sequence[str], trusted: Sequence[str]) -> float:
    """What a silo of the first group gives to one of the second, on average."""
    place = {name: number for number, name in enumerate(matrix.silos)}
    return fmean(matrix.rows[place[one]][place[other]] for one in trusting for other in trusted)


def communication(seeds: int | None, fast: bool) -> None:
    """Prediction consensus, Figure 6: accuracy by how often silos answer, for the same steps and for the same period.

    FashionMNIST, Dirichlet 1, 2 seeds of 1,000 steps, 120 if ``fast``.
    """
    logging.getLogger("flwr").setLevel(logging.ERROR)
    methods.one_thread_per_silo()
    seeds, start = seeds or 2, time.perf_counter()
    compared = ("prediction consensus, dynamic", "FedCT", "FedAvg")
    periods: dict[str, Runs] = {}
    for length in _FAST if fast else _EQUAL_STEPS:
        runs = periods[f"every {length.steps} steps"] = Runs()
        for seed in range(seeds):
            for name, (accuracy, sent) in _sent(length, seed).items():
                runs.add(**{name: accuracy, f"{name}: bytes": sent})
    answers: dict[str, Runs] = {}
    for length in _FAST[:1] if fast else _ANSWERS:
        runs = answers[f"{length.rounds - length.warm_up + 1} answers"] = Runs()
        for seed in range(seeds):
            found = measure({**_SKEWED, **METHODS["dynamic"], "seed": seed}, length)
            asked = length.rounds - length.warm_up + 1
            runs.add(accuracy=fmean(found.accuracy.values()), bytes=asked * found.bytes_per_silo_and_round)
    text = (
        f"# Prediction consensus and communication: FashionMNIST, Dirichlet 1, 10 silos, {seeds} seeds\n\n"
        "Held-out accuracy, and what a silo sends in all; each row trains for the same steps. Warm-up rounds send "
        "nothing. The network is 784-64-64-10.\n\n"
        + report.table(
            ["", *compared], [[row, *(_cell(found, name) for name in compared)] for row, found in periods.items()]
        )
        + "\nDynamic trust, an answer after every 40 steps, more and more of them:\n\n"
        + report.table(
            ["", "held-out accuracy", "bytes a silo sends in all"],
            [[row, report.cell(found, "accuracy"), f"{found.mean('bytes'):,.0f}"] for row, found in answers.items()],
        )
    )
    settings = {**_SKEWED, "periods": [length._asdict() for length in _EQUAL_STEPS]}
    report.write("consensus-communication", text, {**periods, **answers}, settings, time.perf_counter() - start)


def _sent(length: Length, seed: int) -> dict[str, tuple[float, float]]:
    """Accuracy and bytes that a silo sends in all, by method."""
    soft = measure({**_SKEWED, **METHODS["dynamic"], "seed": seed}, length)
    hard = measure({**_SKEWED, **METHODS["hard majority"], "seed": seed}, length)
    config = RunConfig.from_flower({**_SKEWED, **length.settings("fedavg"), "seed": seed})
    shared = methods.METHODS["FedAvg"](config)
    answers = length.rounds - length.warm_up + 1
    return {
        "prediction consensus, dynamic": (fmean(soft.accuracy.values()), answers * soft.bytes_per_silo_and_round),
        "FedCT": (fmean(hard.accuracy.values()), length.rounds * hard.bytes_per_silo_and_round),
        "FedAvg": (shared.accuracy, length.rounds * shared.bytes_per_silo_and_round),
    }


def _cell(runs: Runs, name: str) -> str:
    return f"{report.cell(runs, name)}, {runs.mean(f'{name}: bytes'):,.0f} B"
