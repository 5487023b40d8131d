"""Cost of the product next to the idea in 100 lines: processor time of the same federation, side by side.

The script (``examples/fedct_in_100_lines.py``) co-trains, and is scored as a short script would: each silo alone,
co-trained, and all data in one place, on own and pooled tests.
"""

import runpy
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from benchmarks import report
from benchmarks.harness import Asked
from benchmarks.report import Runs
from fedct_flwr import FedCT, simulate
from fedct_flwr.algorithms.fedct import Plurality
from fedct_flwr.learners.out_of_fold import one_thread

IDEA: Final = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "fedct_in_100_lines.py"))
LEARNERS: Final = {
    "decision tree": DecisionTreeClassifier(random_state=0),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
}
_REPEATS: Final = 9
_ROUNDS: Final = 5
_TESTED: Final = 5
"""One of so many records is held out."""


def run(asked: Asked) -> None:
    """Processor time of `simulate()` beside 100 lines of scikit-learn: breast cancer, 5 silos, and 3 silos of 300."""
    warnings.simplefilter("ignore")
    rng, rows = np.random.default_rng(0), []
    runs: dict[str, Runs] = {}
    X, y = load_breast_cancer(return_X_y=True)
    order = rng.permutation(len(y))
    five = {f"silo-{n}": (X[part], y[part]) for n, part in enumerate(np.array_split(order[100:], 5))}
    three = {name: (rng.normal(size=(300, 10)), rng.integers(2, size=300)) for name in "abc"}
    federations = {"breast cancer, 5 silos": (five, X[order[:100]]), "3 x 300": (three, rng.normal(size=(200, 10)))}
    for title, federation in federations.items():
        for name, learner in LEARNERS.items():
            for guard in (False, True):
                found = runs.setdefault(f"{title}, {name}, {'guard' if guard else 'no guard'}", Runs())
                ours = partial(product, *federation, learner, guard)
                ways: dict[str, Callable[[], object]] = {
                    "script": partial(script, *federation, learner, guard),
                    "product": ours,
                }
                ways["not inspected"] = partial(ours, inspect=False)
                for _ in range(asked.number or asked.of(_REPEATS, 3, 1)):
                    found.add(**{way: _seconds(call) for way, call in ways.items()})
                middle = {way: median(values) for way, values in found.values.items()}
                cells = [f"{middle[way]:.3f}" for way in ("script", "product")]
                cells += [f"{middle['product'] / middle['script']:.1f}"]
                rows.append([title, name, "yes" if guard else "no", *cells, f"{middle['not inspected']:.3f}"])
    header = ["federation", "learner", "guard", "script", "product", "product / script", "without inspection"]
    text = f"# What the product costs beside 100 lines\n\n{_ABOUT}\n{report.table(header, rows)}"
    report.write("overhead", text, runs, {"rounds": _ROUNDS})


_ABOUT: Final = (
    "Processor seconds of one call on tables that the process has seen before, median of calls in turn; majority, five "
    "rounds at most, no preprocessing, pseudo-labels at full weight or with the guard.\n"
)


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


def _seconds(call: Callable[[], object]) -> float:
    with one_thread():
        start = time.process_time()
        call()
        return time.process_time() - start
