"""Silos that are bad on purpose."""

from typing import Any

import numpy as np
import pytest

from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.partition import OF_LABELS
from fedct_flwr.learners.build import build_learner


def config(**settings: Any) -> RunConfig:
    given = {"study": "t", "data": "heart-disease", **{key.replace("_", "-"): value for key, value in settings.items()}}
    return RunConfig.from_flower(given)


def bad(corruption: str, **settings: Any) -> RunConfig:
    return config(bad_silos="zurich,budapest", corruption=corruption, **settings)


@pytest.mark.parametrize(
    ("corruption", "y", "expected"),
    [
        ("label-shift", [0, 1, 2, 3], [2, 3, 0, 1]),
        ("label-flip", [0, 1, 2, 3], [3, 2, 1, 0]),
    ],
)
def test_labels_are_shifted_and_flipped(corruption: str, y: list[int], expected: list[int]) -> None:
    found = OF_LABELS[corruption](np.int16(y), 4, 2, np.random.default_rng(0))
    assert found.tolist() == expected


@pytest.mark.parametrize("corruption", OF_LABELS)
def test_only_the_private_labels_of_bad_silos_change(corruption: str) -> None:
    clean, found = datasets.load(config()), datasets.load(bad(corruption))
    for before, after in zip(clean.silos, found.silos, strict=True):
        np.testing.assert_array_equal(before.private.X, after.private.X)
        np.testing.assert_array_equal(before.test.y, after.test.y)
        changed = (before.private.y != after.private.y).any()
        assert changed == (before.name in ("zurich", "budapest"))
        assert after.private.y.dtype == before.private.y.dtype
    np.testing.assert_array_equal(clean.test.y, found.test.y)


def test_colluders_vote_for_the_chosen_class_together_and_the_others_as_they_learn() -> None:
    settings = bad("collusion", corruption_number=0)
    dataset = datasets.load(settings)
    for position, silo in enumerate(dataset.silos):
        learner = build_learner(settings, dataset, position, silo.private.X).fit(*silo.private)
        votes = set(learner.predict(dataset.public.X).tolist())
        assert (votes == {0}) == (silo.name in ("zurich", "budapest"))


@pytest.mark.parametrize("data", ["heart-disease", "breast-cancer"])
def test_the_truth_of_the_public_set_is_that_of_the_records_it_came_from(data: str) -> None:
    # Another share of the records is public: those that are labeled there have the labels that they lost here.
    dataset = datasets.load(config(data=data))
    labeled: dict[bytes, set[int]] = {}
    for seed in range(1, 4):
        other = datasets.load(config(data=data, seed=seed))
        for part in (other.test, *(silo.private for silo in other.silos)):
            for x, c in zip(part.X, part.y, strict=True):
                labeled.setdefault(x.tobytes(), set()).add(int(c))
    assert dataset.truth is not None
    known = [
        (c, labeled[x.tobytes()])
        for x, c in zip(dataset.public.X, dataset.truth, strict=True)
        if x.tobytes() in labeled
    ]
    assert len(known) > 100
    assert all(c in labels for c, labels in known)
