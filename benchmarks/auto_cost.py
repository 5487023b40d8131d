"""What ``auto`` and the guard cost: processor seconds of a run that sets nothing, next to one with a fixed forest.

A fixed random forest of 100 trees takes every label for what it is. By default, each silo compares learners, and
compares in each round what it learns with and without the consensus. Both runs go to their own fixed point.
"""

import logging
import tempfile
import time
import warnings
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from sklearn.exceptions import ConvergenceWarning

from benchmarks import report
from benchmarks.federation import Runs
from benchmarks.natural_silos import NATURAL
from benchmarks.no_harm_held import ROWS as HELD
from benchmarks.no_harm_rows import ROWS
from client_app.main import app as client_app
from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.learners import automatic
from fedct_flwr.learners.automatic import BOOSTED, OwnChoice
from fedct_flwr.learners.base import Learner
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.silo.site import simulated_site
from server_app.main import app as server_app

DATA: Final = {"heart-disease": 8, "adult-by-workclass": 1, "sites-prevalence": 4, "sites-tiny": 4, "held-labs": 4}
"""Data sets, and seeds of each. In the made ones, which come last, some silos choose boosted trees."""
METHODS: Final[dict[str, dict[str, Any]]] = {
    "fixed forest": {"learner": "random-forest", "pseudo-weight": 1.0},
    "auto and guard": {},
}
GOAL: Final = 5.0
_FAST: Final = 2


def run(seeds: int | None, fast: bool) -> None:
    """Auto and the guard together: processor seconds next to a fixed random forest; 8 seeds, of others fewer."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    datasets.LOADERS.update({**NATURAL, **ROWS, **HELD})
    start, runs = time.perf_counter(), {}
    for name, usual in {"heart-disease": _FAST}.items() if fast else DATA.items():
        _measured(name, 0, METHODS["fixed forest"])  # what is imported once is no part of it
        for seed in range(seeds or usual):
            for method, settings in METHODS.items():
                found = _measured(name, seed, settings)
                runs.setdefault(f"{name}, {method}", Runs()).add(**found)
    report.write("auto-cost", _text(runs), runs, {"methods": METHODS}, time.perf_counter() - start)


def _measured(data: str, seed: int, settings: dict[str, Any]) -> dict[str, float]:
    """Processor seconds of all rounds, their number, and the share of silos that chose boosted trees.

    Nothing is known from a run before.
    """
    automatic._chosen.cache_clear()
    simulated_site.cache_clear()
    with tempfile.TemporaryDirectory(prefix="fedct-") as folder:
        path = Path(folder) / "run"
        own = {"study": "benchmark", "data": data, "seed": seed, "run-dir": str(path), "save-models": False}
        config = RunConfig.from_flower({**own, **settings})
        silos = len(datasets.load(config).silos)
        began = time.process_time()
        run_loopback(server_app, client_app, config.to_flower(), simulated_nodes(silos))
        seconds = time.process_time() - began
        learners = [simulated_site(config, n).learner for n in range(silos)]
        boosted = fmean(_is_boosted(learner) for learner in learners)
        return {"seconds": seconds, "rounds": float(len(RunFolder(path).rounds())), "boosted": boosted}


def _is_boosted(learner: Learner) -> bool:
    """Whether it chose boosted trees."""
    return isinstance(learner, OwnChoice) and learner.choice is not None and learner.choice.name == BOOSTED


def _text(runs: dict[str, Runs]) -> str:
    lines = []
    for name in dict.fromkeys(key.partition(", ")[0] for key in runs):
        fixed, auto = (runs[f"{name}, {method}"] for method in METHODS)
        each = [a / b for a, b in zip(auto.values["seconds"], fixed.values["seconds"], strict=True)]
        ratio = auto.mean("seconds") / fixed.mean("seconds")
        seconds = [f"{found.mean('seconds'):.2f} ({found.mean('rounds'):.1f})" for found in (fixed, auto)]
        of_round = ratio * fixed.mean("rounds") / auto.mean("rounds")
        boosted = f"{auto.mean('boosted'):.0%}"
        lines.append([name, str(len(each)), boosted, *seconds, f"{ratio:.2f}", f"{max(each):.2f}", f"{of_round:.2f}"])
    spent = [f"{method}, s (rounds)" for method in METHODS]
    header = ["data", "seeds", "boosting", *spent, "ratio", "largest", "of a round"]
    return (
        f"# What auto and the guard cost\n\nGoal: at most {GOAL:g} times a fixed random forest. Processor seconds of "
        "all rounds of all silos, mean over seeds, without baselines; both run until the consensus stays the same. "
        "A fixed forest mostly repeats the labels that it has learned, so its consensus soon stays. Boosting: the "
        "share of silos that choose boosted trees.\n\n" + report.table(header, lines)
    )
