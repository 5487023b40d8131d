"""Cost of the product next to the idea in 100 lines: processor time of the same federation, side by side.

The script (``examples/fedct_in_100_lines.py``) co-trains, and is scored as a short script would: each silo alone,
co-trained, and all data in one place, on own and pooled tests.
"""

import runpy
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import balanced_accuracy_score

from benchmarks.harness import Column, Grid, Row, Settings, Table
from benchmarks.report import Runs
from benchmarks.scale import LEARNERS
from fedct_flwr import FedCT, simulate
from fedct_flwr.algorithms.fedct import Plurality
from fedct_flwr.learners.out_of_fold import one_thread

IDEA: Final = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "fedct_in_100_lines.py"))
_ROUNDS: Final = 5
_TESTED: Final = 5
"""One of so many records is held out."""


@cache
def federation() -> tuple[dict[str, Any], Any]:
    """Records of five silos, and the public set."""
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return {f"silo-{n}": (X[part], y[part]) for n, part in enumerate(np.array_split(order[100:], 5))}, X[order[:100]]


def _measured(way: str, settings: Settings) -> dict[str, float]:
    warnings.simplefilter("ignore")
    given = *federation(), LEARNERS[settings["by"]], settings["guard"]
    ways: dict[str, Callable[[], object]] = {
        "script": partial(script, *given),
        "product": partial(product, *given),
        "without inspection": partial(product, *given, inspect=False),
    }
    # The process has seen these tables before.
    ways[way]()
    with one_thread():
        start = time.process_time()
        ways[way]()
        return {"seconds": time.process_time() - start}


def product(silos: dict[str, Any], public: Any, learner: Any, guard: bool, **settings: Any) -> object:
    """All of it: checks, co-training, baselines, scores with intervals, the run's folder."""
    weight = "auto" if guard else 1.0
    return simulate(
        silos, public, algorithm=FedCT(Plurality()), learner=learner, rounds=_ROUNDS, pseudo_weight=weight,
        preprocessing="none", test_fraction=1 / _TESTED, progress=False, **settings,
    )  # fmt: skip


def script(silos: dict[str, Any], public: Any, learner: Any, guard: bool) -> list[list[float]]:
    """The idea, and balanced accuracies alone, co-trained and pooled."""
    tests = {name: (X[::_TESTED], y[::_TESTED]) for name, (X, y) in silos.items()}
    train = {
        name: tuple(np.delete(part, np.s_[::_TESTED], axis=0) for part in records) for name, records in silos.items()
    }
    models, _ = IDEA["cotrain"](train, public, learner, rule=IDEA["majority"], rounds=_ROUNDS, guard=guard)
    pooled = tuple(np.concatenate(part) for part in zip(*tests.values(), strict=True))
    together = clone(learner).fit(*(np.concatenate(part) for part in zip(*train.values(), strict=True)))
    return [
        [
            float(balanced_accuracy_score(y, model.predict(X)))
            for model in (clone(learner).fit(*train[name]), models[name], together)
            for X, y in (tests[name], pooled)
        ]
        for name in silos
    ]


def _median(way: str, runs: Runs) -> str:
    return f"{median(runs.values[f'{way}: seconds']):.3f}"


def _ratio(runs: Runs) -> str:
    return f"{float(_median('product', runs)) / float(_median('script', runs)):.1f}"


WAYS: Final = ("script", "product", "without inspection")
TABLES: Final = {
    "overhead": Table(
        "What the product costs beside 100 lines",
        "Processor seconds of one call on tables that the process has seen before, median of repeats; majority, five "
        "rounds at most, no preprocessing, pseudo-labels at full weight or with the guard.",
        [
            Row(f"{by}, {'guard' if guard else 'no guard'}", {"by": by, "guard": guard})
            for by in LEARNERS
            for guard in (False, True)
        ],
        {way: partial(_measured, way) for way in WAYS},
        [
            Grid(
                "breast cancer, 5 silos: learner, guard",
                [
                    *(Column(way, "", partial(_median, way)) for way in WAYS),
                    Column("ratio", "", _ratio),
                ],
            )
        ],
        9,
        smoke_rows=["decision tree, no guard"],
    )
}
