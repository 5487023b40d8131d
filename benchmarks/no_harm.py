"""No silo worse off: each alone, co-trained with plain trust, and with the guard, over real and made sites.

Judged as the promise is worded: by learner and data set, the mean of silos' own-test scores is not more than a standard
error below alone, few silos are significantly worse, and the gain of plain co-training is kept.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np

import fedct_flwr
from benchmarks import report
from benchmarks.federation import Runs
from benchmarks.no_harm_rows import ROWS
from fedct_flwr.datasets import LOADERS

LEARNERS: Final = ("logistic-regression", "random-forest", "hist-gradient-boosting", "auto")
TRUST: Final = {"plain": 1.0, "guarded": "auto"}
_FAST: Final = ("heart-disease", "few-adult-by-workclass", "sites-prevalence", "sites-tiny")
_DEFAULT_SEEDS: Final = 5
_ONLY: Final = "NO_HARM_ROWS"
"""Environment variable: names of data sets with commas, in place of all."""


class Silo(NamedTuple):
    """One silo in one run, balanced accuracies."""

    alone: float
    together: float
    pooled_alone: float
    pooled_together: float
    central: float
    lost: bool
    judged: bool


def run(seeds: int | None, fast: bool) -> None:
    """Whether any silo is worse off: silos alone, co-trained, guarded, over real and made sites; 5 seeds."""
    seeds = seeds or _DEFAULT_SEEDS
    LOADERS.update(ROWS)
    asked = tuple(filter(None, os.environ.get(_ONLY, "").split(",")))
    names = asked or (_FAST if fast else ("heart-disease", *ROWS))
    start = time.perf_counter()
    runs: dict[str, Runs] = {}
    found: dict[tuple[str, str, str], list[list[Silo]]] = {}
    for name in names:
        for learner in LEARNERS:
            for trust, weight in TRUST.items():
                began = time.process_time()
                values = runs.setdefault(f"{name}, {learner}, {trust}", Runs())
                by_seed = [list(_silos(name, learner, weight, seed)) for seed in range(seeds)]
                found[name, learner, trust] = by_seed
                for silos in by_seed:
                    values.add(**_means(silos))
                values.add(cpu_seconds=time.process_time() - began)
                own = f"{values.mean('alone'):.3f} alone, {values.mean('together'):.3f} together"
                print(f"{name}, {learner}, {trust}: own test {own}", flush=True)
    text = f"# No silo worse off, {seeds} seeds\n\n{_table(names, runs)}\n{_criteria(names, found)}"
    settings = {"rows": names, "learners": LEARNERS, "trust": list(TRUST), "seeds": seeds}
    report.write("no-harm", text, runs, settings, time.perf_counter() - start)


def _silos(name: str, learner: str, weight: float | str, seed: int) -> Iterator[Silo]:
    with tempfile.TemporaryDirectory() as temporary:
        run = fedct_flwr.simulate(
            name, learner=learner, pseudo_weight=weight, seed=seed, progress=False, run_dir=Path(temporary) / "run"
        )
        for row in run.rows:
            judged = row.verdict is not None
            lost = row.verdict is not None and row.verdict.word == "lost"
            yield Silo(
                row.own["local"], row.own["federated"], row.pooled["local"], row.pooled["federated"],
                row.own["centralized"], lost, judged,
            )  # fmt: skip


def _means(silos: list[Silo]) -> dict[str, float]:
    names = ("alone", "together", "pooled_alone", "pooled_together", "central")
    means = {name: float(np.nanmean([getattr(silo, name) for silo in silos])) for name in names}
    return {**means, "lost": fmean(silo.lost for silo in silos)}


def _table(names: tuple[str, ...], runs: dict[str, Runs]) -> str:
    header = ["own test / pooled test", "learner", "alone", "plain", "guarded", "pooled data", "CPU s plain, guarded"]
    rows = []
    for name in names:
        for learner in LEARNERS:
            plain, guarded = (runs[f"{name}, {learner}, {trust}"] for trust in TRUST)
            both = [f"{run.mean('together'):.3f} / {run.mean('pooled_together'):.3f}" for run in (plain, guarded)]
            alone = f"{plain.mean('alone'):.3f} / {plain.mean('pooled_alone'):.3f}"
            seconds = ", ".join(f"{run.values['cpu_seconds'][0]:.0f}" for run in (plain, guarded))
            rows.append([name, learner, alone, *both, f"{plain.mean('central'):.3f}", seconds])
    return report.table(header, rows)


def _criteria(names: tuple[str, ...], found: dict[tuple[str, str, str], list[list[Silo]]]) -> str:
    rows = []
    for learner in LEARNERS:
        cells = [learner]
        for trust in TRUST:
            differences = {name: _differences(found[name, learner, trust]) for name in names}
            below = [name for name, each in differences.items() if each.mean() < -_error(each)]
            every = [silo for name in names for silos in found[name, learner, trust] for silo in silos if silo.judged]
            lost = fmean(silo.lost for silo in every) if every else 0.0
            cells += [", ".join(below) or "none", f"{lost:.1%}"]
        gains = [np.mean([_differences(found[name, learner, trust]).mean() for name in names]) for trust in TRUST]
        rows.append([*cells, f"{gains[0]:+.4f}, {gains[1]:+.4f}"])
    header = [
        "learner", "plain: more than an error below alone", "plain: silos that lost", "guarded: below",
        "guarded: silos that lost", "mean gain on own test: plain, guarded",
    ]  # fmt: skip
    return report.table(header, rows)


def _differences(by_seed: list[list[Silo]]) -> np.ndarray:
    """Own test, together less alone: the mean over silos of each seed."""
    return np.array([np.nanmean([silo.together - silo.alone for silo in silos]) for silos in by_seed])


def _error(each: np.ndarray) -> float:
    return float(each.std(ddof=1) / np.sqrt(len(each))) if len(each) > 1 else 0.0
