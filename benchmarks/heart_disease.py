"""Four real hospitals: each alone, co-trained, and all data in one place; by defaults, and by FLamby's protocol."""

import json
import warnings
from collections.abc import Callable
from functools import partial
from typing import Final

from benchmarks.federation import LOCAL, PAPERS_WAY, POOLED, TOGETHER, WAYS, cost, scores, simulated
from benchmarks.harness import Column, Grid, Row, Settings, Table
from benchmarks.natural_silos import load_flamby
from benchmarks.report import Runs

LEARNERS: Final = {
    "logistic regression": {"learner": "logistic-regression"},
    "random forest": {"learner": "random-forest"},
    "random forest, balanced": {"learner": "random-forest", "learner-params": '{"class_weight": "balanced"}'},
    "gradient boosting": {"learner": "gradient-boosting"},
    "mixed (LR, RF, boosting, LR)": {
        "learner": "logistic-regression,random-forest,gradient-boosting,logistic-regression"
    },
}
_STRENGTHS: Final = (0.01, 0.1, 1)
OF_FLAMBY: Final = {
    **{
        f"logistic regression, C = {strength:g}": {
            "learner": "logistic-regression",
            "learner-params": json.dumps({"C": strength}),
        }
        for strength in _STRENGTHS
    },
    "random forest": LEARNERS["random forest"],
    "boosted stumps": {"learner": "gradient-boosting", "learner-params": '{"max_depth": 1}'},
}
RULES: Final = {"majority": "fedct", "Dawid-Skene": "fedct-dawid-skene"}
TESTS: Final = {"own": "Each hospital's own test set", "pooled": "Pooled test set"}
_TITLES: Final = {LOCAL: "local only", TOGETHER: "co-trained", POOLED: "centralized"}


def _measured(measure: str, settings: Settings) -> dict[str, float]:
    warnings.simplefilter("ignore")
    run = simulated(settings)
    return {**scores(run, measure), **cost(run)}


def _by(rule: str, measure: str, settings: Settings) -> dict[str, float]:
    return _measured(measure, {**settings, **PAPERS_WAY, "algorithm": RULES[rule]})


def _columns(test: str) -> list[Column]:
    return [
        Column(_TITLES[LOCAL], f"majority: {test}_{LOCAL}"),
        *(Column(rule, f"{rule}: {test}_{TOGETHER}") for rule in RULES),
        Column(_TITLES[POOLED], f"majority: {test}_{POOLED}"),
    ]


_COSTS: Final = [
    *(Column(f"rounds, {rule}", f"{rule}: rounds", ".1f") for rule in RULES),
    Column("bytes", "majority: bytes", ".0f"),
]


def _ahead(test: str) -> Callable[[Runs], str]:
    def shown(runs: Runs) -> str:
        together, alone = (runs.values[f"{test}_{way}"] for way in (TOGETHER, LOCAL))
        return f"{sum(map(float.__gt__, together, alone))} of {len(alone)}"

    return shown


TABLES: Final = {
    "heart-disease": Table(
        "Heart disease, four hospitals",
        "Balanced accuracy, mean ± standard error. Rounds: until the fixed point, at most {num-server-rounds}. Bytes: "
        "sent by one hospital in one round.",
        [Row(name, learner) for name, learner in LEARNERS.items()],
        {rule: partial(_by, rule, "balanced_accuracy") for rule in RULES},
        [Grid(TESTS["pooled"], [*_columns("pooled"), *_COSTS]), Grid(TESTS["own"], _columns("own"))],
        seeds=20,
        settings={"data": "heart-disease", "num-server-rounds": 10},
        smoke={"num-server-rounds": 2},
        smoke_rows=["logistic regression"],
    ),
    "default-run": Table(
        "Four hospitals, a run that sets nothing but its seed",
        'Balanced accuracy of `simulate("heart-disease", seed=...)`, mean over hospitals, then mean ± standard error '
        "over seeds. Ahead: seeds in which co-training is above training alone.",
        [Row("all defaults")],
        {"": partial(_measured, "balanced_accuracy")},
        [
            Grid(title, [*(Column(_TITLES[way], f"{test}_{way}") for way in WAYS), Column("ahead", "", _ahead(test))])
            for test, title in TESTS.items()
        ]
        + [Grid("cost", [Column("rounds", "rounds", ".1f"), Column("seconds", "seconds", ".1f")])],
        seeds=20,
        settings={"data": "heart-disease"},
    ),
    "flamby": Table(
        "FLamby's Fed-Heart-Disease",
        "740 complete rows without slope, vessels and thal, a third of each centre's for tests; the 180 rows that "
        "FLamby drops are the public set here. Accuracy on all centres' test rows, mean over the silos' models after "
        "at most {num-server-rounds} rounds, ± standard error over splits. Values are as in the files, and each "
        "silo's model scales them. Published for one split, whose rows are scaled by each centre: pooled data .795; "
        "FedAdagrad, FedAdam and FedYogi .779; FedAvg, FedProx and SCAFFOLD .748; local .784, .727, .483 and .611.",
        [Row(name, learner) for name, learner in OF_FLAMBY.items()],
        {rule: partial(_by, rule, "accuracy") for rule in RULES},
        [Grid(TESTS["pooled"], _columns("pooled"))],
        seeds=20,
        settings={"data": "flamby", "num-server-rounds": 5},
        smoke={"num-server-rounds": 2},
        smoke_rows=["logistic regression, C = 1"],
        loaders={"flamby": load_flamby},
    ),
}
