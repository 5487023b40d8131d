"""Texts of a silo that are nearly the same as public ones."""

import numpy as np
from numpy.random import Generator

from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.hospital.duplicates import find_duplicates
from fedct_flwr.hospital.text_similarity import similar_texts

SCHEMA = Schema(("well", "ill"), (Column("age"), Column("note", text=True)))


def notes(number: int, rng: Generator, words: int = 20) -> list[str]:
    return [" ".join(f"w{word}" for word in row) for row in rng.integers(0, 500, (number, words))]


def changed(text: str) -> str:
    words = text.split()
    words[len(words) // 2] = "other"
    return " ".join(words)


def test_changed_and_shortened_copies_are_near_and_strangers_are_not() -> None:
    rng = np.random.default_rng(0)
    own, public = notes(50, rng), notes(300, rng)
    assert not similar_texts(own, public).near.any()
    assert similar_texts(own, public).p_value == 1
    copies = [changed(text) for text in own[:8]] + [text[: 2 * len(text) // 3] for text in own[8:12]]
    found = similar_texts(own, public + copies)
    assert np.flatnonzero(found.near).tolist() == list(range(12))
    assert found.p_value < 0.01


def test_near_texts_are_counted_as_duplicates_and_raise_the_alarm() -> None:
    rng = np.random.default_rng(1)
    own, public = notes(60, rng), notes(200, rng)
    ages = rng.normal(50, 9, 260)

    def table(texts: list[str], age: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> np.ndarray:  # type: ignore[type-arg]
        return np.array([*zip(age.tolist(), texts, strict=False)], dtype=object)

    honest = find_duplicates(table(own, ages[:60]), table(public, ages[60:]), SCHEMA)
    assert not honest.alarm
    public[:10] = [changed(text) for text in own[:10]]
    forged = find_duplicates(table(own, ages[:60]), table(public, ages[60:]), SCHEMA)
    assert forged.alarm
    assert forged.near - honest.near >= 9
    assert not forged.exact
