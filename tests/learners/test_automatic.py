"""Which learner a silo picks, for classes and for a number."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.learners import Choosing, Probabilistic, Resumable, Saveable, SoftFittable, automatic
from fedct_flwr.learners.automatic import FEWEST, SAFE, TINY, Automatic, AutomaticRegressor, Candidate
from fedct_flwr.learners.build import learner_for
from fedct_flwr.learners.feature_pipelines import PATCHES, TABLE, WORDS, Patches, patches_of, views_for
from fedct_flwr.types import Examples

SCHEMA = Schema.numeric(("ill", "well"), ("a", "b", "c"))
DAYS = Schema((), tuple(map(Column, "abc")), "days")


def settings(**more: Any) -> LearnerSettings:
    return LearnerSettings.model_validate({"name": "auto", **more})


def made(private: Examples, schema: Schema = SCHEMA, **more: Any) -> Automatic | AutomaticRegressor:
    found = learner_for(settings(**more), "essen", schema, PublicSet(private.X), private.X)
    assert isinstance(found, Automatic if schema is SCHEMA else AutomaticRegressor)
    return found


def linear(count: int, seed: int = 0) -> Examples:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 3))
    return Examples(X, (X.sum(axis=1) + rng.normal(size=count) > 0).astype(np.int16))


def ring(count: int, seed: int = 0) -> Examples:
    """Records that no line divides."""
    X = np.random.default_rng(seed).normal(size=(count, 3))
    return Examples(X, (np.abs(X[:, 0]) > 0.67).astype(np.int16))


def chosen(private: Examples, schema: Schema = SCHEMA, **more: Any) -> str:
    learner = made(private, schema, **more)
    learner.choose(private)
    assert learner.choice is not None
    return learner.choice.name


@pytest.mark.parametrize("seed", range(3))
def test_a_line_where_a_line_will_do(seed: int):
    assert chosen(linear(150, seed)) == "logistic-regression"


@pytest.mark.parametrize("seed", range(3))
def test_trees_where_it_will_not(seed: int):
    assert chosen(ring(150, seed)) != "logistic-regression"


@pytest.mark.parametrize(
    ("private", "safe"),
    [
        (linear(1), TINY),
        (linear(FEWEST - 1), TINY),
        (Examples(linear(200).X, np.zeros(200, dtype=np.int16)), SAFE),
        (Examples(linear(200).X, (np.arange(200) < 3).astype(np.int16)), SAFE),
    ],
    ids=["one record", "few records", "one class", "few of a class"],
)
def test_a_safe_one_where_records_cannot_tell(private: Examples, safe: Candidate, monkeypatch: pytest.MonkeyPatch):
    def never(*_: Any) -> None:
        raise AssertionError("compared")

    monkeypatch.setattr(automatic, "_chosen", never)
    learner = made(private)
    learner.choose(private)
    assert learner.choice == safe
    assert len(learner.fit(*private).predict(private.X)) == private.size


def test_the_choice_is_made_once_and_the_same_again():
    learner = made(ring(150))
    learner.choose(ring(150))
    first = learner.choice
    learner.choose(linear(150))
    assert learner.choice == first
    automatic._chosen.cache_clear()
    assert chosen(ring(150)) == first.name  # type: ignore[union-attr]


def test_teachers_and_students_choose_nothing():
    """What they are must not depend on records: they are counted as one model that each record changes a part of."""
    assert settings(**{"pseudo-weight": "auto"}).of_parts == LearnerSettings.model_validate(
        {"name": "logistic-regression"}
    )
    assert settings().model_copy(update={"name": "svm"}).of_parts.name == "svm"


def values(count: int, *, bent: bool = False, seed: int = 0) -> Examples:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 3))
    y = (np.abs(X[:, 0]) > 0.67) * 10.0 if bent else X.sum(axis=1)
    return Examples(X, y + rng.normal(size=count) / 2)


@pytest.mark.parametrize("seed", range(2))
def test_for_a_number_a_line_where_a_line_will_do_and_trees_where_not(seed: int):
    assert chosen(values(120, seed=seed), DAYS) == "ridge"
    assert chosen(values(120, bent=True, seed=seed), DAYS) != "ridge"


@pytest.mark.parametrize(
    "private",
    [
        values(1),
        values(39),
        Examples(values(60).X, np.full(60, 2.5)),
        values(60)._replace(X=np.full((60, 3), np.nan)),
    ],
    ids=["one record", "few", "one value", "nothing measured"],
)
def test_values_that_cannot_tell(private: Examples):
    learner = made(private, DAYS)
    learner.choose(private)
    assert np.isfinite(learner.fit(*private).predict(private.X)).all()


# --- images and text


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


def made_of(schema: Schema, private: Examples) -> Automatic:
    found = learner_for(AUTO, "essen", schema, PublicSet(private.X), private.X)
    assert isinstance(found, Automatic)
    return found


def test_images_are_learned_without_a_network():
    private, others = digits(150), digits(600)
    learner = made_of(DIGITS, private)
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
    learner = made_of(NOTES, private)
    learner.choose(private)
    assert learner.choice is not None
    assert learner.choice.view == view
    assert (learner.fit(*private).predict(private.X) == private.y).mean() > 0.95
