"""What a round of a thousand silos costs beside fitting their trees and predicting with them.

Silos of 31 Adult records each, in one process, as ``fedct simulate --in-process`` runs them, next to scikit-learn alone
on arrays that are prepared already: fits and predictions with the same rows, one after the other.
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
from fedct_flwr.coordinator.asking import query_of
from fedct_flwr.flower.in_process import run_in_process
from fedct_flwr.learners import preprocessing
from fedct_flwr.seeding import random_state
from fedct_flwr.simulation.simulation import Simulation
from fedct_flwr.simulation.watch import Watch
from fedct_flwr.types import ABSTAIN

SILOS: Final = 1000
RECORDS: Final = 31
ROUNDS: Final = 2
"""The first has no consensus to learn from. The second learns from the labels of the 5,000 examples of the first."""


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
    # What the second round learns. Whatever is imported and read once is no part of the rounds that are measured.
    first, _ = _run({**settings, "num-server-rounds": 1}, path.with_name("first"))
    targets = np.asarray(first.folder.load_checkpoint().targets)
    simulation, seconds = _run(settings, path)
    return {"rounds": seconds, "bare": _bare(simulation, targets)}


def _run(settings: dict[str, Any], path: Path) -> tuple[Simulation, float]:
    simulation = Simulation.checked(settings, path)
    start = time.process_time()
    simulation.run(run_in_process, Watch(simulation.folder, lambda record: None))
    return simulation, time.process_time() - start


def _bare(simulation: Simulation, targets: np.ndarray[Any, Any]) -> float:
    """Processor seconds of scikit-learn's ``fit`` and ``predict`` alone, on the same rows, prepared before.

    ``targets`` ``(public,)`` are what the silos learn in the second round.
    """
    config, dataset, spent = simulation.config, simulation.dataset, 0.0
    public, labeled = dataset.public.X, np.flatnonzero(targets != ABSTAIN)
    size = config.asked_about(len(public))
    asked = [query_of(config.seed, number, size).positions(len(public)) for number in range(1, ROUNDS + 1)]
    with threadpool_limits(1):
        for silo in dataset.silos:
            transformer = preprocessing.standard(dataset.schema, public, silo.private.X)
            own, prepared = (preprocessing.apply(transformer, X) for X in (silo.private.X, public))
            both, labels = np.concatenate([own, prepared[labeled]]), np.concatenate([silo.private.y, targets[labeled]])
            first, second = (prepared[positions] for positions in asked)
            tree = DecisionTreeClassifier(random_state=random_state(config.seed, "learner", silo.name))
            start = time.process_time()
            tree.fit(own, silo.private.y).predict(first)
            tree.fit(both, labels).predict(second)
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
