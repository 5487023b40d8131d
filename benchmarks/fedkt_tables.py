"""The tables of FedKT's paper (Li, He, Song, IJCAI 2021), ours next to theirs; on Adult, but for what has images.

Teachers and students on Adult are single trees on plain columns, as in the paper's published code. Its text says
forests, which name the frequent class alone on dummy columns (``fedkt-columns``).
"""

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from joblib import Parallel, delayed
from sklearn.ensemble import RandomForestClassifier

from benchmarks import methods
from benchmarks.fedkt import (
    METHODS,
    adult,
    adult_by_trees,
    clothes,
    fedkt,
    majority,
    on_split,
    sharing_weights,
    transferred,
)
from benchmarks.harness import Column, Grid, Row, Settings, Table, Words, by_method
from benchmarks.variants import change, config_of
from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.learners.preprocessing import standard

TREES: Final = 100
FEW_TREES: Final = 5
"""Of the final model, a forest."""
SEEDS: Final = 5
_SMALL: Final[Settings] = {"private-size": 3000, "public-size": 300, "query-size": 300}
_TINY: Final[Settings] = {"private-size": 1000, "public-size": 100, "query-size": 100}
_SMOKE: Final[Settings] = {**_TINY, "num-silos": 4, "round-deadline": 600.0}
_FOREST: Final = '{"n_estimators": 5, "max_depth": 6}'
_OF_IMAGES: Final[Settings] = {**_SMOKE, "private-size": 400, "epochs": 1}


def _shares(**percent: str) -> dict[str, str]:
    """The paper's figures by column, in percent, as shares."""
    return {
        name: " ± ".join(f"{float(part) / 100:.3f}" for part in figure.split(" ± ")) for name, figure in percent.items()
    }


def _methods(names: Sequence[str]) -> dict[str, Callable[[Settings], Mapping[str, float]]]:
    return {name: partial(on_split, 0, METHODS[name]) for name in names}


def _with_majority(config: RunConfig) -> dict[str, float]:
    return {**fedkt(config), "majority": majority(config)["accuracy"]}


_ACCURACY: Final = [Column("accuracy", "accuracy"), Column("majority class", "majority")]
_PRICED: Final = [*_ACCURACY, Column("by its accountant", "paper", ".2f"), Column("tightest", "tightest", ".2f")]


def _on_adult(title: str, about: str, rows: Sequence[Row], paper: str, fewest: int = 0, **settings: Any) -> Table:
    """``fewest``: only splits that leave every silo so many records, as s * t models need one each."""
    priced = any("by its accountant" in row.paper for row in rows)
    return Table(
        f"FedKT on Adult: {title}",
        f"{about} Teachers and students are single trees of depth 6 on plain columns, the final model is a forest of "
        f"{TREES} of them.",
        rows,
        {"": partial(on_split, fewest, _with_majority)},
        [Grid("", _PRICED if priced else _ACCURACY)],
        SEEDS,
        settings={**adult_by_trees(TREES), **settings},
        fast=_few(FEW_TREES),
        # A silo of a few records has none for s * t teachers.
        smoke={**_few(FEW_TREES), **_SMOKE, "private-size": 4000, "public-size": 200, "query-size": 40, "num-silos": 3},
        fast_rows=[row.name for row in rows[:4]],
        smoke_rows=[rows[0].name, rows[-1].name],
        paper=f"FedKT, {paper}",
    )


def _few(trees: int) -> Settings:
    return {key: value for key, value in adult_by_trees(trees).items() if key == "student-params"}


def _noisy(level: str, splits: dict[str, tuple[dict[float, tuple[str, ...]], str]]) -> list[Row]:
    """Rows of Table 8 or 9. The paper's figures: for each gamma epsilon and accuracy of each number of queries."""
    rows = []
    for partition, (gammas, without) in splits.items():
        split = {"partition": partition}
        rows.append(Row(f"{partition}, L0", split, paper=_shares(accuracy=without)))
        for gamma, figures in gammas.items():
            for queries, cell in zip((_FEWEST.get((partition, level), 8), 41, 81), figures, strict=True):
                epsilon, accuracy = cell.split()
                own = {"privacy-level": level, "gamma": gamma}
                # At L2 the silos' ledgers have a budget, which gamma must keep.
                at_silos = {"teachers": 25, "lessons": queries, "epsilon": 1000.0}
                asked = at_silos if level == "L2" else {"query-size": queries}
                name = f"{partition}, gamma {gamma:g}, {queries} queries"
                both = {**_shares(accuracy=accuracy), "by its accountant": epsilon}
                rows.append(Row(name, {**split, **own, **asked}, paper=both))
    return rows


# Of the paper's 8,140 test and public records 0.1 %, 0.3 %, 0.5 % and 1 %.
_FEWEST: Final = {("iid", "L2"): 24}


def _noised(best: Mapping[str, str], text: str) -> dict[str, tuple[dict[float, tuple[str, ...]], str]]:
    """By partition, the cells (epsilon and accuracy) of each gamma, and the best without noise."""
    found: dict[str, tuple[dict[float, tuple[str, ...]], str]] = {name: ({}, most) for name, most in best.items()}
    for line in text.strip().splitlines():
        partition, gamma, *cells = line.split(" | ")
        found[partition][0][float(gamma)] = tuple(cells)
    return found


_PAPER_8: Final = _noised({"dirichlet": "82.2", "iid": "82.4"}, """
dirichlet | 0.04 | 0.64 71.3 | 2.56 76.8 | 4.73 80.2
dirichlet | 0.06 | 0.96 75.7 | 3.64 77.6 | 5.78 80.2
dirichlet | 0.08 | 1.23 76.0 | 4.25 76.3 | 7 80.3
iid | 0.02 | 0.32 72.2 | 1.25 76.1 | 1.79 80.1
iid | 0.04 | 0.6 76.0 | 1.9 80.4 | 3.32 81.5
iid | 0.06 | 0.75 76.1 | 2.03 81.7 | 3.36 82.1
""")  # fmt: skip
_PAPER_9: Final = _noised({"dirichlet": "82.4", "iid": "82.6"}, """
dirichlet | 0.04 | 1.13 76.1 | 2.56 76.5 | 3.72 78.5
dirichlet | 0.05 | 1.32 76.1 | 3.24 79.0 | 4.76 79.2
dirichlet | 0.06 | 1.96 76.2 | 3.93 78.5 | 5.79 79.4
iid | 0.04 | 2.13 76.1 | 2.59 78.7 | 3.72 81.7
iid | 0.06 | 2.97 76.3 | 3.93 79.9 | 5.79 81.8
iid | 0.08 | 3.77 76.3 | 5.04 80.4 | 7.89 82.0
""")  # fmt: skip


_ON_IMAGES: Final = (
    "FashionMNIST in the place of MNIST, 10 parties by Dirichlet(.5), {private-size} private and {public-size} public "
    "images, a network of two hidden layers of 100, {epochs} epochs (paper: 100)."
)
_SGD: Final[dict[str, Any]] = {"optimizer": "sgd", "learning_rate": 0.1}
_EPOCHS: Final = 10
"""Local ones of what shares weights: the paper's, FedAvg's best number."""


def _shared(method: str, more: Mapping[str, Any], config: RunConfig) -> dict[str, float]:
    """The global model of one round of shared weights; FedDF distills as long as FedKT's final model learns."""
    steps = max(1, config.epochs * config.public_size // config.batch_size)
    distilled = {"distillation_steps": steps} if method == "FedDF" else {}
    settings = sharing_weights(change(config, **more), _EPOCHS) if more else sharing_weights(config, _EPOCHS)
    return {"accuracy": methods.METHODS[method](settings, **distilled).accuracy}


_ONE_ROUND: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "FedProx": ("FedProx .1", {}), "FedAvg, SGD": ("FedAvg", _SGD), "SCAFFOLD, SGD": ("SCAFFOLD", _SGD),
    "FedDF": ("FedDF", {}), "PFNM": ("PFNM", {}), "PFNM, gamma 50": ("PFNM, gamma 50", {}),
}  # fmt: skip
_ROUNDS: Final = 10


def _by_round(settings: Settings) -> dict[str, float]:
    """Accuracy of the global model after each round, by method: FedKT's student is FedKT-Prox's first round."""
    methods.one_thread_per_silo()
    rounds = settings["rounds"]
    config = config_of(settings)
    averaged = change(sharing_weights(config, epochs=1), num_server_rounds=rounds, report_scores=True)

    def course(where: str, **more: Any) -> list[float]:
        log, _ = methods.run_federation(change(averaged, run_dir=f"{folder}/{where}", **more))
        return [entry["scores"]["accuracy"] for entry in log]

    with tempfile.TemporaryDirectory() as folder:
        student = transferred(config, f"{folder}/fedkt")
        onward = {"algorithm": "fedprox", "num_server_rounds": rounds - 1, "initial_model": str(student.model)}
        found = {
            "FedAvg": course("fedavg"),
            "FedProx": course("fedprox", algorithm="fedprox"),
            "FedKT-Prox": [student.accuracy, *course("onward", **onward)],
        }
    return {f"{name}, {number}": value for name, values in found.items() for number, value in enumerate(values, 1)}


def _speed(settings: Settings) -> dict[str, float]:
    """Processor seconds of FedKT, and of a loop that fits as many forests to as many records and does nothing else."""
    config = RunConfig.from_flower(settings)
    dataset, forest = datasets.load(config), json.loads(settings["learner-params"])
    votes, teachers = config.method.votes, settings["teachers"]
    transform = standard(dataset.schema, dataset.public.X).transform
    lectures, rng, sets = transform(dataset.public.X), np.random.default_rng(config.seed), []
    for silo in dataset.silos:
        X = transform(silo.private.X)
        parts = [part for _ in range(votes) for part in np.array_split(rng.permutation(len(X)), teachers)]
        # As many trees learn labels that are as hard: those of a forest of all records.
        labels = RandomForestClassifier(**forest, random_state=0).fit(X, silo.private.y).predict(lectures)
        sets += [(X[part], silo.private.y[part]) for part in parts] + [(lectures, labels)] * votes
    spent = {}
    start = time.process_time()
    Parallel(n_jobs=methods.WORKERS, prefer="threads")(
        delayed(RandomForestClassifier(**forest, random_state=n).fit)(*one) for n, one in enumerate(sets)
    )
    spent["loop"], start = time.process_time() - start, time.process_time()
    fedkt(config)
    spent["FedKT"] = time.process_time() - start
    return {**spent, "ratio": spent["FedKT"] / spent["loop"]}


def _columns(trees: int) -> dict[str, Settings]:
    seeing_all = json.dumps({"n_estimators": trees, "max_depth": 6, "max_features": None})
    plain = {"preprocessing": "none"}
    single = adult_by_trees(trees)
    of_trees = ("learner", "learner-params", "preprocessing", "student", "student-params")
    single = {key: value for key, value in single.items() if key in of_trees}
    return {
        "forests, dummy columns": {},
        "forests, plain columns": plain,
        "forests, plain columns, all seen by each split": {
            **plain, "learner-params": seeing_all, "student-params": seeing_all,
        },
        "single trees, dummy columns": {**single, "preprocessing": "standard"},
        "single trees, plain columns": single,
    }  # fmt: skip


_PAPER_1: Final = _shares(FedKT="82.2", SOLO="68.6", PATE="83.5")
_SHOWN: Final = ("FedKT", "SOLO", "PATE", "majority class")
_MNIST: Final = {"FedKT": "90.5", "SOLO": "69.0", "FedAvg": "62.8", "PATE": "92.7"}

TABLES: Final[dict[str, Table]] = {
    "fedkt-table1": Table(
        "FedKT in one round, Table 1",
        "Accuracy on the pooled test set. Adult: 50 parties; teachers and students are single trees of depth 6 on "
        f"plain columns, the final model is a forest of {TREES} of them. FashionMNIST in the place of MNIST: 10 "
        "parties, a network of two hidden layers of 100, 20 epochs (paper: 100), FedAvg 10. Parties by Dirichlet(.5), "
        "s = 2, t = 5. The paper has 5 trials. SOLO: each party alone, mean. PATE: one party with all records and as "
        "many teachers as there are parties, without noise.",
        [
            # A forest has no weights to average.
            Row("Adult", adult_by_trees(TREES), _SHOWN, _PAPER_1),
            Row("FashionMNIST", clothes(50_000, 5_000, 20), tuple(METHODS), _shares(**_MNIST)),
        ],
        _methods(tuple(METHODS)),
        [Grid("", by_method(tuple(METHODS)))],
        2,
        smoke={**_SMOKE, "private-size": 400},
        paper="FedKT, Table 1",
        other_data="FashionMNIST",
    ),
    "fedkt-one-round": Table(
        "One round, FedKT's Table 1 on FashionMNIST",
        f"Accuracy on the pooled test set. {_ON_IMAGES} FedKT has s = 2, t = 5; what shares weights trains for "
        f"{_EPOCHS} local epochs, by Adam but where SGD (rate .1) stands, which SCAFFOLD needs. FedProx has mu = .1. "
        "PATE: all records in one place, 10 teachers, no noise. In one round SCAFFOLD is FedAvg with the same steps, "
        "as control variates begin at zero. With PFNM each party begins with a network of its own, with the others all "
        "with one; its variances are 1, and of its published code's values for gamma 1 is the default.",
        [
            Row(
                "FashionMNIST",
                paper=_shares(**_MNIST, FedProx="44.3", FedDF="83.8", PFNM="65.9", **{"SCAFFOLD, SGD": "51.7"}),
            )
        ],
        {
            **_methods(("FedKT", "SOLO", "FedAvg", "PATE")),
            **{name: partial(on_split, 0, partial(_shared, *which)) for name, which in _ONE_ROUND.items()},
        },
        [Grid("", [Column("accuracy", "{}: accuracy")], each=["FedKT", "SOLO", "FedAvg", *_ONE_ROUND, "PATE"])],
        2,
        settings=clothes(50_000, 5_000, 20),
        fast={**_SMALL, "epochs": 5},
        smoke={**_OF_IMAGES},
        paper="FedKT, Table 1",
        other_data="FashionMNIST",
    ),
    "fedkt-columns": Table(
        "FedKT on Adult by what its trees see",
        "50 parties by Dirichlet(.5), s = 2, t = 5, trees of depth 6; forests have 20, and so has the final model. "
        "Dummy columns are one for each category, plain columns are the 14 of the data, with a number for each "
        "category. Scikit-learn's forests let each split see the square root of all columns, single trees all of them.",
        [
            Row(name, settings, paper=_PAPER_1 if name.startswith("single trees, plain") else {})
            for name, settings in _columns(20).items()
        ],
        _methods(_SHOWN),
        [Grid("Teachers and students", by_method(_SHOWN))],
        2,
        settings=adult(20),
        smoke={**_SMOKE, "student-params": _FOREST},
        smoke_rows=["forests, dummy columns", "single trees, plain columns"],
        paper="FedKT, Table 1",
    ),
    "fedkt-rounds": Table(
        "FedKT-Prox next to FedProx and FedAvg, Figure 2",
        "Paper: on SVHN, without figures in the text but one: 87% after about 11 rounds, where the others need 32. "
        f"{_ON_IMAGES} One epoch a round, mu = .1. The first round of FedKT-Prox is FedKT. Accuracy of the global "
        "model on the pooled test set.",
        [Row("FashionMNIST")],
        {"": _by_round},
        [
            Grid(
                "Round",
                [Column(name, f"{name}, {{}}") for name in ("FedAvg", "FedProx", "FedKT-Prox")],
                each=[str(number) for number in range(1, _ROUNDS + 1)],
            )
        ],
        2,
        settings={**clothes(50_000, 5_000, 20), "rounds": _ROUNDS},
        fast={**_SMALL, "epochs": 5, "rounds": 3},
        smoke={**_OF_IMAGES, "rounds": 2},
        paper="FedKT, Figure 2",
        other_data="FashionMNIST",
        words=[Words("FedKT-Prox needs fewer rounds than FedProx and FedAvg", ("3", "FedKT-Prox"), ("6", "FedAvg"))],
    ),
    "fedkt-speed": Table(
        "FedKT's cost next to a plain loop of as many forests",
        "Adult, 50 parties, 500 teachers and 100 students: random forests of 100 trees of depth 6. The loop fits as "
        "many forests to as many records and nothing else; FedKT also preprocesses, has teachers and students predict, "
        "counts, and trains the final model. Processor seconds.",
        [Row("Adult")],
        {"": _speed},
        [
            Grid(
                "",
                [
                    Column("plain joblib loop", "loop", ".1f"),
                    Column("FedKT", "FedKT", ".1f"),
                    Column("ratio", "ratio", ".2f"),
                ],
            )
        ],
        1,
        settings={**adult(TREES), "private-size": 36_631, "public-size": 6_105, "query-size": 6_105, "teachers": 5},
        fast={"num-silos": 10, "private-size": 7_326},
        smoke={**_SMOKE, "learner-params": _FOREST, "student-params": _FOREST},
    ),
    "fedkt-table3": _on_adult(
        "the size of the public set, Table 3",
        "A share of the 4,070 public examples is there at all; no other examples are labeled or learned from.",
        [
            Row(
                f"{share}%",
                {"public-size": 4070 * share // 100, "query-size": 4070 * share // 100},
                paper=_shares(accuracy=paper),
            )
            for share, paper in ((20, "82.1"), (40, "82.1"), (60, "82.1"), (80, "82.3"), (100, "82.2"))
        ],
        "Table 3",
    ),
    "fedkt-table6": _on_adult(
        "students of each party, Table 6",
        "s = 1 to 5 partitions with 5 teachers each. Splits are those that leave every silo s * t = 25 records.",
        [
            Row(f"s = {number}", {"partitions": number, "teachers": 5}, paper=_shares(accuracy=paper))
            for number, paper in enumerate(("80.8 ± 1.4", "82.2 ± 0.6", "81.5 ± 0.6", "81.2 ± 0.5", "81.1 ± 0.1"), 1)
        ],
        "Table 6",
        fewest=25,
    ),
    "fedkt-table7": _on_adult(
        "teachers of each student, Table 7",
        "t = 5 to 20 with s = 2. Splits are those that leave every silo s * t = 40 records; the paper's has a party "
        "with fewer than 15, and no figures for t = 15 and t = 20.",
        [
            Row(f"t = {number}", {"teachers": number}, paper=_shares(accuracy=paper) if paper else {})
            for number, paper in ((5, "82.0 ± 0.6"), (10, "81.1 ± 0.7"), (15, ""), (20, ""))
        ],
        "Table 7",
        fewest=40,
    ),
    "fedkt-table8": _on_adult(
        "noise at the coordinator for parties, L1, Table 8",
        "50 parties, s = 1, t = 5, delta = 1e-5; L0 with s = 2. Epsilon is in total and for a party as a whole, not "
        "from the coordinator. The paper's depends on the votes and is as private as they are; ours do not.",
        _noisy("L1", _PAPER_8),
        "Table 8",
    ),
    "fedkt-table9": _on_adult(
        "noise at the silos for their examples, L2, Table 9",
        "20 parties, s = 1, t = 25, delta = 1e-5; L0 with s = 2, t = 5. Epsilon is in total and for an example. Splits "
        "are those that leave every silo 25 records. Queries are what the silos' teachers label; students then label "
        "all 4,070 public examples, from which the final model learns.",
        _noisy("L2", _PAPER_9),
        "Table 9",
        fewest=25,
        **{"num-silos": 20},
    ),
}
