"""Shamir's scheme: a quorum restores the secret; fewer shares are as likely under every secret."""

from collections import Counter
from collections.abc import Iterable
from itertools import combinations, product

import pytest
from Crypto.Util.number import isPrime
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr.secure_sum import masks as scheme
from fedct_flwr.secure_sum.masks import PRIME, restore, split
from fedct_flwr.secure_sum.terms import SECRET_SIZE, SHARE_SIZE, Fault, SumRefused, SumTerms

SMALL_PRIME = 7


@given(data=st.data())
def test_any_quorum_restores_the_secret(data: st.DataObject) -> None:
    members = data.draw(st.integers(1, 100))
    quorum = data.draw(st.integers(1, members))
    secret = data.draw(st.binary(min_size=SECRET_SIZE, max_size=SECRET_SIZE))
    dealt = split(secret, quorum, members)
    places = data.draw(st.permutations(range(members)))[:quorum]
    assert restore({place: dealt[place] for place in places}) == secret


def test_fewer_shares_say_nothing_of_the_secret() -> None:
    # All polynomials of degree 2 of a small field: two shares are uniform, whatever the constant is.
    for places in combinations(range(1, 5), 2):
        for secret in range(SMALL_PRIME):
            seen = Counter(
                tuple(scheme._value([*coefficients, secret], place, SMALL_PRIME) for place in places)
                for coefficients in product(range(SMALL_PRIME), repeat=2)
            )
            assert set(seen.values()) == {1}
            assert len(seen) == SMALL_PRIME**2


def test_coefficients_are_fresh_and_below_the_prime(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isPrime(PRIME)
    drawn: list[int] = []
    monkeypatch.setattr(scheme.secrets, "randbelow", lambda bound: drawn.append(bound) or 1)
    split(bytes(SECRET_SIZE), quorum=4, members=5)
    assert drawn == [PRIME] * 3
    monkeypatch.undo()
    assert split(bytes(SECRET_SIZE), 2, 3) != split(bytes(SECRET_SIZE), 2, 3)


@pytest.mark.parametrize("share", [PRIME.to_bytes(SHARE_SIZE, "big"), bytes(SHARE_SIZE - 1), b"\xff" * SHARE_SIZE])
def test_a_share_out_of_range_is_refused(share: bytes) -> None:
    with pytest.raises(SumRefused) as caught:
        restore({0: share, 1: bytes(SHARE_SIZE)})
    assert caught.value.fault is Fault.MALFORMED


def terms_of(silos: int, may_collude: int) -> SumTerms:
    keys = {f"silo-{number:03d}": number.to_bytes(32, "big") for number in range(silos)}
    return SumTerms("run", keys, max(3, may_collude + 2), may_collude)


@pytest.mark.parametrize("silos", range(3, 101))
def test_the_quorum_leaves_no_room_for_two_groups_and_lets_a_third_drop_out(silos: int) -> None:
    for may_collude in range(silos - 1):
        quorum = terms_of(silos, may_collude).quorum(silos)
        assert silos + may_collude < 2 * quorum <= 2 * silos
        assert quorum > may_collude
        if 3 * may_collude < silos:
            assert quorum == silos - silos // 3


def connected(graph: dict[int, list[int]], gone: Iterable[int]) -> bool:
    left = set(graph) - set(gone)
    reached, new = set(), {min(left)}
    while new:
        reached |= new
        new = {other for one in new for other in graph[one] if other in left} - reached
    return reached == left


@pytest.mark.parametrize("silos", range(3, 11))
def test_no_silos_that_drop_out_or_collude_separate_the_others(silos: int) -> None:
    for may_collude in range(silos - 1):
        terms = terms_of(silos, may_collude)
        for missing in range(silos - terms.fewest(silos) + 1):
            summands = tuple(range(missing, silos))
            graph = {one: terms.neighbours(one, summands, silos) for one in summands}
            gone = len(summands) - terms.fewest(silos) + may_collude
            for removed in combinations(summands, min(gone, len(summands) - 1)):
                assert connected(graph, removed)
