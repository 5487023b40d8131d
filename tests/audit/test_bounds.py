"""Bounds on epsilon: valid for mechanisms that keep their promise, and close where the attack is the best there is."""

import numpy as np
import pytest
from scipy.stats import binom

from fedct_flwr.audit.success import Guessed, bound_of_run, one_run
from tests.audit.games import against_promise, many_refits


def right_guesses(epsilon: float, canaries: int, rng: np.random.Generator) -> Guessed:
    """Of randomized response on each canary's bit, which is the worst case of pure differential privacy."""
    return Guessed(int(rng.binomial(canaries, 1 / (1 + np.exp(-epsilon)))), canaries, canaries)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 3.0])
def test_one_run_never_exceeds_epsilon_more_often_than_it_says(epsilon: float) -> None:
    rng = np.random.default_rng(0)
    found = np.array([one_run(right_guesses(epsilon, 500, rng), 0.0) for _ in range(120)])
    assert (found > epsilon).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 120)
    assert found.mean() > epsilon - 0.45


def test_one_run_is_steinkes_bound() -> None:
    # Theorem 5.2 at delta 0: the tail of a binomial distribution.
    bound = one_run(Guessed(90, 100, 1000), 0.0)
    assert binom.sf(89, 100, 1 / (1 + np.exp(-bound))) == pytest.approx(0.05, abs=1e-6)
    assert one_run(Guessed(90, 100, 1000), 1e-5) < bound
    assert one_run(Guessed(90, 100, 1000), 1e-2) == 0
    assert one_run(Guessed(50, 100, 1000), 0.0) == 0


def test_a_run_that_tells_nothing_proves_nothing() -> None:
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        members = rng.random((4, 200)) < 0.5
        attacks = {name: rng.normal(size=members.shape) for name in "abc"}
        found.append(bound_of_run(attacks, members, 1e-5))
    assert np.mean(np.array(found) > 0) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 40)


def test_many_refits_are_clopper_and_pearsons() -> None:
    assert many_refits(0, 100, 0, 100, 0.0, 0.95) == 0
    assert 2.5 < many_refits(100, 100, 0, 100, 0.0, 0.95) < 4
    # A guess "not there" tells as much.
    assert many_refits(100, 100, 50, 100, 1e-5, 0.95) == pytest.approx(many_refits(50, 100, 0, 100, 1e-5, 0.95))


def test_a_promise_is_refuted_where_scores_differ_more_than_it_allows() -> None:
    rng = np.random.default_rng(0)
    near, far = rng.normal(size=1000), rng.normal(loc=3, size=1000)
    assert against_promise(far, near, lambda delta: 1.0, 0.999).broken
    assert not against_promise(rng.normal(size=1000), near, lambda delta: 0.1, 0.999).broken
