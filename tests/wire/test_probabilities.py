"""Probabilities to bytes and back: one encoding, that moves none of them by much, and no other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr.types import Refusal, Refused
from fedct_flwr.wire.packing import (
    UNITS,
    pack_probabilities,
    quantized,
    unpack_probabilities,
)

seeds = st.integers(0, 2**32 - 1)


def some(count: int, num_classes: int, seed: int, concentration: float = 0.5) -> np.ndarray:
    rows = np.random.default_rng(seed).dirichlet(np.full(num_classes, concentration), count)
    return rows.astype(np.float32)


@given(st.integers(1, 40), st.integers(2, 300), st.sampled_from([0.05, 0.5, 50.0]), seeds)
def test_no_probability_moves_by_a_unit_and_rows_sum_to_one(
    count: int, num_classes: int, concentration: float, seed: int
) -> None:
    probabilities = some(count, num_classes, seed, concentration)
    codes = quantized(probabilities)
    assert (codes.sum(axis=1, dtype=int) == UNITS).all()
    assert np.abs(codes / UNITS - probabilities / probabilities.sum(axis=1, keepdims=True)).max() < 1 / UNITS


def test_the_likeliest_class_stays_unless_another_is_as_likely_within_a_unit() -> None:
    probabilities = some(10_000, 10, seed=0)
    read = unpack_probabilities(pack_probabilities(probabilities), 10_000, 10)
    moved = read.argmax(axis=1) != probabilities.argmax(axis=1)
    best = np.sort(probabilities, axis=1)
    assert (best[moved, -1] - best[moved, -2] < 1 / UNITS).all()
    assert moved.mean() < 0.01


@pytest.mark.parametrize(
    "row", [[0.5, 0.6], [0.2, 0.2], [1.1, -0.1], [np.nan, 1.0], [np.inf, 0.0], [np.nan] * 2, [0.0, 0.0], [1.002, 0.0]]
)
def test_rows_that_are_no_probabilities_are_refused(row: list[float]) -> None:
    with pytest.raises(Refused) as caught:
        pack_probabilities(np.float32([[0.5, 0.5], row]))
    assert caught.value.reason is Refusal.PROBABILITIES


@pytest.mark.parametrize(
    ("packed", "reason"),
    [(b"\x80\x80", Refusal.PROBABILITIES), (b"\x80", Refusal.LENGTH), (b"\0\0\0", Refusal.LENGTH)],
)
def test_bytes_that_are_none_are_refused(packed: bytes, reason: Refusal) -> None:
    with pytest.raises(Refused) as caught:
        unpack_probabilities(packed, 1, 3)
    assert caught.value.reason is reason
