"""FedKT and what it is compared with, on the one pipeline; ``fedkt.toml`` declares the paper's tables.

Li, He, Song, "Practical one-shot federated learning for cross-silo setting" (FedKT), IJCAI 2021, §5 and App. B.1.
"""

import json
import math
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.ensemble import RandomForestClassifier

from benchmarks import methods
from benchmarks.declared import tables
from benchmarks.harness import Method, Settings
from benchmarks.variants import change, config_of
from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import pool
from fedct_flwr.learners.preprocessing import standard
from fedct_flwr.privacy.mechanisms import Gumbel
from fedct_flwr.privacy.tally_noise import spent_by
from fedct_flwr.silo.simulated import simulated_site


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
    """``accuracy``, and with noise the epsilons: ``paper`` (its accountant), ``tightest`` (ours), ``gumbel``."""
    with tempfile.TemporaryDirectory() as temporary:
        accuracy, privacy, _ = transferred(config, f"{temporary}/run")
    if not privacy:
        return {"accuracy": accuracy}
    votes, gamma, queries = config.method.votes, 1 / privacy["scale"], privacy["queries"]
    # A party has the votes of all its students at L1; at L2 a record has one in each partition.
    told = (gamma, queries * votes, 1) if privacy["unit"] == "example" else (gamma, queries, votes)
    as_good = spent_by(Gumbel(privacy["scale"], told[2]), told[1], privacy["delta"])
    return {
        "accuracy": accuracy,
        "paper": moments_epsilon(*told, delta=privacy["delta"]),
        "tightest": privacy["epsilon"],
        "gumbel": as_good.epsilon,
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


def _with_majority(config: RunConfig) -> dict[str, float]:
    return {**fedkt(config), "majority": majority(config)["accuracy"]}


@lru_cache(maxsize=64)
def _enough(settings: str, fewest: int, seed: int) -> RunConfig:
    """The run config of the next seed after ``seed`` others whose split leaves every silo ``fewest`` records."""
    given = json.loads(settings)
    later = count(_enough(settings, fewest, seed - 1).seed + 1 if seed else 0)
    configs = (RunConfig.from_flower({**given, "seed": number}) for number in later)
    return next(one for one in configs if min(silo.private.size for silo in datasets.load(one).silos) >= fewest)


def on_split(measure: Callable[[RunConfig], Mapping[str, float]], settings: Settings) -> Mapping[str, float]:
    """Measure on the split of this seed; of splits only those count that leave every silo the ``fewest`` records."""
    methods.one_thread_per_silo()
    fewest = settings.get("fewest", 0)
    given = {key: value for key, value in settings.items() if key != "fewest"}
    if not fewest:
        return measure(RunConfig.from_flower(given))
    del given["seed"]
    return measure(_enough(json.dumps(given, sort_keys=True), fewest, settings["seed"]))


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


_OF_RUNS: Final[dict[str, Callable[[RunConfig], dict[str, float]]]] = {
    "FedKT": fedkt,
    "SOLO": solo,
    "FedAvg": fedavg,
    "PATE": pate,
    "majority class": majority,
    "with majority": _with_majority,
    **{name: partial(_shared, *which) for name, which in _ONE_ROUND.items()},
}
METHODS: Final[dict[str, Method]] = {
    **{name: partial(on_split, measure) for name, measure in _OF_RUNS.items()},
    "by round": _by_round,
    "speed": _speed,
}
TABLES: Final = tables(__file__, METHODS)
