"""FedKT and what it is compared with, on the one pipeline and on the paper's data; each measured for one seed.

Li, He, Song, "Practical one-shot federated learning for cross-silo setting" (FedKT), IJCAI 2021, §5 and App. B.1.
"""

import json
import math
import tempfile
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks import methods
from benchmarks.harness import Settings
from benchmarks.variants import change
from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import pool
from fedct_flwr.silo.simulated import simulated_site

PIPELINE: Final[dict[str, Any]] = {
    "study": "benchmark",
    "algorithm": "fedkt",
    "num-server-rounds": 1,
    "partition": "dirichlet",
    "dirichlet-concentration": 0.5,
    "save-models": False,
    # A machine with other work must not make silos come too late.
    "round-deadline": 36_000.0,
}


def adult(trees: int) -> dict[str, Any]:
    """Table 4's sizes; the paper has 32,561 records and tests on 4,070, here the other 20,351 of 48,842 are left."""
    return {
        **PIPELINE, **_sizes(24_421, 4_070), "data": "adult", "num-silos": 50,
        **_same_student("random-forest", {"n_estimators": trees, "max_depth": 6}),
    }  # fmt: skip


def adult_by_trees(trees: int) -> dict[str, Any]:
    """Adult with single trees of depth 6 as teachers and students, on the columns as they are.

    The paper's published code has single trees as teachers, though its text says forests. With dummy columns, a few of
    which each split sees, such shallow trees hardly ever name the rarer class (``fedkt-columns``).
    """
    single = {"learner": "decision-tree", "learner-params": json.dumps({"max_depth": 6}), "preprocessing": "none"}
    return {**adult(trees), **single}


def clothes(private: int, public: int, epochs: int) -> dict[str, Any]:
    """FashionMNIST in the place of MNIST, with the paper's network: two hidden layers of 100."""
    return {
        **PIPELINE, **_sizes(private, public), "data": "fashion-mnist", "num-silos": 10, "preprocessing": "none",
        "device": "cpu", "batch-size": 64, "weight-decay": 1e-6, "epochs": epochs,
        **_same_student("mlp", {"width": 100}),
    }  # fmt: skip


def _sizes(private: int, public: int) -> dict[str, Any]:
    """All of the public set is asked about; a larger one would be in part."""
    return {"private-size": private, "public-size": public, "query-size": public}


def _same_student(name: str, params: dict[str, Any]) -> dict[str, Any]:
    """Teachers, students and the final model are of one kind, as in the paper."""
    text = json.dumps(params)
    return {"learner": name, "learner-params": text, "student": name, "student-params": text}


class Transferred(NamedTuple):
    """End of a run: the student's accuracy on the pooled test set, its price, and where it is kept."""

    accuracy: float
    privacy: dict[str, Any]
    model: Path


def transferred(config: RunConfig, run_dir: str) -> Transferred:
    """Ask once, train the student. ``privacy`` is what ``result.json`` tells, empty without noise."""
    config = change(config, run_dir=run_dir)
    methods.run_federation(config)
    simulated_site.cache_clear()
    result = json.loads((Path(run_dir) / "result.json").read_text("utf-8"))
    model = result["global_model"]
    reached = model["scores"]["student"]["accuracy"]
    return Transferred(reached, result.get("privacy", {}), Path(run_dir) / model["file"])


def fedkt(config: RunConfig) -> dict[str, float]:
    """``accuracy``, and with noise the epsilons: ``paper`` (its accountant), ``tightest`` (ours)."""
    with tempfile.TemporaryDirectory() as temporary:
        accuracy, privacy, _ = transferred(config, f"{temporary}/run")
    if not privacy:
        return {"accuracy": accuracy}
    votes, gamma, queries = config.method.votes, 1 / privacy["scale"], privacy["queries"]
    # A party has the votes of all its students at L1; at L2 a record has one in each partition.
    told = (gamma, queries * votes, 1) if privacy["unit"] == "example" else (gamma, queries, votes)
    return {
        "accuracy": accuracy,
        "paper": moments_epsilon(*told, delta=privacy["delta"]),
        "tightest": privacy["epsilon"],
    }


def moments_epsilon(
    gamma: float, num_queries: int, partitions: int = 1, *, delta: float = 1e-5, orders: int = 8
) -> float:
    """Epsilon in total of ``num_queries`` examples by FedKT's own accountant, whatever the votes are.

    Theorems 2 to 6 of the paper. Valid and loose: it knows of the noise only that it is 2 gamma-DP, and tries few
    ``orders``. Left out: Theorem 8 (L1 for single examples), which counts the students that one record could change on
    the data at hand, a local sensitivity. ``partitions``: the votes of a party at L1.
    """
    order, strength = np.arange(1.0, orders + 1), gamma * partitions
    moments = num_queries * np.minimum(2 * strength**2 * order * (order + 1), 2 * strength * order)
    return float(((moments + math.log(1 / delta)) / order).min())


def solo(config: RunConfig) -> dict[str, float]:
    """Every silo trains alone; the mean of their accuracies."""
    return {"accuracy": methods.METHODS["local only"](config).accuracy}


def pate(config: RunConfig) -> dict[str, float]:
    """The paper's upper bound: one party has all records, and as many teachers as there were parties; no noise."""
    # The silos' own networks train for as long as students; other learners count no steps.
    trained = {"local_steps": steps(config, config.epochs)} if config.epochs else {}
    return fedkt(change(config, algorithm="pate", partition="iid", **trained))


def fedavg(config: RunConfig) -> dict[str, float]:
    """The average of the silos' networks after the paper's 10 local epochs, which was its best number."""
    return {"accuracy": methods.METHODS["FedAvg"](sharing_weights(config, epochs=10)).accuracy}


def majority(config: RunConfig) -> dict[str, float]:
    """The class that most private records have."""
    dataset = datasets.load(config)
    most = np.bincount(pool([silo.private for silo in dataset.silos]).y).argmax()
    return {"accuracy": float((dataset.test.y == most).mean())}


def sharing_weights(config: RunConfig, epochs: int) -> RunConfig:
    """The same federation for an algorithm that shares weights, with so many epochs of a mean silo in each round."""
    of_labels = {"student": "", "student_params": "{}", "query_size": 0, "epochs": 0}
    return change(config, algorithm="fedavg", local_steps=steps(config, epochs), **of_labels)


def steps(config: RunConfig, epochs: int) -> int:
    """Minibatches of so many epochs of a mean silo."""
    return max(1, epochs * config.private_size // config.num_silos // config.batch_size)


METHODS: Final[dict[str, Callable[[RunConfig], dict[str, float]]]] = {
    "FedKT": fedkt,
    "SOLO": solo,
    "FedAvg": fedavg,
    "PATE": pate,
    "majority class": majority,
}


@lru_cache(maxsize=64)
def _enough(settings: str, fewest: int, seed: int) -> RunConfig:
    """The run config of the next seed after ``seed`` others whose split leaves every silo ``fewest`` records."""
    given = json.loads(settings)
    later = count(_enough(settings, fewest, seed - 1).seed + 1 if seed else 0)
    configs = (RunConfig.from_flower({**given, "seed": number}) for number in later)
    return next(one for one in configs if min(silo.private.size for silo in datasets.load(one).silos) >= fewest)


def on_split(
    fewest: int, measure: Callable[[RunConfig], Mapping[str, float]], settings: Settings
) -> Mapping[str, float]:
    """Measure on the split of this seed; only splits that leave every silo ``fewest`` records are counted."""
    methods.one_thread_per_silo()
    if not fewest:
        return measure(RunConfig.from_flower(settings))
    given = {key: value for key, value in settings.items() if key != "seed"}
    return measure(_enough(json.dumps(given, sort_keys=True), fewest, settings["seed"]))
