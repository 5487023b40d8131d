"""Why FedKT is the majority class on Adult in our Table 1: what its trees are grown on, and which columns they see."""

import json
import logging
import time
from typing import Any, Final

from benchmarks import report
from benchmarks.federation import Runs
from benchmarks.fedkt import METHODS, adult, adult_by_trees, configs
from benchmarks.methods import one_thread_per_silo

TREES: Final = 20
FAST_TREES: Final = 5
SHOWN: Final = ("FedKT", "SOLO", "PATE", "majority class")
PAPER: Final = ["the paper's", "82.2", "68.6", "83.5", ""]


def run(seeds: int | None, fast: bool) -> None:
    """FedKT on Adult: dummy columns or plain ones, forests or single trees; about four minutes of one core."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    one_thread_per_silo()
    start, seeds, trees = time.perf_counter(), seeds or 2, FAST_TREES if fast else TREES
    rows = variants(trees)
    runs = {name: measure(settings, seeds) for name, settings in rows.items()}
    lines = [[name, *(report.cell(found, method) for method in SHOWN)] for name, found in runs.items()]
    text = (
        f"# FedKT on Adult by what its trees see, {seeds} seeds\n\n50 parties by Dirichlet(.5), s = 2, t = 5, trees of "
        f"depth 6; forests have {trees}, and so has the final model. Dummy columns are one for each category, plain "
        "columns are the 14 of the data, with a number for each category. Scikit-learn's forests let each split see "
        "the square root of all columns, single trees all of them. Accuracy on the pooled test set, mean ± standard "
        "error, the paper's in percent.\n\n"
    )
    text += report.table(["Teachers and students", *SHOWN], [*lines, PAPER])
    report.write("fedkt-columns", text, runs, rows, time.perf_counter() - start)


def variants(trees: int) -> dict[str, dict[str, Any]]:
    """Settings by what they are."""
    single = adult_by_trees(trees)
    seeing_all = json.dumps({"n_estimators": trees, "max_depth": 6, "max_features": None})
    return {
        "forests, dummy columns": adult(trees),
        "forests, plain columns": {**adult(trees), "preprocessing": "none"},
        "forests, plain columns, all seen by each split": {
            **adult(trees),
            "preprocessing": "none",
            "learner-params": seeing_all,
            "student-params": seeing_all,
        },
        "single trees, dummy columns": {**single, "preprocessing": "standard"},
        "single trees, plain columns": single,
    }


def measure(settings: dict[str, Any], seeds: int) -> Runs:
    """Accuracy of each method for each seed."""
    runs = Runs()
    for config in configs(settings, seeds):
        runs.add(**{method: METHODS[method](config)["accuracy"] for method in SHOWN})
    return runs
