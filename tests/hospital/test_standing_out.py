"""How much an example stands out: golden numbers, and chance against numbers that are drawn from it."""

import math

import numpy as np
from numpy.testing import assert_allclose

from fedct_flwr.hospital.own_scale import Measured
from fedct_flwr.hospital.standing_out import FEWEST, Chance, scores


def measured(numbers: list[list[float]], codes: list[list[float]] | None = None) -> Measured:
    empty = np.zeros((len(numbers), 0))
    return Measured(
        [b"key"] * len(numbers), np.array(numbers, np.float32), np.array(empty if codes is None else codes, np.float32)
    )


RECORDS = measured([[0.0], [1], [2], [3], [4], [50]])


def test_the_score_is_how_many_times_farther_the_fifth_is() -> None:
    found = scores(measured([[0.1], [2.0], [49.0]]), RECORDS)
    assert_allclose(found.value[[0, 2]], [math.log(3.9 / 0.1), math.log(48 / 1)], rtol=1e-5)
    assert found.nearest.tolist() == [0, 2, 5]
    # The same place, as far as floating-point numbers tell.
    assert found.value[1] > 10


def test_another_row_of_the_public_set_changes_no_score() -> None:
    alone, beside = (scores(measured(rows), RECORDS).value[0] for rows in ([[0.1]], [[0.1], [0.1001], [1e4]]))
    assert alone == beside


def test_chance_explains_what_comes_from_it_and_no_more() -> None:
    rng = np.random.default_rng(0)
    draws = [rng.exponential(0.25, (2, 200)) for _ in range(500)]
    found = [(chance, public) for own, public in draws if (chance := Chance.of(own)) is not None]
    assert len(found) == 500
    assert np.mean([chance.p_value(public) < 0.01 for chance, public in found]) < 0.02
    planted = [chance.p_value(np.r_[public, np.full(10, 2.0)]) for chance, public in found]
    assert np.mean(np.array(planted) < 0.01) > 0.95


def test_too_few_records_say_nothing_of_chance() -> None:
    assert Chance.of(np.ones(FEWEST)) is None
    assert Chance.of(np.ones(FEWEST + 1)) is not None
