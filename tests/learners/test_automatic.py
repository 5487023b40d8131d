"""Which learner a silo picks."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from fedct_flwr.config import LearnerSettings, RunConfig
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners import automatic
from fedct_flwr.learners.automatic import BOOSTED, CANDIDATES, FEWEST, SAFE, TINY, Automatic, Candidate
from fedct_flwr.learners.base import Choosing, Probabilistic, Saveable, SoftFittable
from fedct_flwr.learners.build import learner_for
from fedct_flwr.learners.catalog import check_allowed
from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.types import Examples, LearnerError
from tests import hospitals

SCHEMA = Schema.numeric(("ill", "well"), ("a", "b", "c"))


def settings(**more: Any) -> LearnerSettings:
    return LearnerSettings.model_validate({"name": "auto", **more})


def made(private: Examples, **more: Any) -> Automatic:
    found = learner_for(settings(**more), "essen", SCHEMA, PublicSet(private.X), private.X)
    assert isinstance(found, Automatic)
    return found


def linear(count: int, seed: int = 0) -> Examples:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 3))
    return Examples(X, (X.sum(axis=1) + rng.normal(size=count) > 0).astype(np.int16))


def ring(count: int, seed: int = 0) -> Examples:
    """Records that no line divides."""
    X = np.random.default_rng(seed).normal(size=(count, 3))
    return Examples(X, (np.abs(X[:, 0]) > 0.67).astype(np.int16))


def chosen(private: Examples, **more: Any) -> str:
    learner = made(private, **more)
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


def test_columns_that_are_constant_or_never_measured():
    private = Examples(np.full((80, 3), np.nan), np.tile(np.int16([0, 1]), 40))
    private.X[:, 0] = 1.0
    learner = made(private)
    learner.choose(private)
    assert len(learner.fit(*private).predict(private.X)) == 80


def test_what_a_first_look_gives_up_is_asked_no_more(monkeypatch: pytest.MonkeyPatch):
    fits: list[str] = []
    original = SklearnLearner.fit

    def watched(self: SklearnLearner, *more: Any, **others: Any) -> SklearnLearner:
        fits.append(type(self._template).__name__)
        return original(self, *more, **others)

    monkeypatch.setattr(SklearnLearner, "fit", watched)
    automatic._chosen.cache_clear()
    assert chosen(ring(200)) != "logistic-regression"
    # Two folds of five.
    assert fits.count("LogisticRegression") == 2


def test_the_choice_is_made_once_and_the_same_again():
    learner = made(ring(150))
    learner.choose(ring(150))
    first = learner.choice
    learner.choose(linear(150))
    assert learner.choice == first
    automatic._chosen.cache_clear()
    assert chosen(ring(150)) == first.name  # type: ignore[union-attr]


def test_without_a_choice_each_fit_picks_for_its_own_examples():
    learner = made(ring(300))
    for private in (linear(300), ring(300), linear(300)):
        learner.fit(*private)
        fresh = made(ring(300)).fit(*private)
        assert learner.predict(private.X).tolist() == fresh.predict(private.X).tolist()
    assert learner.choice is None


def test_it_can_do_what_its_candidates_can(tmp_path: Path):
    private = ring(150)
    learner = made(private).fit(*private)
    for capability in (Choosing, Probabilistic, Saveable, SoftFittable):
        assert isinstance(learner, capability)
    learner.check_soft()
    learner.save(tmp_path / "model.skops")
    loaded = made(private).load(tmp_path / "model.skops")
    assert loaded.predict(private.X).tolist() == learner.predict(private.X).tolist()


def test_large_records_are_compared_on_some_of_them(monkeypatch: pytest.MonkeyPatch):
    seen = []
    original = automatic._chosen

    def watched(table: Any, *more: Any) -> int:
        seen.append(len(table.y))
        return original(table, *more)

    monkeypatch.setattr(automatic, "_chosen", watched)
    chosen(linear(5000))
    assert seen == [automatic._MOST]


def test_boosted_trees_are_left_out_where_they_take_minutes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(automatic, "CANDIDATES", CANDIDATES[-1:])
    automatic._chosen.cache_clear()
    assert chosen(ring(150)) == BOOSTED
    automatic._chosen.cache_clear()
    monkeypatch.setattr(automatic, "MOST_WORK", 10)
    assert chosen(ring(150)) == SAFE.name
    automatic._chosen.cache_clear()


def test_classes_weigh_the_same_unless_that_is_worse():
    learner = made(ring(300))
    learner.choose(ring(300))
    assert learner.choice is not None
    assert learner.choice.words == f"{learner.choice.name.replace('-', ' ')}, class-balanced"
    assert replace(learner.choice, balanced=False).words == learner.choice.name.replace("-", " ")


@pytest.mark.parametrize(
    ("more", "schema", "shape", "words"),
    [
        ({"params": {"depth": 3}}, SCHEMA, (3,), "takes no parameters"),
        ({"preprocessing": "none"}, Schema(("a", "b")), (8, 8), "name a network"),
    ],
)
def test_what_it_is_not_for(more: dict[str, Any], schema: Schema, shape: tuple[int, ...], words: str):
    X = np.zeros((4, *shape))
    with pytest.raises(LearnerError, match=words):
        learner_for(settings(**more), "essen", schema, PublicSet(X), X)


def test_it_is_allowed_at_every_silo():
    check_allowed("auto", ())


def test_teachers_and_students_choose_nothing():
    """What they are must not depend on records: they are counted as one model that each record changes a part of."""
    assert settings(**{"pseudo-weight": "auto"}).of_parts == LearnerSettings.model_validate(
        {"name": "logistic-regression"}
    )
    assert settings().model_copy(update={"name": "svm"}).of_parts.name == "svm"


def test_names_are_suggested():
    config = RunConfig.from_flower(
        {"study": "t", "data": "heart-disease", "learner": "aut", "learner-params": json.dumps({})}
    )
    dataset = hospitals.dataset()
    with pytest.raises(LearnerError, match="auto"):
        learner_for(config.learner_settings(0, 4), "x", dataset.schema, dataset.public, dataset.silos[0].private.X)


def test_few_records_become_many_examples():
    private = linear(12)
    learner = made(private)
    learner.choose(private)
    assert isinstance(learner.fit(*private).parts[1], LogisticRegression)
    assert isinstance(learner.fit(*linear(60)).parts[1], RandomForestClassifier)
    assert len(learner.lighter().fit(*linear(60)).parts[1].estimators_) == 25
    assert isinstance(learner.fit(*private).parts[1], LogisticRegression)
