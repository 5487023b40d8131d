"""The quorum and the graph of masks, on which the protection rests."""

from collections.abc import Iterable
from itertools import combinations

import pytest

from fedct_flwr.secure_sum.terms import Terms


def terms_of(silos: int, may_collude: int) -> Terms:
    keys = {f"silo-{number:03d}": number.to_bytes(32, "big") for number in range(silos)}
    return Terms("run", keys, max(3, may_collude + 2), may_collude)


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


def graph_of(terms: Terms, summands: tuple[int, ...], silos: int) -> dict[int, list[int]]:
    return {one: terms.neighbours(one, summands, silos) for one in summands}


@pytest.mark.parametrize("silos", range(3, 11))
def test_no_silos_that_drop_out_or_collude_separate_the_others(silos: int) -> None:
    for may_collude in range(silos - 1):
        terms = terms_of(silos, may_collude)
        for missing in range(silos - terms.fewest(silos) + 1):
            summands = tuple(range(missing, silos))
            graph = graph_of(terms, summands, silos)
            gone = len(summands) - terms.fewest(silos) + may_collude
            for removed in combinations(summands, min(gone, len(summands) - 1)):
                assert connected(graph, removed)
