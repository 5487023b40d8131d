"""Worth of each piece of the default: all of it, each piece off, and a short script, on natural silos."""

import warnings
from collections.abc import Sequence
from functools import partial
from statistics import fmean, stdev
from typing import Any, Final, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks import progress, report
from benchmarks.harness import Asked
from benchmarks.natural_silos import NATURAL
from benchmarks.no_harm import Scores, Silos
from benchmarks.no_harm_rows import ROWS as FEW
from benchmarks.report import Runs
from fedct_flwr.datasets import LOADERS

_SEEDS: Final = 10
_MUCH: Final = 0.05
ROWS: Final = (
    "heart-disease", "few-adult-by-workclass", "few-adult-by-education", "few-mushroom-by-habitat", "few-wine-by-type",
    "fractures", "burns", "covid-tests",
    "transplants",
)  # fmt: skip
SMOKE_ROWS: Final = ("transplants",)
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


def run(asked: Asked) -> None:
    """Worth of each piece of the default on natural silos: each one off, and a script; 10 seeds."""
    warnings.simplefilter("ignore")
    LOADERS.update({**NATURAL, **FEW})
    names, seeds = asked.chosen(ROWS, ROWS[:1], SMOKE_ROWS), asked.seeds(_SEEDS)
    runs: dict[str, Runs] = {}
    for name in names:
        for seed in range(seeds):
            known: dict[str, Silos] = {}
            for title, variant in VARIANTS.items():
                used = asked.of(variant, variant, variant.quick)
                scores = progress.once(f"{name}, {title}, {seed}", partial(_scores, known, name, seed, used))
                runs.setdefault(f"{name}, {title}", Runs()).add(
                    own=float(np.nanmean(scores["together_own"])),
                    pooled=fmean(scores["together_pooled"]),
                    lost=scores["verdicts"].count("lost"),
                    much_worse=_much_worse(scores),
                    silos=len(scores["verdicts"]),
                    **_of_alone(title, scores),
                )
    text = f"# What each piece of the default is worth, {seeds} seeds\n\n{_ABOUT}\n{_tables(names, runs)}"
    name = "-".join(["ablation", *asked.rows])
    report.write(name, text, runs, {"rows": names})


def _scores(known: dict[str, Silos], name: str, seed: int, variant: Variant) -> Scores:
    learner = variant.learner
    if learner not in known:
        known[learner] = Silos(name, learner, _PARAMS.get(learner, {}), seed)
    return known[learner].cotrained(algorithm=variant.algorithm, guarded=variant.guarded, rounds=variant.rounds)


def _much_worse(scores: Scores) -> int:
    """How many silos do worse on their own test records than alone by more than 0.05."""
    return int(
        (np.array(scores["together_own"]) - scores["alone_own"] < -_MUCH).sum()
    )  # NaN: one class, no silo's loss


def _of_alone(title: str, scores: Scores) -> dict[str, float]:
    if title not in ("default", "script"):
        return {}
    return {"alone_own": float(np.nanmean(scores["alone_own"])), "alone_pooled": fmean(scores["alone_pooled"])}


_ABOUT: Final = (
    "Balanced accuracy, mean over silos. Each cell of a variant is its difference from the default with the same "
    "seeds, ± standard error. Forest: a class-balanced one of 50 trees instead of `auto`. Adult, mushrooms and wine "
    "are cut to silos of 40 to 800 records. The script: the best of three class-balanced learners by three folds, "
    "majority, one round, pseudo-labels at full weight. Lost: silos whose own test records say that they are "
    "significantly worse than alone with the same learner, or worse by more than 0.05, significant or not.\n"
)


def _tables(names: Sequence[str], runs: dict[str, Runs]) -> str:
    found = ""
    for test in ("own", "pooled"):
        lines: list[list[str]] = []
        every: dict[str, list[float]] = {title: [] for title in VARIANTS}
        for name in names:
            default: Any = np.array(runs[f"{name}, default"].values[test])
            cells = [name, f"{runs[f'{name}, default'].mean(f'alone_{test}'):.3f}", f"{default.mean():.3f}"]
            for title in [*VARIANTS][1:]:
                differences = (np.array(runs[f"{name}, {title}"].values[test]) - default).tolist()
                every[title] += differences
                cells.append(_cell(differences))
            lines.append(cells)
        lines.append(["all rows", "", "", *(_cell(every[title]) for title in [*VARIANTS][1:])])
        found += report.table([f"{test} test", "alone", *VARIANTS], lines) + "\n"
    lines = []
    for words, key in (("significantly worse", "lost"), ("worse by more than 0.05", "much_worse")):
        of = {title: [runs[f"{name}, {title}"].values for name in names] for title in VARIANTS}
        lines.append([words, *(f"{_sum(of[title], key)} of {_sum(of[title], 'silos')}" for title in VARIANTS)])
    return found + report.table(["silos lost", *VARIANTS], lines)


def _sum(values: Sequence[Any], key: str) -> int:
    return sum(round(sum(each[key])) for each in values)


def _cell(differences: Sequence[float]) -> str:
    error = stdev(differences) / len(differences) ** 0.5 if len(differences) > 1 else 0.0
    return f"{fmean(differences):+.3f} ± {error:.3f}"
