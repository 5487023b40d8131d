"""Which learner a silo picks where records are images, or hold text."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from fedct_flwr.config import LearnerSettings
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.learners.automatic import Automatic
from fedct_flwr.learners.base import Choosing, Probabilistic, Resumable, Saveable, SoftFittable
from fedct_flwr.learners.build import learner_for, untrained
from fedct_flwr.learners.image_features import Patches, Pixels, patches_of
from fedct_flwr.learners.text import transformer_for
from fedct_flwr.learners.views import PATCHES, TABLE, WORDS, views_for
from fedct_flwr.models.audit import read_object
from fedct_flwr.types import Examples, LearnerError

DIGITS = Schema(tuple("0123456789"))
NOTES = Schema(("ill", "well"), (Column("age"), Column("note", text=True)))
TEXT_ALONE = Schema(("ill", "well"), (Column("note", text=True),))
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


def _young(private: Examples) -> Examples:
    """The same, of whom the old are healthy."""
    return Examples(private.X, (private.X[:, 0] < -0.8).astype(np.int16))


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


def test_a_model_of_images_is_saved_and_read_where_nothing_else_is_trusted(tmp_path: Path):
    private = digits(60)
    learner = made(DIGITS, private).fit(*private)
    learner.save(tmp_path / "model.skops")
    loaded = made(DIGITS, private).load(tmp_path / "model.skops")
    assert loaded.predict(private.X).tolist() == learner.predict(private.X).tolist()
    read_object((tmp_path / "model.skops").read_bytes(), "the model")


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 2), (1, 28, 28), (3, 70, 41), (2, 300, 300)])
def test_images_of_any_size_become_few_numbers(shape: tuple[int, ...]):
    X = np.random.default_rng(0).integers(256, size=(7, *shape)).astype(np.uint8)
    patches = Patches().fit(X)
    for transformer in (patches, Pixels()):
        found = transformer.transform(X)
        assert found.shape[0] == 7
        assert found.shape[1] <= 1024
        assert np.isfinite(found).all()
        assert transformer.transform(X[:0]).shape == (0, found.shape[1])
        # Each by itself, and bytes are what they stand for.
        assert np.allclose(transformer.transform(X[3:4]), found[3:4], atol=2e-4)
        assert np.allclose(transformer.transform((X / np.float32(255)).astype(np.float32)), found, atol=2e-4)


def test_images_of_one_color_are_no_reason_to_fail():
    X = np.full((50, 1, 9, 9), 7, dtype=np.uint8)
    private = Examples(X, np.tile(np.int16([0, 1]), 25))
    learner = made(Schema(("a", "b")), private)
    learner.choose(private)
    assert len(learner.fit(*private).predict(X)) == 50


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


def test_text_alone_and_few_records():
    private = notes(10, "words", TEXT_ALONE)
    learner = made(TEXT_ALONE, private)
    learner.choose(private)
    assert learner.choice is not None
    assert learner.choice.name == "tfidf-linear"
    assert (learner.fit(*private).predict(private.X) == private.y).all()


@pytest.mark.parametrize(("schema", "private"), [(DIGITS, digits(50)), (NOTES, _young(notes(50, "age")))])
def test_teachers_are_linear_on_a_view_that_does_not_depend_on_records(schema: Schema, private: Examples):
    transformer = transformer_for(AUTO, schema, private.X)
    teacher = untrained(AUTO.of_parts, 0, len(schema.classes), private.X[:2], transformer)
    assert (teacher.fit(*private).predict(private.X) == private.y).mean() > 0.8


def test_teachers_read_no_text():
    transformer = transformer_for(AUTO, TEXT_ALONE, notes(50, "words", TEXT_ALONE).X)
    with pytest.raises(LearnerError, match="hold text"):
        untrained(AUTO.of_parts, 0, 2, notes(2, "words", TEXT_ALONE).X, transformer)
