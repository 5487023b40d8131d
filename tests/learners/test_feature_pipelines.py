"""Which learner a silo picks where records are images, or hold text."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.learners.automatic import Automatic
from fedct_flwr.learners.base import Choosing, Probabilistic, Resumable, Saveable, SoftFittable
from fedct_flwr.learners.build import learner_for
from fedct_flwr.learners.feature_pipelines import PATCHES, TABLE, WORDS, Patches, patches_of, views_for
from fedct_flwr.types import Examples

DIGITS = Schema(tuple("0123456789"))
NOTES = Schema(("ill", "well"), (Column("age"), Column("note", text=True)))
AUTO = LearnerSettings(name="auto")


def digits(count: int) -> Examples:
    X, y = load_digits(return_X_y=True)
    return Examples((X[:count] * 15).astype(np.uint8).reshape(-1, 1, 8, 8), y[:count].astype(np.int16))


def notes(count: int, told_by: str, schema: Schema = NOTES, seed: int = 0) -> Examples:
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=count).astype(np.int16)
    shown = y if told_by == "words" else rng.integers(2, size=count)
    words = np.array(["the patient coughs a lot", "the patient runs and swims"], dtype=object)[shown]
    # The ill are the young and the old: no line tells them apart.
    age = rng.normal(size=count) / 4 + (2 * y * rng.choice([-1, 1], count) if told_by == "age" else 0)
    columns: list[NDArray[Any]] = [age.astype(object), words]
    return Examples(np.stack(columns[2 - len(schema.columns) :], axis=1), y)


def made(schema: Schema, private: Examples) -> Automatic:
    found = learner_for(AUTO, "essen", schema, PublicSet(private.X), private.X)
    assert isinstance(found, Automatic)
    return found


def test_images_are_learned_without_a_network():
    private, others = digits(150), digits(600)
    learner = made(DIGITS, private)
    learner.choose(private)
    assert learner.choice is not None
    assert learner.choice.words == "logistic regression on patches, class-balanced"
    assert (learner.fit(*private).predict(others.X[150:]) == others.y[150:]).mean() > 0.83
    for capability in (Choosing, Probabilistic, Saveable, SoftFittable):
        assert isinstance(learner, capability)
    assert not isinstance(learner, Resumable)


def test_patches_are_learned_from_the_public_set_alone():
    public, private = digits(40).X, digits(90).X[40:]
    views = views_for(DIGITS, public, private)
    assert views is not None
    assert np.array_equal(views.transformers[PATCHES].centers_, patches_of(public.copy()).centers_)
    assert np.array_equal(views.transformers[PATCHES].centers_, Patches().fit(public).centers_)


@pytest.mark.parametrize(("told_by", "view"), [("words", WORDS), ("age", TABLE)])
def test_words_are_read_where_they_tell_more(told_by: str, view: str):
    private = notes(120, told_by)
    learner = made(NOTES, private)
    learner.choose(private)
    assert learner.choice is not None
    assert learner.choice.view == view
    assert (learner.fit(*private).predict(private.X) == private.y).mean() > 0.95
