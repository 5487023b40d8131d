"""Where no public set exists: one drawn from a data dictionary or from noisy counts, next to the real one."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from benchmarks import report
from benchmarks.federation import scores
from benchmarks.harness import Column, Grid, Row, Settings, Table
from benchmarks.natural_silos import NATURAL, load_flamby
from benchmarks.practice_data import load as load_practices
from benchmarks.report import Runs
from fedct_flwr import Drawn, simulate

SEEDS: Final = 10
LOADERS: Final = {**NATURAL, "flamby": load_flamby, "practices": load_practices}
NAMES: Final = (
    "heart-disease", "flamby", "practices", "adult-by-workclass", "mushroom-by-habitat", "wine-by-type", "fractures",
    "burns",
)  # fmt: skip
_OF_TWO: Final = "wine-by-type"
"""Two silos, of which sums would tell each the other's: joint labels take three."""
LEARNERS: Final = ("logistic-regression", "random-forest", "hist-gradient-boosting")
LITTLE_NOISE: Final = 10.0
CHAIN: Final = "epsilon .3, labels .7"
"""The set is drawn and the labels are the joint labeler's: epsilon 1 for both together."""
SETS: Final[dict[str, Drawn | None]] = {
    "real": None,
    "uniform": Drawn(0),
    **{f"epsilon {epsilon:g}": Drawn(epsilon) for epsilon in (0.3, 1.0, 3.0, LITTLE_NOISE)},
    CHAIN: Drawn(0.3),
}


def _measured(name: str, settings: Settings) -> dict[str, float]:
    """Balanced accuracy ``test_model`` of one seed, mean over the silos, and gains over silos alone."""
    warnings.simplefilter("ignore")
    joint: dict[str, Any] = {"algorithm": "fedct-joint", "epsilon": 0.7}
    rule = joint if name == CHAIN else {"rounds": settings.get("rounds")}
    public = SETS[name]
    if public is not None:
        public = replace(public, epsilon=min(public.epsilon, settings["at-most"]), rows=settings["rows"])
    drawn = {"learner": settings["learner"], "public": public, "seed": settings["seed"], "progress": False}
    found = scores(simulate(settings["data"], **drawn, **rule))
    return {
        **found,
        **{f"gain_{test}": found[f"{test}_federated"] - found[f"{test}_local"] for test in ("own", "pooled")},
    }


def _share(name: str) -> Callable[[Runs], str]:
    def shown(runs: Runs) -> str:
        key = f"{name}: gain_pooled"
        return report.share(runs.mean(key), runs.mean("real: gain_pooled")) if key in runs.values else "–"

    return shown


TABLES: Final = {
    "drawn": Table(
        "Drawn public sets",
        f"{__doc__} Balanced accuracy on all silos' test records; share: of the real set's gain over silos alone; own: "
        "gain on own test records. Ranges and categories are those of the tables. Drawn sets have {rows:,} examples, "
        f"real ones what silos gave away. Delta is 1e-5; epsilon {LITTLE_NOISE:g} has noise of some records. {CHAIN}: "
        "the whole chain is private at epsilon 1, with the joint labeler's labels.",
        [
            Row(f"{data}, {learner}", {"data": data, "learner": learner}, [*SETS] if data != _OF_TWO else [*SETS][:-1])
            for data in NAMES
            for learner in LEARNERS
        ],
        {name: partial(_measured, name) for name in SETS},
        [
            Grid(
                "co-trained",
                [
                    Column("alone", "real: pooled_local"),
                    Column("pooled data", "real: pooled_centralized"),
                    *(Column(name, f"{name}: pooled_federated") for name in SETS),
                ],
            ),
            Grid("share of the real set's gain", [Column(name, "", _share(name)) for name in [*SETS][1:]]),
            Grid("gain on own tests", [Column(name, f"{name}: gain_own") for name in SETS]),
        ],
        4,
        fast_rows=[f"heart-disease, {learner}" for learner in LEARNERS[:2]],
        settings={"rows": 2000, "at-most": LITTLE_NOISE},
        # Noise of large epsilons takes seconds to find.
        smoke={"learner": "naive-bayes", "rows": 200, "at-most": 0.3, "rounds": 2},
        smoke_rows=["heart-disease, logistic-regression"],
        loaders=LOADERS,
    )
}
