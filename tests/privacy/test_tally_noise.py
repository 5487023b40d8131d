"""The coordinator's noise: secure for real silos, on every row, and as much as the budget asks for."""

from typing import Any

import numpy as np
import pytest

from fedct_flwr.config.privacy import NoisePlan
from fedct_flwr.consensus.counting import consistent
from fedct_flwr.privacy.budget import PrivacyUnit
from fedct_flwr.privacy.mechanisms import ON_COUNTS, Laplace
from fedct_flwr.privacy.tally_noise import noise_for, noisy, spent_by, tally_mechanism
from fedct_flwr.types import ABSTAIN

SIMULATED = noise_for(real=False)
NOBODY = np.full(1000, ABSTAIN, dtype=np.int16)


def plan(mechanism: str, epsilon: float = 1.0, delta: float = 1e-5, **settings: Any) -> NoisePlan:
    return NoisePlan(mechanism, epsilon, delta, **settings)


def test_real_silos_have_secure_noise_and_simulated_ones_that_of_the_seed() -> None:
    assert noise_for(real=True)(np.random.default_rng(0)).secure
    first, second = (SIMULATED(np.random.default_rng(0)) for _ in range(2))
    assert not first.secure
    assert first.octets(8) == second.octets(8)


def test_noise_goes_on_rows_without_a_vote_too_and_favors_no_class() -> None:
    """Where nobody is consistent, to abstain would tell so without noise."""
    divided = [("a", np.tile(np.int32([1, 1, 0]), (1000, 1)))]
    decide = noisy(Laplace(1.0, 2, PrivacyUnit.SILO), SIMULATED)
    labels, _ = consistent(3, 2, decide).apply(divided, NOBODY, {}, np.random.default_rng(0))
    counts = np.bincount(labels, minlength=3)
    assert counts.sum() == 1000
    assert counts.min() > 250


def test_noise_is_calibrated_to_the_budget_for_all_votes_of_a_silo() -> None:
    for votes in (1, 3):
        mechanism = tally_mechanism(plan("laplace", epsilon=60.0), votes, 50)
        assert mechanism.unit is PrivacyUnit.SILO
        assert 59 < spent_by(mechanism, 50, 1e-5).epsilon <= 60


def test_partitions_at_a_silo_compose() -> None:
    spent, longer = spent_by(Laplace(25.0), 37, 1e-5, partitions=2), spent_by(Laplace(25.0), 74, 1e-5)
    assert spent.epsilon == longer.epsilon
    assert (spent.unit, spent.where) == (PrivacyUnit.EXAMPLE, "silo")


def test_golden_numbers() -> None:
    """Where FedKT's paper has 5.14 for 148 queries with gamma .04."""
    found = {noise: spent_by(ON_COUNTS[noise](25.0), 148, 1e-5).epsilon for noise in ("laplace", "gumbel")}
    assert found == {"laplace": pytest.approx(4.145, abs=0.005), "gumbel": pytest.approx(2.102, abs=0.005)}


def test_a_silo_of_two_students_has_twice_the_votes() -> None:
    silo = spent_by(Laplace(20.0, 2, PrivacyUnit.SILO), 40, 1e-5)
    assert silo.epsilon == pytest.approx(spent_by(Laplace(10.0), 40, 1e-5).epsilon, rel=0.01)
