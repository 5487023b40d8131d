"""Runs by the public door, as ``federation.toml`` declares them: silos alone, together, and all data in one place."""

import math
import warnings
from functools import partial
from typing import Any, Final

import numpy as np

from benchmarks.declared import tables
from benchmarks.harness import Method, Settings
from benchmarks.natural_silos import load_flamby
from fedct_flwr import Run, simulate
from fedct_flwr.consensus.counting import plurality, tally
from fedct_flwr.evaluation.references import local_only
from fedct_flwr.scoring import accuracy
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Features, HardLabels, generator


def scores(run: Run, measure: str = "balanced_accuracy") -> dict[str, float]:
    """Means over the silos that have a score, as ``TEST_WAY``: a small test set may hold a single class.

    Ways: ``local``, ``federated`` (the fixed point, or the last round), ``centralized``; ``ahead`` is 1 where the
    second is above the first.
    """
    names = [f"{test}_{way}" for test in ("own", "pooled") for way in ("local", "federated", "centralized")]
    columns = {name: f"{name}_{measure}" for name in names if f"{name}_{measure}" in run.scores}
    means = {name: float(run.scores[column].mean()) for name, column in columns.items()}
    found = {name: mean for name, mean in means.items() if not math.isnan(mean)}
    tests = [test for test in ("own", "pooled") if f"{test}_local" in found]
    return found | {f"{test}_ahead": float(found[f"{test}_federated"] > found[f"{test}_local"]) for test in tests}


def _measured(settings: Settings, vote: bool = False, **more: Any) -> dict[str, float]:
    """Scores; rounds, their seconds together, and bytes that a silo sends in one. Settings are the run config's."""
    warnings.simplefilter("ignore")
    given = {key.replace("-", "_"): value for key, value in settings.items()}
    data, rounds = given.pop("data"), given.pop("num_server_rounds", None)
    measure = given.pop("measure", "balanced_accuracy")
    run = simulate(data, rounds=rounds, progress=False, **{**given, **more})
    sent = float(run.scores["bytes_sent"].mean()) / len(run.rounds)
    cost = {"rounds": len(run.rounds), "seconds": float(run.rounds["seconds"].sum()), "bytes": sent}
    return {**scores(run, measure), **cost, **({"vote": vote_of_locals(run)} if vote else {})}


def vote_of_locals(run: Run) -> float:
    """Accuracy on the pooled test set of a plain vote of the silos' own models."""
    test, places = run.dataset.test, range(len(run.dataset.silos))
    votes = [local_only(run.config, run.dataset, place).predict(test.X) for place in places]
    counts = tally(votes, test.size, len(run.dataset.schema.classes))
    nothing = np.full(test.size, ABSTAIN, dtype=LABEL_DTYPE)
    return accuracy(Known(plurality(counts, nothing, generator(run.config.seed, "vote"))), test)


class Known:
    """Predictions that are there already, where a score asks a model."""

    def __init__(self, y: HardLabels) -> None:
        self._y = y

    def predict(self, X: Features) -> HardLabels:
        """The predictions."""
        return self._y


METHODS: Final[dict[str, Method]] = {
    "run": _measured,
    "run and vote": partial(_measured, vote=True),
    "majority": partial(_measured, algorithm="fedct"),
    # The other method has them.
    "Dawid-Skene": partial(_measured, algorithm="fedct-dawid-skene", baselines="none"),
}
TABLES: Final = tables(__file__, METHODS, loaders={"flamby": load_flamby})
