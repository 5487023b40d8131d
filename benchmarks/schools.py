"""2,410 real schools in one process: what a round of as many silos costs, and how good its labels are."""

import logging
import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np

from benchmarks import report
from benchmarks.federation import Runs
from benchmarks.methods import run_federation
from benchmarks.natural_silos import SCHOOLS
from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import pool
from fedct_flwr.silo.site import simulated_site

SETTINGS: Final[dict[str, Any]] = {
    "study": "benchmark",
    "data": "schools",
    # A tenth of a school's pupils, rounded down: 2,077 in all.
    "public-fraction": 0.1,
    "algorithm": "fedct-dawid-skene",
    # With the default, auto, the few larger schools compare learners: three times as long.
    "learner": "logistic-regression",
    "num-server-rounds": 1,
    "save-models": False,
    # A machine with other work must not make silos come too late.
    "round-deadline": 36_000.0,
    "roster-deadline": 3_600.0,
}
SECONDS: Final = 60
GIGABYTES: Final = 4


def run(seeds: int | None, fast: bool) -> None:
    """2,410 real schools in one process: seconds and memory of one round, agreement with its consensus; one seed."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    datasets.LOADERS.update(SCHOOLS)
    start, runs = time.perf_counter(), Runs()
    for seed in range(seeds or 1):
        runs.add(**measure(RunConfig.from_flower({**SETTINGS, "seed": seed})))
    names = ("seconds", "processor_seconds", "gigabytes", "agreement", "majority")
    header = ["seconds", "processor seconds", "gigabytes", "agreement with the consensus", "frequent class"]
    text = (
        "# 2,410 schools in one process, one round\n\nGoal: at most "
        f"{SECONDS} s and {GIGABYTES} GB on two cores. The learner of every school is {SETTINGS['learner']}: with the "
        "default, auto, the larger ones compare learners, which takes 52 processor seconds in all. Seconds are those "
        "of the run without reading the data; where other work runs on the machine, processor seconds tell more. "
        "Gigabytes: the most of the process. Frequent class: its share of all private records.\n\n"
    )
    cells = [f"{fmean(runs.values[name]):.3f}" for name in names]
    report.write(
        "schools", text + report.table(header, [cells]), {"schools": runs}, SETTINGS, time.perf_counter() - start
    )


def measure(config: RunConfig) -> dict[str, float]:
    """Cost of one run, the silos' agreement with the consensus, and the share of the frequent class."""
    before = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        own = RunConfig.from_flower({**config.to_flower(), "run-dir": str(Path(folder) / "run")})
        rounds, seconds, gigabytes = run_federation(own)
    simulated_site.cache_clear()
    everything = pool([silo.private for silo in datasets.load(config).silos])
    return {
        "seconds": seconds,
        "processor_seconds": time.process_time() - before,
        "gigabytes": gigabytes,
        "agreement": float(rounds[0]["agreement"]),
        "majority": float(np.bincount(everything.y).max() / everything.size),
    }
