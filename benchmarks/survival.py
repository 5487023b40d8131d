"""Time to an event: silos share grades of risk, next to each alone, pooled data and averaged coefficients.

Breast cancer by region: The Cancer Genome Atlas in FLamby's preparation (J. Ogier du Terrail et al., "FLamby", NeurIPS
2022, Fed-TCGA-BRCA). Transplants by hospital: E. Copelan et al., Blood 78, 1991. Lung cancer by institution: C.
Loprinzi et al., Journal of Clinical Oncology 12, 1994, as in lifelines.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd

from benchmarks import report
from benchmarks.data import find
from benchmarks.harness import Column, Grid, Row, Settings, Table
from benchmarks.report import Runs
from fedct_flwr import Drawn, Run, simulate
from fedct_flwr.algorithms.targets import MedianGrade
from fedct_flwr.consensus.grades import GRADES, consensus_of_grades
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.survival.cox import RidgeCox
from fedct_flwr.survival.measures import concordance, times_of
from fedct_flwr.survival.model import OwnRanking, RiskModel
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, generator

Division: TypeAlias = tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame], Any]
"""Tables to train on and to test with, by silo, and the public set."""

SEEDS: Final = 20
FLAMBY: Final = "breast cancer, FLamby's split"
REGIONS: Final = tuple(f"region-{number}" for number in range(6))
_RANDOMIZED: Final = {"protection": "randomized-response"}
_DRAWS: Final = 10
"""Seeds of FLamby's split at most: of the drawn set, and of folds."""


def _read(name: str) -> pd.DataFrame:
    files = [f"{name}.csv.gz"]
    (path,) = find("sites", files)
    return pd.read_csv(path)


def _lung() -> pd.DataFrame:
    from lifelines.datasets import load_lung

    table = load_lung().rename(columns={"inst": "site", "status": "event"}).dropna(subset=["site", "ph.karno"])
    table["site"] = "institution-" + table["site"].astype(int).astype(str)
    large = table["site"].value_counts().loc[lambda counts: counts >= 16].index
    # Two columns that a third of the patients lack.
    return table[table["site"].isin(large)].drop(columns=["meal.cal", "wt.loss", "pat.karno"]).dropna()


TABLES_OF: Final[dict[str, tuple[Callable[[], pd.DataFrame], tuple[float, float], int]]] = {
    "breast cancer": (partial(_read, "tcga_brca_survival"), (365.0, 1095.0), 1),
    "transplants": (lambda: _read("bmt_survival").drop(columns="group"), (100.0, 365.0), 2),
    "lung cancer": (_lung, (180.0, 365.0), 2),
}
"""How each is read, its horizons, and how many splits a seed stands for: small tables need more."""


def _division(table: str, seed: int) -> Division:
    """A random split: each site gives a quarter of its records for the public set, and a fifth for tests."""
    public, train, test = [], {}, {}
    for site, records in TABLES_OF[table][0]().drop(columns="test", errors="ignore").groupby("site"):
        order = generator(seed, table, str(site)).permutation(len(records))
        given, held = len(records) // 4, len(records) // 5
        parts = [records.drop(columns="site").iloc[at] for at in np.split(order, [given, given + held])]
        public.append(parts[0].drop(columns=["time", "event"]))
        if parts[2]["event"].any():
            test[str(site)], train[str(site)] = parts[1], parts[2]
    return train, test, pd.concat(public)


def _flambys(epsilon: float = 0.0) -> Division:
    table = _read("tcga_brca_survival")
    parts = [
        {str(site): own.drop(columns=["site", "test"]) for site, own in table[table["test"] == held].groupby("site")}
        for held in (0, 1)
    ]
    return parts[0], parts[1], Drawn(epsilon)


METHODS: Final[dict[str, dict[str, Any]]] = {
    "mean": {},
    "median": {"algorithm": MedianGrade()},
    "drawn at epsilon 1": {"drawn": 1.0},
    "xgboost": {"learner": "xgboost", "learner_params": {"n_estimators": 50, "max_depth": 2}},
    "randomized response, epsilon 8, 50 grades": {**_RANDOMIZED, "epsilon": 8.0, "query_size": 50},
    "randomized response, epsilon 200, 500 grades": {**_RANDOMIZED, "epsilon": 200.0, "query_size": 500},
}


def _measured(division: Division, horizons: Sequence[float], seed: int, **options: Any) -> dict[str, float]:
    train, test, public = division
    run: Run = simulate(
        train, public, time="time", event="event", tests=test, horizons=horizons, seed=seed, inspect=False,
        progress=False, rounds=2, **options,
    )  # fmt: skip
    scores = run.scores
    found = {column: float(scores[column].mean()) for column in scores if column.count("_") == 1}
    for way in ("local", "federated"):
        found[f"worst_{way}"] = float(scores[f"own_{way}"].min())
        for name in ("brier", "calibration"):
            columns = [f"pooled_{way}_{name}_at_{horizon:g}" for horizon in horizons]
            # Models of silos with few events give ranks, not chances.
            if {*columns} <= {*scores}:
                found[f"{name}_{way}"] = float(scores[columns].abs().mean().mean())
    own = scores["own_federated"] - scores["own_local"]
    return {**found, "own_gain": float(own.mean()), "averaged": _averaged(run.dataset)}


def _ranked(dataset: FederatedDataset, seed: int = 0) -> list[OwnRanking]:
    rngs = [generator(seed, "survival", silo.name) for silo in dataset.silos]
    return [OwnRanking(RidgeCox(), *silo.private, None, rng) for silo, rng in zip(dataset.silos, rngs, strict=True)]


def _averaged(dataset: FederatedDataset) -> float:
    """Concordance of the mean of all silos' coefficients, by their records, as in a meta-analysis."""
    silos = [silo.private for silo in dataset.silos]
    found = [each.estimator.fit(*own).coef_ for each, own in zip(_ranked(dataset), silos, strict=True)]
    mean = np.average(found, axis=0, weights=[own.size for own in silos])
    return concordance(times_of(dataset.test.y), dataset.test.X @ mean).value


def _liars(seed: int) -> dict[str, dict[str, float]]:
    """Concordance of the student on FLamby's pooled test, where one silo after the other turns its grades around."""
    train, test, public = _flambys()
    dataset = simulate(
        train, public, time="time", event="event", tests=test, inspect=False, progress=False, rounds=1, seed=seed,
        baselines="none",
    ).dataset  # fmt: skip
    X, rankings = dataset.public.X, _ranked(dataset, seed)
    found: dict[str, Any] = {}
    nothing = np.full(len(X), ABSTAIN, dtype=LABEL_DTYPE)
    votes, turned = {}, {}
    for silo, ranking in zip(dataset.silos, rankings, strict=True):
        risk = RiskModel(RidgeCox()).fit(*silo.private, ranking).predict(X)
        given = ranking.grades(risk).astype(LABEL_DTYPE)
        votes[silo.name] = given if ranking.can_rank else nothing
        turned[silo.name] = LABEL_DTYPE(GRADES - 1) - given
    for liar in votes:
        found[liar] = {}
        for rule in ("mean", "median"):
            consensus = consensus_of_grades(GRADES, median=rule == "median")
            ballots = {**votes, liar: turned[liar]}.items()
            targets, _ = consensus.apply(ballots, nothing, {}, np.random.default_rng(0))
            student = RiskModel(RidgeCox())
            student.learn(*dataset.silos[0].private, rankings[0], X, targets)
            risk = student.student_.predict(dataset.test.X)
            found[liar][rule] = concordance(times_of(dataset.test.y), risk).value
    return found


def measured(settings: Settings) -> dict[str, float]:
    """Concordances of one division, and Brier scores and gaps where models give chances."""
    warnings.simplefilter("ignore")
    table, method, seed = settings["table"], METHODS[settings["method"]], settings["seed"]
    division = _flambys(method.get("drawn", 0.0)) if settings["flamby"] else _division(table, seed)
    options = {key: value for key, value in method.items() if key != "drawn"}
    return _measured(division, TABLES_OF[table][1], seed, **options)


def _lies(settings: Settings) -> dict[str, float]:
    warnings.simplefilter("ignore")
    return {f"{liar}, {rule}": value for liar, own in _liars(settings["seed"]).items() for rule, value in own.items()}


def _pair(name: str) -> Callable[[Runs], str]:
    """Alone, and together where that is known."""

    def shown(runs: Runs) -> str:
        keys = [key for key in (f"{name}_local", f"{name}_federated") if key in runs.values]
        return " → ".join(f"{runs.mean(key):.3f}" for key in keys) or "–"

    return shown


def _share(runs: Runs) -> str:
    if "pooled_local" not in runs.values:
        return "–"
    alone, together, pooled = (runs.mean(f"pooled_{way}") for way in ("local", "federated", "centralized"))
    return report.share(together - alone, pooled - alone)


def _row(name: str, method: str) -> Row:
    table, flamby = name.partition(",")[0], name == FLAMBY
    settings = {"table": table, "method": method, "flamby": flamby}
    return Row(f"{name}, {method}", settings, ("",), seeds=_DRAWS if flamby else SEEDS * TABLES_OF[table][2])


_MEASURES: Final = {
    "alone": "pooled_local", "co-trained": "pooled_federated", "pooled Cox": "pooled_centralized",
    "averaged coefficients": "averaged", "own tests": "own_gain",
}  # fmt: skip
TABLES: Final = {
    "survival": Table(
        "Time to an event",
        f"{__doc__}\nConcordance on all silos' test records, mean over silos ± standard error over splits. Own tests: "
        "the gain there. Worst: the lowest of the silos' own tests, alone and together. Brier, and the gap between "
        "observed and stated chances: on pooled tests, at two horizons, alone and together. Random splits: a quarter "
        "of each site's records is public, a fifth is for tests. FLamby's split has no public set: it is drawn from "
        "the columns' ranges. Published for it: FedAdam .842, FedAvg .735, best local .728. Then a student on FLamby's "
        "pooled test, by the silo that turns its grades around.",
        [
            *(_row(FLAMBY, method) for method in METHODS),
            *(_row(name, "mean") for name in TABLES_OF),
            Row("one silo lies", methods=("lies",), seeds=_DRAWS),
        ],
        {"": measured, "lies": _lies},
        [
            Grid(
                "table, grades",
                [
                    *(Column(title, key) for title, key in _MEASURES.items()),
                    Column("share of pooled gain", "pooled_local", _share),
                    *(Column(name, "pooled_local", _pair(name)) for name in ("worst", "brier", "calibration")),
                ],
            ),
            Grid("liar", [Column(rule, f"lies: {{}}, {rule}", ".3f") for rule in ("mean", "median")], each=REGIONS),
        ],
        SEEDS,
        smoke_rows=["transplants, mean", "one silo lies"],
    )
}
