"""How much an example stands out: golden numbers, and chance against numbers that are drawn from it."""

import math

import numpy as np
import pytest
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


def test_a_record_is_not_its_own_neighbor() -> None:
    found = scores(RECORDS.at(np.array([0])), RECORDS, np.array([0]))
    assert_allclose(found.value, math.log(50))
    assert found.nearest.tolist() == [1]


def test_another_row_of_the_public_set_changes_no_score() -> None:
    alone, beside = (scores(measured(rows), RECORDS).value[0] for rows in ([[0.1]], [[0.1], [0.1001], [1e4]]))
    assert alone == beside


def test_a_column_counts_where_the_example_has_it_and_two_where_the_record_lacks_it() -> None:
    records = measured([[0, 0], [3, math.nan], [9, 9], [9, 9], [9, 9], [9, 9]])
    found = scores(measured([[1, math.nan], [3, 3]]), records)
    assert found.nearest.tolist() == [0, 1]
    assert_allclose(found.value, [math.log(8 / 1), 0.5 * math.log(72 / 2)], rtol=1e-5)


def test_categories_count_one_where_they_differ_and_none_where_the_example_lacks_them() -> None:
    records = measured([[0]] * 6, [[0, 0], [1, 1], [1, 1], [1, 1], [1, 1], [math.nan, 1]])
    found = scores(measured([[0.5], [0.5]], [[0, 0], [math.nan, 0]]), records)
    assert_allclose(found.value, 0.5 * np.log([2.25 / 0.25, 1.25 / 0.25]), rtol=1e-5)


@pytest.mark.parametrize("number", [0, 1])
def test_without_neighbors_nothing_stands_out(number: int) -> None:
    found = scores(measured([[0.0]]), measured([[0.0]] * number) if number else RECORDS.at(np.zeros(0, np.intp)))
    assert found.value.tolist() == [0]


def test_records_in_one_place_let_nothing_stand_out() -> None:
    assert scores(measured([[0.0], [1.0]]), measured([[0.0]] * 8)).value.tolist() == [0, 0]


def test_chance_has_the_thresholds_of_an_exponential_tail() -> None:
    # Scores of records without a pattern in d dimensions: exponential, with mean 1/d.
    chance = Chance.of(np.random.default_rng(0).exponential(0.25, 100_000))
    assert chance is not None
    assert_allclose(chance.thresholds[:4], 0.25 * np.log([50, 100, 200, 1000]), rtol=0.05)
    assert_allclose(chance.near_rate, 0.01, rtol=0.05)


def test_chance_explains_what_comes_from_it_and_no_more() -> None:
    rng = np.random.default_rng(0)
    draws = [rng.exponential(0.25, (2, 200)) for _ in range(500)]
    found = [(chance, public) for own, public in draws if (chance := Chance.of(own)) is not None]
    assert len(found) == 500
    assert np.mean([chance.p_value(public) < 0.01 for chance, public in found]) < 0.02
    planted = [chance.p_value(np.r_[public, np.full(10, 2.0)]) for chance, public in found]
    assert np.mean(np.array(planted) < 0.01) > 0.95


def test_what_the_silo_has_itself_is_chance() -> None:
    own = np.r_[np.full(5, 15.0), np.random.default_rng(0).exponential(0.25, 195)]
    chance = Chance.of(own)
    assert chance is not None
    assert chance.p_value(own) > 0.01
    assert chance.near_rate >= 5 / 201


def test_too_few_records_say_nothing_of_chance() -> None:
    assert Chance.of(np.ones(FEWEST)) is None
    assert Chance.of(np.ones(FEWEST + 1)) is not None
