"""The default run on four real hospitals, seed by seed: what somebody gets who sets nothing."""

import time
import warnings
from typing import Any, Final

from sklearn.exceptions import ConvergenceWarning

from benchmarks import report
from benchmarks.federation import Runs, measure
from fedct_flwr.config import RunConfig

SEEDS: Final = 20
OWN: Final = 0.73
POOLED: Final = 0.80
"""Balanced accuracy to reach, on each hospital's own test records and on all."""
_DECIDED: Final = ("algorithm", "learner", "pseudo-weight", "num-server-rounds")
_METHODS: Final = {"alone": "local", "co-trained": "fedct", "pooled data": "central"}


def defaults() -> dict[str, Any]:
    """The settings of a run that sets nothing but its data, of those that the harness would set otherwise."""
    config = RunConfig.from_flower({"study": "benchmark", "data": "heart-disease"}).to_flower()
    return {"data": "heart-disease", **{name: config[name] for name in _DECIDED}}


def run(seeds: int | None, fast: bool) -> None:
    """The default run on four real hospitals: own and pooled test, alone and co-trained; 20 seeds."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    start, seeds = time.perf_counter(), seeds or SEEDS
    settings = defaults()
    found = measure(settings, range(seeds))
    text = (
        f"# Four hospitals, default run, {seeds} seeds\n\nBalanced accuracy, mean over hospitals, then mean ± standard "
        f"error over seeds. Goal: own test at least {OWN}, pooled test at least {POOLED:.2f}.\n\n{_table(found)}\n"
        f"Seconds of all rounds: {found.mean('seconds'):.1f}. Rounds: {found.mean('rounds'):.1f}.\n"
    )
    report.write("default-run", text, {"default": found}, settings, time.perf_counter() - start)


def _table(found: Runs) -> str:
    header = ["test", *_METHODS, "seeds in which co-training is ahead"]
    rows = []
    for test in ("own", "pooled"):
        together, alone = (found.values[f"{method}_balanced_{test}"] for method in ("fedct", "local"))
        ahead = sum(a > b for a, b in zip(together, alone, strict=True))
        cells = [report.cell(found, f"{method}_balanced_{test}") for method in _METHODS.values()]
        rows.append([test, *cells, f"{ahead} of {len(alone)}"])
    return report.table(header, rows)
