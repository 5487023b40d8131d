"""Proposition 1 of the FedCT paper, in numbers."""

import math

import pytest

from fedct_flwr.consensus.bounds import convergence_bound


def test_the_formula_on_numbers_that_can_be_checked_by_hand() -> None:
    # m = 4: (4c)^2 zeta(2, t0 + 1), and zeta(2, 1) = pi^2 / 6, of which zeta(2, 3) lacks 1 + 1/4.
    bound = convergence_bound(num_silos=4, num_public=1, c=0.25, first_round=2)
    assert bound.value == pytest.approx(math.pi**2 / 6 - 1.25)
    assert not bound.vacuous
    assert convergence_bound(4, 10, 0.5, 2).value == pytest.approx(10 * 4 * (math.pi**2 / 6 - 1.25))


def test_what_was_proven_is_the_sum_from_the_first_round_on() -> None:
    terms = sum(1 / t**2.5 for t in range(10, 200_000))
    assert convergence_bound(5, 3, 1, 9).value == pytest.approx(3 * 4**2.5 * terms, rel=1e-6)


def test_the_bound_falls_with_time_and_rises_with_the_public_set_and_slow_learning() -> None:
    base = convergence_bound(5, 1000, 1, 100).value
    assert convergence_bound(5, 1000, 1, 200).value < base
    assert convergence_bound(5, 2000, 1, 100).value == pytest.approx(2 * base)
    assert convergence_bound(5, 1000, 2, 100).value == pytest.approx(2**2.5 * base)


@pytest.mark.parametrize(("first_round", "vacuous"), [(400, True), (20_000, False)])
def test_at_the_papers_sizes_it_holds_only_for_silos_that_fit_nearly_every_label(
    first_round: int, vacuous: bool
) -> None:
    # c = 1 in round 20,000 means that 1 label in 20,000 is not fitted; with c = 10 nothing is said again.
    assert convergence_bound(5, 50_000, 1, first_round).vacuous is vacuous
    assert convergence_bound(5, 50_000, 10, first_round).vacuous


@pytest.mark.parametrize("outside", [(2, 1, 1, 10), (3, 0, 1, 10), (3, 1, 0, 10), (3, 1, 6, 10)])
def test_outside_the_proposition_there_is_no_bound(outside: tuple[int, int, float, int]) -> None:
    with pytest.raises(ValueError, match="Proposition 1 needs"):
        convergence_bound(*outside)
