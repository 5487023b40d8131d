"""One run by the public door, and the scores of its silos alone, together, and with all data in one place."""

import math

import numpy as np

from benchmarks.harness import Settings
from fedct_flwr import Run, simulate
from fedct_flwr.consensus.counting import plurality, tally
from fedct_flwr.evaluation.references import local_only
from fedct_flwr.scoring import accuracy
from fedct_flwr.seeding import generator
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Features, HardLabels

LOCAL, TOGETHER, POOLED = WAYS = ("local", "federated", "centralized")
"""Each silo alone, co-trained to the fixed point or the last round, and trained on all private records."""
PAPERS_WAY = {"algorithm": "fedct", "pseudo_weight": 1.0}
"""A majority, and pseudo-labels that count as much as records."""


def simulated(settings: Settings) -> Run:
    """The run of a data set by name; settings are the run config's, and what they leave out has its default."""
    given = {key.replace("-", "_"): value for key, value in settings.items()}
    data, rounds = given.pop("data"), given.pop("num_server_rounds", None)
    return simulate(data, rounds=rounds, progress=False, **given)


def scores(run: Run, measure: str = "balanced_accuracy") -> dict[str, float]:
    """Means over the silos that have a score, as ``TEST_WAY``: a small test set may hold a single class."""
    names = [f"{test}_{way}" for test in ("own", "pooled") for way in WAYS]
    means = {name: float(run.scores[f"{name}_{measure}"].mean()) for name in names}
    return {name: mean for name, mean in means.items() if not math.isnan(mean)}


def cost(run: Run) -> dict[str, float]:
    """Rounds, their seconds together, and bytes that a silo sends in one."""
    sent = float(run.scores["bytes_sent"].mean()) / len(run.rounds)
    return {"rounds": len(run.rounds), "seconds": float(run.rounds["seconds"].sum()), "bytes": sent}


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
