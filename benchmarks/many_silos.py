"""What a round of a thousand silos costs beside fitting their trees and predicting with them.

Silos of 31 Adult records each, in one process, as ``fedct simulate --in-process`` runs them, beside scikit-learn alone
on arrays that are prepared already: the same fits and predictions, one after the other.
"""

import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.federation import Runs
from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.engine.in_process import run_in_process
from fedct_flwr.learners import preprocessing
from fedct_flwr.simulation.simulation import Simulation
from fedct_flwr.simulation.watch import Watch
from fedct_flwr.types import ABSTAIN

SILOS: Final = 1000
RECORDS: Final = 31
ROUNDS: Final = 2
"""Of which the first has no consensus to learn from, and the second has that of all public examples."""


def run(seeds: int | None, fast: bool) -> None:
    """A thousand silos of 31 Adult records: processor seconds of a round beside bare fits and predictions."""
    start = time.perf_counter()
    settings = _settings(100 if fast else SILOS)
    runs = {"rounds": Runs(), "bare": Runs()}
    with tempfile.TemporaryDirectory(prefix="fedct-") as folder:
        for name, seconds in _measured(settings, Path(folder) / "run").items():
            runs[name].add(seconds=seconds)
    report.write("many-silos", _text(runs, settings["num-silos"]), runs, settings, time.perf_counter() - start)


def _settings(silos: int) -> dict[str, Any]:
    return {
        "study": "many-silos",
        "data": "adult",
        "learner": "decision-tree",
        # Without the guard: it would fit ten trees more for each silo, on both sides of the comparison.
        "pseudo-weight": 1.0,
        "algorithm": "fedct-dawid-skene",
        "num-silos": silos,
        "private-size": RECORDS * silos,
        "num-server-rounds": ROUNDS,
        "stop-at-fixed-point": False,
    }


def _measured(settings: dict[str, Any], path: Path) -> dict[str, float]:
    """Processor seconds of all rounds, and of the same fits and predictions alone."""
    # Whatever is imported and read once is no part of a round.
    warm = {**settings, "num-silos": 2, "private-size": 2 * RECORDS, "num-server-rounds": 1}
    _run(warm, path.with_name("warm"))
    simulation, seconds = _run(settings, path)
    targets = np.asarray(simulation.folder.load_checkpoint().targets)
    return {"rounds": seconds, "bare": _bare(simulation.config, targets)}


def _run(settings: dict[str, Any], path: Path) -> tuple[Simulation, float]:
    simulation = Simulation.checked(settings, path)
    start = time.process_time()
    simulation.run(run_in_process, Watch(simulation.folder, lambda record: None))
    return simulation, time.process_time() - start


def _bare(config: RunConfig, targets: np.ndarray[Any, Any]) -> float:
    """Processor seconds of scikit-learn's ``fit`` and ``predict`` alone, with all silos' arrays prepared before."""
    dataset, spent = datasets.load(config), 0.0
    public, labeled = dataset.public.X, np.flatnonzero(targets != ABSTAIN)
    with threadpool_limits(1):
        for silo in dataset.silos:
            transformer = preprocessing.standard(dataset.schema, np.concatenate([public, silo.private.X]))
            own, asked = (preprocessing.apply(transformer, X) for X in (silo.private.X, public))
            both, labels = np.concatenate([own, asked[labeled]]), np.concatenate([silo.private.y, targets[labeled]])
            start = time.process_time()
            DecisionTreeClassifier(random_state=0).fit(own, silo.private.y).predict(asked)
            DecisionTreeClassifier(random_state=0).fit(both, labels).predict(asked)
            spent += time.process_time() - start
    return spent


def _text(runs: dict[str, Runs], silos: int) -> str:
    whole, bare = (runs[name].values["seconds"][0] for name in ("rounds", "bare"))
    lines = [
        [name, f"{seconds / ROUNDS:.1f}", f"{1000 * seconds / ROUNDS / silos:.1f}", f"{seconds / bare:.2f}"]
        for name, seconds in (("scikit-learn alone", bare), ("co-training", whole))
    ]
    return (
        f"# A round of {silos:,} silos with {RECORDS} Adult records and a decision tree each\n\n"
        + report.table(["", "A round (s)", "A silo (ms)", "Ratio"], lines)
        + f"\nProcessor seconds of {ROUNDS} rounds in one process, divided by their number: preparing the public set "
        "for each silo, training, labels, messages, consensus, and the model that each silo keeps on disk every round. "
        "Scikit-learn alone fits and predicts with arrays that are prepared before. Pseudo-labels have full weight, so "
        "that a round is one fit and one prediction for each silo.\n"
    )
