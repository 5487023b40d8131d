"""Scores of all silos together from one secure sum of counts with noise, for studies in which silos promise something.

Each silo trains a model on the public labels alone, and counts its test records by true and predicted class.
"""

import math
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.coordinator.summing import NoisySums
from fedct_flwr.drawing.counts import GRID, SURE, CountPlan, noisy_number
from fedct_flwr.files import write_json
from fedct_flwr.types import RunError
from fedct_flwr.wire.content import Histograms, Instruction, Query
from fedct_flwr.wire.sums import SCORES

if TYPE_CHECKING:
    from flwr.serverapp import Grid

    from fedct_flwr.config.study import StudyScores
    from fedct_flwr.coordinator.study import Study
    from fedct_flwr.datasets.study_folder import StudyFolder

_FILE: Final = "scores_of_all.json"
"""The scores, in the run's folder."""


def noisy_scores(study: "Study", grid: "Grid", agreed: "StudyScores") -> dict[str, Any]:
    """The scores of a run of real silos that has ended, by ``[scores]`` of their study, for ``result.json``.

    A sum that is not opened fails no run: the reason stands in its place.
    """
    folder, classes = cast("StudyFolder", study.subject.folder), study.terms.num_classes
    plan = CountPlan.of(agreed, folder.config.sums, classes**2)
    asked, number = Histograms(folder.digest, plan.numbers, scores=True), len(study.folder.rounds()) + 1
    kept = study.folder.path / _FILE
    # A run that is resumed without another round has paid for its scores.
    if kept.exists() and (known := study.folder.read_json(_FILE))["after_round"] == number - 1:
        return {"scores": known}
    labels, sums = study.folder.load_checkpoint().targets, NoisySums(study, grid, SCORES, rounds=False)
    question = Instruction(number, Query(0, len(labels)), labels, histograms=asked)
    try:
        total, silos = sums.opened(question, lambda total, silos: plan.wrong(total.view(np.int64), silos))
    except RunError as why:
        return {"scores": {"missing": str(why)}}
    facts = {"epsilon": agreed.epsilon, "delta": agreed.delta, "silos": silos, "after_round": number - 1}
    counts = (total.view(np.int64) / GRID).reshape(classes, classes)
    facts |= of_counts(counts, plan.noise.spread(silos) / GRID)
    write_json(kept, facts)
    return {"scores": facts}


def of_counts(counts: NDArray[np.float64], noise: float) -> dict[str, Any]:
    """Accuracy and balanced accuracy from counts ``(classes, classes)`` by true and predicted class.

    ``noise`` is its standard deviation in one count. Intervals of 95% have the variance of the test records and, by the
    delta method, that of noise.
    """
    classes = len(counts)
    of_class = np.maximum(counts.sum(axis=1), 1.0)
    recall = np.clip(counts.diagonal() / of_class, 0, 1)
    by_noise = noise**2 * ((1 - recall) ** 2 + (classes - 1) * recall**2) / of_class**2
    balanced = float(recall.mean()), math.sqrt(float((recall * (1 - recall) / of_class + by_noise).sum())) / classes
    records = max(float(counts.sum()), 1.0)
    p = min(max(float(counts.trace()) / records, 0.0), 1.0)
    spread = noise**2 * classes * ((1 - p) ** 2 + (classes - 1) * p**2) / records**2
    accuracy = p, math.sqrt(p * (1 - p) / records + spread)
    return {
        "test_records": noisy_number(records, noise * classes),
        "accuracy": _interval(*accuracy),
        "balanced_accuracy": _interval(*balanced),
    }


def _interval(value: float, error: float) -> dict[str, float]:
    low, high = max(0.0, value - SURE * error), min(1.0, value + SURE * error)
    return {"value": round(value, 3), "low": round(low, 3), "high": round(high, 3)}
