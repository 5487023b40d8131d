"""What a coordinator sees, alone or with colluders, depends on the silos' numbers by their sum alone.

Sums of one number of two bits are run many times on two inputs with the same sum. All that the coordinator can compute
is counted: each vector without the masks that it knows. Both inputs must give the same distribution, which is uniform
on all vectors with that sum. Bounds: a right program fails a test once in 10^7 runs.
"""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

from fedct_flwr.secure_sum.masks import derive
from tests.secure_sum.adversary import Adversary, all_places
from tests.secure_sum.silos import Federation, federation, names, shape

BITS, RUNS, CHANCE = 2, 600, 1e-7
View = tuple[int, ...]
Derive = Callable[..., bytes]


def of_numbers(numbers: tuple[int, ...], may_collude: int = 1) -> Federation:
    vectors = zip(names(len(numbers)), numbers, strict=True)
    return federation({name: np.array([number], dtype=np.uint64) for name, number in vectors}, may_collude)


def views(made: Federation, colluders: list[str], drops: bool = False) -> Counter[View]:
    """How often each view was seen: the honest silos' vectors without the masks that can be known."""
    seen: Counter[View] = Counter()
    everybody, view = list(made.silos), all_places(made)
    survivors = view[1:] if drops else view
    for _ in range(RUNS):
        adversary = Adversary(made, colluders)
        answers = adversary.asks(shape(1, BITS), dict.fromkeys(everybody, view))
        signatures = adversary.sign(survivors, everybody) if drops else {}
        for name in everybody:
            adversary.open(name, view, survivors, answers, signatures)
        adversary.add_colluders_shares()
        open_ = [place for place in view if place not in adversary.colluders]
        stripped = (adversary.stripped(place, view, answers[f"silo-{place:02d}"].masked) for place in open_)
        seen[tuple(int(vector[0]) for vector, _, _ in stripped)] += 1
        made.coordinator._deals = {adversary.places[name]: answer.deal for name, answer in answers.items()}
        made.coordinator._number += 1
    return seen


def same_distribution(one: Counter[View], other: Counter[View]) -> float:
    """The p-value of both being drawn from one distribution."""
    cells = sorted(one.keys() | other.keys())
    if len(cells) == 1:
        return 1.0
    return float(chi2_contingency([[counted[cell] for cell in cells] for counted in (one, other)]).pvalue)


def uniform(counted: Counter[View], cells: int) -> float:
    """The p-value of being uniform on so many cells."""
    assert len(counted) <= cells
    return float(chisquare([*counted.values(), *[0] * (cells - len(counted))]).pvalue)


CASES = {
    "the coordinator alone": ((0, 1, 2, 1), (3, 3, 1, 1), [], 0, 4**3),
    "with one silo": ((0, 1, 2, 1), (3, 3, 1, 1), ["silo-03"], 1, 4**2),
    "with two silos": ((0, 1, 2, 1, 3), (2, 2, 3, 1, 3), ["silo-03", "silo-04"], 2, 4**2),
}


@pytest.mark.parametrize(("one", "other", "colluders", "may_collude", "cells"), CASES.values(), ids=CASES)
def test_two_inputs_with_the_same_sum_look_the_same(
    one: View, other: View, colluders: list[str], may_collude: int, cells: int
) -> None:
    seen = [views(of_numbers(numbers, may_collude), colluders) for numbers in (one, other)]
    assert same_distribution(*seen) > CHANCE
    for counted in seen:
        assert uniform(counted, cells) > CHANCE


def test_so_do_they_where_a_silo_drops_out_and_comes_late() -> None:
    # The late silo's vector is uniform, whatever it is; the sum of the others is what is seen.
    seen = [views(of_numbers(numbers), ["silo-03"], drops=True) for numbers in ((0, 1, 2, 1), (3, 3, 0, 1))]
    assert same_distribution(*seen) > CHANCE
    for counted in seen:
        assert {(two + three) % 4 for _, two, three in counted} == {3}
        assert uniform(counted, 4**2) > CHANCE


def constant(label: bytes, in_half: bool = False) -> Derive:
    """Masks of one kind that are the same in every sum, or in half of them."""

    def planted(secret: bytes, purpose: bytes, *context: bytes) -> bytes:
        right = purpose != label or (in_half and bool(context[0][0] & 1))
        return derive(secret, purpose, *context) if right else bytes(32)

    return planted


PLANTED = {
    "pairwise masks are constant": (constant(b"pair mask"), False),
    "pairwise masks are constant in half of the sums": (constant(b"pair mask", in_half=True), False),
    "self-masks are constant": (constant(b"self mask"), True),
}


@pytest.mark.parametrize(("planted", "drops"), PLANTED.values(), ids=PLANTED)
def test_a_planted_bug_in_the_masks_shows(monkeypatch: pytest.MonkeyPatch, planted: Derive, drops: bool) -> None:
    for module in ("fedct_flwr.secure_sum.silo", "tests.secure_sum.adversary"):
        monkeypatch.setattr(f"{module}.derive", planted)
    inputs = ((0, 1, 2, 1), (3, 3, 0, 1) if drops else (3, 3, 1, 1))
    seen = [views(of_numbers(numbers), ["silo-03"], drops) for numbers in inputs]
    assert same_distribution(*seen) < CHANCE
    assert all(uniform(counted, 4**2) < CHANCE for counted in seen)
