"""Prediction consensus with naive, static and dynamic trust, beside hard labels and training alone.

D. Fan, C. Mendler-Dünner, M. Jaggi, arXiv:2305.18497, Table 1, on FashionMNIST in place of CIFAR10. Accuracy is that of
the good silos' models on held-out data; the paper measures it on the public set, which the silos have learned from.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

from benchmarks import report
from benchmarks.federation import Runs
from benchmarks.methods import SETTINGS, one_thread_per_silo, run_federation
from benchmarks.variants import change
from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.evaluation.references import local_only
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring import accuracy
from fedct_flwr.silo.simulated import simulated_site
from fedct_flwr.types import SiloName

BAD: Final = "silo-2,silo-9"

CONSENSUS: Final[dict[str, Any]] = {
    **SETTINGS,
    "num-silos": 10,
    "private-size": 10_000,
    "public-size": 1000,
    "partition": "dirichlet-by-silo",
    "learner-params": '{"width": 64}',
    "learning-rate": 0.005,
}

ALONE: Final = "alone"
"""In the place of an algorithm: none."""

METHODS: Final[dict[str, dict[str, Any]]] = {
    "local only": {"algorithm": ALONE},
    "naive": {"algorithm": "prediction-consensus", "trust": "naive"},
    "hard majority": {"algorithm": "fedct"},
    "static": {"algorithm": "prediction-consensus", "trust": "static"},
    "dynamic": {"algorithm": "prediction-consensus", "trust": "dynamic"},
}

_BAD: Final = {"bad-silos": BAD, "corruption": "label-shift"}
SCENARIOS: Final[dict[str, dict[str, Any]]] = {
    f"Dirichlet {concentration:g}{name}": {"dirichlet-concentration": concentration, **settings}
    for name, settings in {
        ", silos 2 and 9 bad": _BAD,
        "": {},
        " by class, silos 2 and 9 bad": {**_BAD, "partition": "dirichlet"},
    }.items()
    for concentration in (0.1, 1.0)
}
_PAPER: Final = {
    "CIFAR10 in the paper, regular": ("0.475", "0.618", "-", "0.604", "0.612"),
    "CIFAR10 in the paper, silos 2 and 9 bad": ("0.470", "0.596", "-", "0.605", "0.608"),
}


class Length(NamedTuple):
    """``rounds`` of ``steps`` minibatches each; a silo's first answer comes after ``warm_up`` of them."""

    rounds: int
    warm_up: int
    steps: int

    def settings(self, algorithm: str) -> dict[str, Any]:
        """Of the run config."""
        rounds = self.rounds - (0 if algorithm == ALONE else self.warm_up - 1)
        return {"local-steps": self.steps, "num-server-rounds": rounds, "warm-up-rounds": self.warm_up}


class Measured(NamedTuple):
    """Held-out accuracy of each silo's model, and what it cost; whom silos trusted: a run's lines, one a round."""

    accuracy: dict[SiloName, float]
    bytes_per_silo_and_round: float
    seconds: float
    trust: list[dict[str, Any]]


LENGTH: Final = Length(rounds=25, warm_up=5, steps=80)
FAST: Final = Length(rounds=20, warm_up=5, steps=80)
"""Shorter rounds, or fewer, are over before trust has made the difference that it makes in the end."""


def run(seeds: int | None, fast: bool) -> None:
    """Prediction consensus, Table 1: naive, static, dynamic trust, hard labels, alone; regular and with bad silos.

    FashionMNIST, 2 seeds of 25 rounds of 80 steps, which are five epochs of a silo's 1,000 records; about 30 minutes.
    Rows are written as they come. ``fast``: the first two rows, 20 rounds; about 5 minutes.
    """
    one_thread_per_silo()
    seeds, length = seeds or 2, FAST if fast else LENGTH
    runs: dict[str, Runs] = {}
    for name, settings in SCENARIOS.items():
        if fast and ("bad-silos" not in settings or "partition" in settings):
            continue
        runs[name] = compare({**CONSENSUS, **settings}, length, seeds)
        _write(runs, length, seeds)


def _write(runs: dict[str, Runs], length: Length, seeds: int) -> None:
    rows = [[name, *(report.cell(found, method) for method in METHODS), gain(found)] for name, found in runs.items()]
    rows += [[name, *figures, "-"] for name, figures in _PAPER.items()]
    text = (
        f"# Prediction consensus, Table 1: FashionMNIST, 10 silos, {length.rounds} rounds of {length.steps} steps, "
        f"{seeds} seeds\n\n{_ABOUT}\n"
        + report.table(["Held-out accuracy of the good silos", *METHODS, "gain by trust"], rows)
        + "\n"
        + _about_trust(runs)
    )
    settings = {**CONSENSUS, **length._asdict(), "scenarios": SCENARIOS, "methods": METHODS}
    report.write("consensus-table1", text, runs, settings)


_ABOUT: Final = (
    "10,000 private records in all, 1,000 public examples, an MLP 784-64-64-10, Adam with rate .005; lambda .5. Silos "
    "have 1,000 records each, and each draws its classes by itself (Hsu et al., arXiv:1909.06335); in the rows by "
    "class each class is divided by a draw, so that silos have from tens to thousands of records. The labels of bad "
    "silos are shifted by one class. Hard majority is FedCT: labels in place of probabilities. "
    "Gain by trust: the better of static and dynamic minus naive, in points. The paper's accuracy is that on the "
    "public set, of a ResNet20, after 50 rounds of 5 epochs, with the one skew that it has.\n"
)


def compare(settings: dict[str, Any], length: Length, seeds: int) -> Runs:
    """Accuracy of the good silos by method, and what the bad ones are given, in the first and last round."""
    runs = Runs()
    bad = settings.get("bad-silos", "").split(",")
    for seed in range(seeds):
        for name, method in METHODS.items():
            found = measure({**settings, **method, "seed": seed}, length)
            reached = fmean(accuracy for silo, accuracy in found.accuracy.items() if silo not in bad)
            print(f"seed {seed}, {name}: {reached:.3f} in {found.seconds:.0f} s", file=sys.stderr, flush=True)
            runs.add(**{name: reached})
            runs.add(**{f"{name}: seconds": found.seconds, f"{name}: bytes": found.bytes_per_silo_and_round})
            if found.trust and "bad-silos" in settings:
                first, last = (_given(found.trust[place], bad) for place in (0, -1))
                runs.add(**{f"{name}: trust in bad, first": first, f"{name}: trust in bad, last": last})
    return runs


def gain(runs: Runs) -> str:
    """Gain of trust over naive averaging, in points."""
    best = max(runs.mean("static"), runs.mean("dynamic"))
    return f"{100 * (best - runs.mean('naive')):+.1f}"


def measure(settings: dict[str, Any], length: Length) -> Measured:
    """A run of ``settings`` on the loopback; with ``ALONE`` as algorithm each silo trains alone for as many steps."""
    algorithm = settings["algorithm"]
    # Training alone is no algorithm of a run.
    own = {key: value for key, value in settings.items() if value != ALONE}
    config = RunConfig.from_flower({**own, **length.settings(algorithm)})
    dataset = datasets.load(config)
    start = time.perf_counter()
    if algorithm == ALONE:
        models = [local_only(config, dataset, place) for place in range(len(dataset.silos))]
        sent, seconds, trust = 0.0, time.perf_counter() - start, []
    else:
        with tempfile.TemporaryDirectory() as temporary:
            config = change(config, run_dir=f"{temporary}/run")
            rounds, seconds = run_federation(config)
            models = [simulated_site(config, place).learner for place in range(len(dataset.silos))]
            trust = RunFolder(Path(config.run_dir)).trust()
        simulated_site.cache_clear()
        sent = fmean(entry["bytes_sent"] / len(entry["silos"]) for entry in rounds)
    reached = {silo.name: accuracy(model, dataset.test) for silo, model in zip(dataset.silos, models, strict=True)}
    return Measured(reached, sent, seconds, trust)


def _given(line: dict[str, Any], silos: Sequence[SiloName]) -> float:
    """The sum of what all give to one of these silos, on average; 1 if all count the same."""
    columns = zip(line["silos"], zip(*line["matrix"], strict=True), strict=True)
    return fmean(sum(column) for name, column in columns if name in silos)


def _about_trust(runs: dict[str, Runs]) -> str:
    """How much say bad silos have at first and in the end."""
    rows = [
        [f"{name}, {method}", *(f"{found.mean(f'{method}: trust in bad, {when}'):.2f}" for when in ("first", "last"))]
        for name, found in runs.items()
        for method in ("static", "dynamic")
        if f"{method}: trust in bad, first" in found.values
    ]
    return (
        "What all silos together give to a bad one (its column's sum in the trust matrix; 1 is the average):\n\n"
        + report.table(["", "after warm-up", "in the last round"], rows)
    )
