"""Worth of each piece of the default: all of it, each piece off, and a short script, on natural silos."""

import json
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from statistics import fmean, stdev
from typing import Any, Final, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks import report
from benchmarks.harness import Column, Grid, Row, Settings, Table
from benchmarks.natural_silos import NATURAL
from benchmarks.no_harm import MUCH, TESTS, alone, lost
from benchmarks.no_harm_rows import ROWS as FEW
from benchmarks.report import Runs

ROWS: Final = (
    "heart-disease", "few-adult-by-workclass", "few-adult-by-education", "few-mushroom-by-habitat", "few-wine-by-type",
    "fractures", "burns", "covid-tests",
    "transplants",
)  # fmt: skip
SCRIPT: Final = "benchmarks.ablation:best_of_three"
_PARAMS: Final[dict[str, dict[str, Any]]] = {"random-forest": {"n_estimators": 50, "class_weight": "balanced"}}


class Variant(NamedTuple):
    """A default: the learner, the rule, whether own records guard, and rounds at most: hardly any needs 10."""

    learner: str = "auto"
    algorithm: str = "fedct-dawid-skene"
    guarded: bool = True
    rounds: int = 10

    @property
    def quick(self) -> "Variant":
        """With a fast learner, but for the script, and two rounds at most."""
        return self._replace(learner=SCRIPT if self.learner == SCRIPT else "naive-bayes", rounds=min(2, self.rounds))


VARIANTS: Final = {
    "default": Variant(),
    "forest": Variant(learner="random-forest"),
    "without Dawid-Skene": Variant(algorithm="fedct"),
    "without guard": Variant(guarded=False),
    "two rounds": Variant(rounds=2),
    "one round": Variant(rounds=1),
    "script": Variant(SCRIPT, "fedct", guarded=False, rounds=1),
}


def best_of_three(random_state: int | None = None) -> GridSearchCV:
    """The best of three class-balanced classifiers by three folds of the records that it is trained on."""
    forest = RandomForestClassifier(60, min_samples_leaf=3, class_weight="balanced", random_state=random_state)
    models = [
        LogisticRegression(C=0.3, class_weight="balanced", max_iter=1000),
        forest,
        HistGradientBoostingClassifier(
            max_iter=40, max_leaf_nodes=8, class_weight="balanced", random_state=random_state
        ),
    ]
    pipeline = Pipeline([("scale", StandardScaler()), ("model", models[0])])
    return GridSearchCV(pipeline, {"model": models}, scoring="balanced_accuracy", cv=3)


def _measured(variant: Variant, settings: Settings) -> dict[str, float]:
    warnings.simplefilter("ignore")
    used = variant.quick if settings["quick"] else variant
    silos = alone(settings["data"], used.learner, json.dumps(_PARAMS.get(used.learner, {})), settings["seed"])
    if used.learner == SCRIPT:
        silos.settle()
    return silos.cotrained(algorithm=used.algorithm, guarded=used.guarded, rounds=used.rounds)


def _differences(runs: Runs, variant: str, test: str) -> list[float]:
    ours, default = (np.array(runs.values[f"{name}: together_{test}"]) for name in (variant, "default"))
    found: list[float] = (ours - default).tolist()
    return found


def _apart(variant: str, test: str) -> Callable[[Runs], str]:
    return lambda runs: _cell(_differences(runs, variant, test))


def _cell(differences: list[float]) -> str:
    error = f" ± {stdev(differences) / len(differences) ** 0.5:.3f}" if len(differences) > 1 else ""
    return f"{fmean(differences):+.3f}{error}"


def _over_all(runs: Mapping[str, Runs]) -> str:
    """Differences from the default over all rows and seeds, and all silos that lost."""
    lines = []
    for test in TESTS:
        every = [[each for found in runs.values() for each in _differences(found, name, test)] for name in VARIANTS]
        lines.append([f"{test} test, from the default", *map(_cell, every)])
    for words, key in (("significantly worse", "lost"), (f"worse by more than {MUCH:g}", "much_worse")):
        numbers = [
            [sum(sum(found.values[f"{name}: {of}"]) for found in runs.values()) for of in (key, "silos")]
            for name in VARIANTS
        ]
        lines.append([f"silos {words}", *(f"{worse:.0f} of {silos:.0f}" for worse, silos in numbers)])
    return f"\n{report.table(['all rows', *VARIANTS], lines)}"


TABLES: Final = {
    "ablation": Table(
        "What each piece of the default is worth",
        "Balanced accuracy, mean over silos. Each cell of a variant is its difference from the default with the same "
        "seeds, ± standard error. Forest: a class-balanced one of 50 trees instead of `auto`. Adult, mushrooms and "
        "wine are cut to silos of 40 to 800 records. The script: each silo takes the best of three class-balanced "
        "learners by three folds of its own records; majority, one round, each refits on the union, pseudo-labels at "
        "full weight. Lost: silos whose own test records say that they are significantly worse than alone with the "
        f"same learner, or worse by more than {MUCH:g}, significant or not.",
        [Row(name, {"data": name}) for name in ROWS],
        {name: partial(_measured, variant) for name, variant in VARIANTS.items()},
        [
            *(
                Grid(
                    f"{test} test",
                    [
                        Column("alone", f"default: alone_{test}", ".3f"),
                        Column("default", f"default: together_{test}", ".3f"),
                        *(Column(name, "", _apart(name, test)) for name in [*VARIANTS][1:]),
                    ],
                )
                for test in TESTS
            ),
            *(
                Grid(words, [Column(name, "", lost(key, name)) for name in VARIANTS])
                for words, key in {"silos lost, exact test": "lost", "silos lost, by size": "much_worse"}.items()
            ),
        ],
        10,
        settings={"quick": False},
        smoke={"quick": True},
        fast_rows=ROWS[:1],
        smoke_rows=["transplants"],
        loaders={**NATURAL, **FEW},
        after=_over_all,
    )
}
