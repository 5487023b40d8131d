"""Which learner a silo picks where a number is predicted."""

import numpy as np
import pytest

from fedct_flwr.config import LearnerSettings
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.learners.automatic import AutomaticRegressor
from fedct_flwr.learners.base import Choosing
from fedct_flwr.learners.build import learner_for
from fedct_flwr.types import Examples

SCHEMA = Schema((), tuple(map(Column, "abc")), "days")


def records(count: int, *, bent: bool = False, seed: int = 0) -> Examples:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 3))
    y = (np.abs(X[:, 0]) > 0.67) * 10.0 if bent else X.sum(axis=1)
    return Examples(X, y + rng.normal(size=count) / 2)


def made(private: Examples) -> AutomaticRegressor:
    found = learner_for(LearnerSettings(name="auto"), "essen", SCHEMA, PublicSet(private.X), private.X)
    assert isinstance(found, AutomaticRegressor)
    return found


def chosen(private: Examples) -> str:
    learner = made(private)
    learner.choose(private)
    assert learner.choice is not None
    return learner.choice.name


@pytest.mark.parametrize("seed", range(2))
def test_a_line_where_a_line_will_do_and_trees_where_not(seed: int):
    assert chosen(records(120, seed=seed)) == "ridge"
    assert chosen(records(120, bent=True, seed=seed)) != "ridge"


@pytest.mark.parametrize(
    "private",
    [
        records(1),
        records(39),
        Examples(records(60).X, np.full(60, 2.5)),
        records(60)._replace(X=np.full((60, 3), np.nan)),
    ],
    ids=["one record", "few", "one value", "nothing measured"],
)
def test_records_that_cannot_tell(private: Examples):
    learner = made(private)
    learner.choose(private)
    assert isinstance(learner, Choosing)
    assert np.isfinite(learner.fit(*private).predict(private.X)).all()
