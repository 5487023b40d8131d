"""Choice and guard together, on records that nobody would wish for."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fedct_flwr.config import LearnerSettings
from fedct_flwr.datasets.public_set import PublicSet, Query
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners.base import Choosing
from fedct_flwr.learners.build import learner_for
from fedct_flwr.learners.cotraining import cotrain
from fedct_flwr.learners.guard import Guard, Trust
from fedct_flwr.types import Examples, HardLabels


def normal(count: int, columns: int = 3) -> NDArray[np.float64]:
    return np.random.default_rng(1).normal(size=(count, columns))


def classes_of(values: object) -> HardLabels:
    return np.asarray(values, dtype=np.int16)


def decided(
    private: Examples,
    classes: int = 2,
    *,
    learner: str = "auto",
    groups: NDArray[np.intp] | None = None,
    wrong: bool = False,
) -> Trust:
    """What a silo makes of a consensus that is noise, or ``wrong``: the opposite of what sums of columns say."""
    schema = Schema.numeric(
        tuple(f"class {i}" for i in range(classes)), tuple(f"x{i}" for i in range(private.X.shape[1]))
    )
    public = PublicSet(np.random.default_rng(2).normal(size=(60, private.X.shape[1])))
    targets = classes_of(np.random.default_rng(3).integers(classes, size=60))
    if wrong:
        targets = classes_of(public.X.sum(axis=1) < 0)
    made = learner_for(LearnerSettings(name=learner), "essen", schema, public, private.X)
    if isinstance(made, Choosing):
        made.choose(private, groups)
    guard = Guard(private, classes, 0, "essen", groups)
    votes = cotrain(made, private, public, targets, Query(0, 60), guard=guard)
    assert votes.min() >= 0
    assert votes.max() < classes
    assert guard.last is not None
    return guard.last


@pytest.mark.parametrize(
    "private",
    [
        Examples(normal(4), classes_of(np.zeros(4))),
        Examples(normal(1), classes_of([1])),
        Examples(normal(3), classes_of([0, 1, 1])),
    ],
    ids=["four of one class", "one record", "a class with one record"],
)
def test_records_that_cannot_tell_trust(private: Examples):
    assert decided(private) == Trust(1.0, None)


def test_what_is_wrong_is_not_trusted_where_records_tell():
    X = normal(120)
    private = Examples(X, classes_of(X.sum(axis=1) > 0))
    assert decided(private, wrong=True).weight < 1.0
    # Knows no probabilities.
    assert decided(private, learner="svm", wrong=True).weight < 1.0


def test_forty_classes_of_few_records():
    evidence = decided(Examples(normal(120), classes_of(np.arange(120) % 40)), 40).evidence
    assert evidence is not None
    assert evidence.records == 120
