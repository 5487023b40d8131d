"""Cost of many silos: simulated ones next to bare fits and predictions, and real ones as processes of this machine.

Each figure is measured in a process of its own, so that its peak of memory is its own too.
"""

import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import psutil
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from benchmarks.harness import Column, Grid, Row, Settings, Table
from benchmarks.report import Runs
from fedct_flwr import FedCT, simulate
from fedct_flwr.algorithms.fedct import Plurality
from fedct_flwr.learners.out_of_fold import one_thread
from fedct_flwr.secure_sum.coordinator import sum_securely
from fedct_flwr.secure_sum.terms import sum_modulo

_RECORDS: Final = 30
_FEATURES: Final = 10
_PUBLIC: Final = 200
LEARNERS: Final = {
    "decision tree": DecisionTreeClassifier(random_state=0),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
}


def _bare(silos: dict[str, Any], public: Any, learner: Any) -> None:
    for X, y in silos.values():
        clone(learner).fit(X, y).predict(public)


def _product(silos: dict[str, Any], public: Any, learner: Any, **settings: Any) -> None:
    simulate(
        silos, public, algorithm=FedCT(Plurality()), learner=learner, rounds=1, pseudo_weight=1.0, baselines="none",
        preprocessing="none", test_fraction=0, progress=False, **settings,
    )  # fmt: skip


WAYS: Final[dict[str, Callable[..., None]]] = {
    "bare": _bare,
    "round": partial(_product, inspect=False, save_models=False),
    "whole run": _product,
}


def _cost(way: str, number: int, by: str) -> dict[str, float]:
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    weights = rng.normal(size=_FEATURES)
    tables = rng.normal(size=(number, _RECORDS, _FEATURES))
    labels = (tables @ weights + rng.normal(size=tables.shape[:2]) > 0).astype(int)
    silos = {f"silo-{at:05}": records for at, records in enumerate(zip(tables, labels, strict=True))}
    few = dict([*silos.items()][:2])
    public = rng.normal(size=(_PUBLIC, _FEATURES))
    with one_thread():
        # All is imported.
        WAYS[way](few, public, LEARNERS[by])
        start = time.process_time()
        WAYS[way](silos, public, LEARNERS[by])
        seconds = time.process_time() - start
    return {"seconds": seconds, "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _simulated(way: str, settings: Settings) -> dict[str, float]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_cost, way, settings["silos"], settings["by"]).result()


def _real(settings: Settings) -> dict[str, float]:
    """A run of real silos: the seconds it takes, and the memory of a silo's agent and of its SuperNode afterwards.

    A page of memory that several processes have counts for each as its part of it (PSS).
    """
    # The federation that the tests start.
    from tests.hospitals import HOSPITALS
    from tests.processes.deployment import Deployment, SiloFolder

    class Federation(Deployment):
        def _silo(self, name: str, hospital: str) -> SiloFolder:
            return super()._silo(name, hospital.partition("--")[0])

    names = [f"{HOSPITALS[at % len(HOSPITALS)]}--{at}" for at in range(settings["real"])]
    logistic = {"name": "logistic-regression"}
    with tempfile.TemporaryDirectory() as folder, Federation(Path(folder), names, learner=logistic) as federation:
        start = time.monotonic()
        federation.finish(*federation.begin("run"))
        found = {"run": time.monotonic() - start}
        for part in ("agent", "supernode"):
            found[part] = median(_megabytes(federation.process(f"{part} {name}")) for name in names)
    return found


def _summed(settings: Settings) -> dict[str, float]:
    """A secure sum by all silos and the coordinator in one process, checked against the plain one."""
    # The silos and the network of the tests of sums.
    from tests.secure_sum.silos import BITS, federation, names, shape

    number, length = settings["silos"], settings["length"]
    numbers = np.random.default_rng(settings["seed"]).integers(0, 1 << BITS, (number, length), dtype=np.uint64)
    made = federation(dict(zip(names(number), numbers, strict=True)), may_collude=number // 10 or 1)
    before, start = made.carried, time.process_time()
    found = sum_securely(made.coordinator, made.exchange, shape(length, 64))
    seconds = time.process_time() - start
    assert (found.total == sum_modulo([*numbers], 64)).all()
    return {"seconds": seconds, "kilobytes": (made.carried - before) / number / 1000}


def _megabytes(process: psutil.Process) -> float:
    processes = (process, *process.children(recursive=True))
    return float(sum(one.memory_full_info().pss for one in processes)) / 2**20


def _ratio(way: str) -> Callable[[Runs], str]:
    def cell(runs: Runs) -> str:
        both = [f"{each}: seconds" for each in (way, "bare")]
        return f"{runs.mean(both[0]) / runs.mean(both[1]):.1f}" if both[0] in runs.values else "–"

    return cell


SIMULATED: Final = ("bare", "round", "whole run")
TABLES: Final = {
    "scale": Table(
        "Many silos",
        f"Simulated silos have {_RECORDS} records each, and are asked about {_PUBLIC} public examples, once; processor "
        "seconds of one core. Bare: one fit and one prediction for each silo. Round: `simulate()` without inspection "
        "and model files. Whole run: with both. Real silos: four hospitals' records several times, each with an agent "
        "and a SuperNode of its own, two rounds on this machine.",
        [
            *(
                Row(f"{number:,} silos, {by}", {"silos": number, "by": by}, SIMULATED)
                for number in (1000, 2000, 10_000)
                for by in LEARNERS
            ),
            Row("200 silos, decision tree", {"silos": 200, "by": "decision tree"}, SIMULATED),
            *(Row(f"{number} real silos", {"real": number}, ("real",)) for number in (4, 20)),
        ],
        {**{way: partial(_simulated, way) for way in SIMULATED}, "real": _real},
        [
            Grid(
                "simulated silos",
                [
                    *(Column(f"{way} (s)", f"{way}: seconds", ".1f") for way in SIMULATED),
                    *(Column(f"{way} / bare", f"{way}: seconds", _ratio(way)) for way in SIMULATED[1:]),
                    *(Column(f"{way}, peak (MB)", f"{way}: megabytes", ".0f") for way in SIMULATED[1:]),
                ],
            ),
            Grid(
                "real silos",
                [
                    Column("run (s)", "real: run", ".0f"),
                    Column("agent (MB)", "real: agent", ".0f"),
                    Column("SuperNode (MB)", "real: supernode", ".0f"),
                ],
            ),
        ],
        1,
        smoke={"silos": 10},
        fast_rows=["200 silos, decision tree", "4 real silos"],
        smoke_rows=["200 silos, decision tree"],
    ),
    "secure-sum": Table(
        "Secure sums",
        "Numbers of 64 bits; processor seconds of all silos and the coordinator together, without agreeing on keys, "
        "and bytes to and from one silo, mean over silos. A tenth of the silos may collude. Each sum is compared with "
        "the plain one.",
        [
            Row(f"{number} silos, {length:,} numbers", {"silos": number, "length": length})
            for number, length in ((4, 500), (20, 10_000), (100, 100_000))
        ],
        {"": _summed},
        [Grid("sum", [Column("seconds", "seconds", ".3f"), Column("kB of a silo", "kilobytes", ",.1f")])],
        5,
        smoke_rows=["4 silos, 500 numbers"],
    ),
}  # fmt: skip
