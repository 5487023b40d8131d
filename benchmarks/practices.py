"""Ten small general practices that look for kidney disease: mean and worst practice, and gaps between the sexes."""

import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.metrics import roc_auc_score

from benchmarks import practice_data
from benchmarks.harness import Column, Grid, Row, Settings, Table
from benchmarks.practice_data import COLUMNS, NAME, SIZES, load, patients, risk
from benchmarks.report import Runs
from fedct_flwr import simulate
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import pool
from fedct_flwr.evaluation.references import centralized, local_only
from fedct_flwr.seeding import generator
from fedct_flwr.types import Examples

FURTHER: Final = 1_000
"""Patients of each practice whom only a generator has: they tell small practices and the sexes apart from chance."""
RECALLED: Final = 0.3
TESTS: Final = ("held out", "further")
GAPS: Final = ("area, women - men", "ill found, women - men")
ALONE: Final = "alone"
POOLED: Final = "pooled data"
TRUTH: Final = "the true risk"
_FULL: Final = {"pseudo_weight": 1.0}
_JOINT: Final = {"algorithm": "fedct-joint", "epsilon": 1.0}
METHODS: Final[dict[str, dict[str, Any]]] = {
    ALONE: {},
    "Dawid-Skene": {"algorithm": "fedct-dawid-skene"},
    "majority": {"algorithm": "fedct"},
    "majority, full weight": {"algorithm": "fedct", **_FULL},
    "joint labeler, epsilon 1": _JOINT,
    "joint labeler, epsilon 1, full weight": {**_JOINT, **_FULL},
    "own DP labels, epsilon 1": {"algorithm": "fedct", "protection": "dp-linear", "epsilon": 1.0},
    "FedAvg": {"algorithm": "fedavg", "learner": "mlp", "rounds": 20, "device": "cpu"},
    POOLED: {},
    TRUTH: {},
}
_STUDYS: Final = (
    "That study's figures, of its own patients and 5 seeds, mean and worst practice: alone .789, .495; FedAvg .808, "
    ".675; with DP-SGD and secure sums at epsilon 2 .797, .649; with noise on updates at epsilon 4.3 .627, .397; "
    "pooled data .861 over all. FedAvg here trains a network. No row shares weights under a guarantee for each record: "
    "`dp-fedavg` protects each practice as a whole.\n"
)


def measured(settings: Settings) -> dict[str, float]:
    """One seed's areas under the ROC curve, and by how much those of women are above those of men."""
    warnings.simplefilter("ignore")
    method, seed = settings["method"], settings["seed"]
    config = RunConfig.from_flower({"study": NAME, "data": NAME, "learner": "logistic-regression", "seed": seed})
    dataset = load(config)
    places = range(len(SIZES))
    if given := METHODS[method]:
        run = simulate(NAME, **{"learner": "logistic-regression", "seed": seed, "baselines": "none", **given})
        models: list[Any] = [model.learner for model in run.models.values()]
    elif method == ALONE:
        models = [local_only(config, dataset, place) for place in places]
    else:
        models = [centralized(config, dataset, 0) if method == POOLED else None for _ in places]
    rng = generator(seed, "further patients")
    further = [patients(place, FURTHER, rng) for place in places]
    values: dict[str, float] = {}
    for name, tests in zip(TESTS, ([silo.test for silo in dataset.silos], further), strict=True):
        areas = [_area(test.y, _scores(model, test)) for model, test in zip(models, tests, strict=True)]
        values |= {f"{name}, mean": float(np.nanmean(areas)), f"{name}, worst": float(np.nanmin(areas))}
    together, scores = pool(further), np.concatenate([_scores(*both) for both in zip(models, further, strict=True)])
    women = together.X[:, COLUMNS.index("woman")] == 1
    chosen = scores >= np.quantile(scores, 1 - RECALLED)
    of_women, of_men = (
        (_area(together.y[sex], scores[sex]), float(chosen[sex & (together.y == 1)].mean())) for sex in (women, ~women)
    )
    return {**values, **{gap: mine - theirs for gap, mine, theirs in zip(GAPS, of_women, of_men, strict=True)}}


def _scores(model: Any, test: Examples) -> NDArray[np.float64]:
    """The probability of kidney disease ``(n,)``."""
    return risk(test.X) if model is None else np.asarray(model.probabilities(test.X, 2))[:, 1]


def _area(y: NDArray[Any], scores: NDArray[np.float64]) -> float:
    """NaN for patients of one class, as a quarter of a small practice may be."""
    return float(roc_auc_score(y, scores)) if 0 < y.mean() < 1 else float("nan")


def _gap(name: str) -> Callable[[Runs], str]:
    """The mean with its 95% interval over seeds by Student's t."""

    def shown(runs: Runs) -> str:
        seeds, mean = len(runs.values[name]), runs.mean(name)
        half = float(student.ppf(0.975, seeds - 1)) * runs.standard_error(name) if seeds > 1 else 0.0
        return f"{mean:+.3f} ({mean - half:+.3f} to {mean + half:+.3f})"

    return shown


_ABOUT: Final = (
    "Area under the ROC curve; each seed makes other patients. Held out: a quarter "
    f"of each practice's patients, 40 in the smallest. Further: {FURTHER:,} more patients of each practice, whom only "
    "a generator has. Gaps are of all further patients, with 95% intervals over seeds: the area of women minus that of "
    f"men, and the same for the share of the ill who are among the {RECALLED:.0%} with the highest scores. Logistic "
    "regression, 400 public patients. Labels count as each practice's guard decides (`auto`), or as records do (full "
    "weight). Epsilon is in total for each patient, at delta 1e-5; the noise of a simulation is seeded. The true risk "
    "is the generator's own."
)
_MEASURES: Final = [f"{test}, {of}" for test in TESTS for of in ("mean", "worst")]
TABLES: Final = {
    NAME: Table(
        "Ten small practices",
        f"{' '.join((practice_data.__doc__ or '').split())}\n\n{_ABOUT}",
        [Row(method, {"method": method}) for method in METHODS],
        {"": measured},
        [
            Grid(
                "own models",
                [*(Column(name, name) for name in _MEASURES), *(Column(name, "", _gap(name)) for name in GAPS)],
            )
        ],
        20,
        smoke_rows=[ALONE, "majority", POOLED, TRUTH],
        loaders={NAME: load},
        after=lambda runs: f"\n{_STUDYS}",
    )
}
