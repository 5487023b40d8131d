"""The quorum and the graph of masks, on which the protection rests."""

from collections.abc import Iterable
from itertools import combinations
from random import Random

import pytest

from fedct_flwr.secure_sum.terms import Terms

MOST_COLLUDE = 12


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


@pytest.mark.parametrize("silos", [30, 67, 100])
def test_nor_do_they_in_large_federations(silos: int) -> None:
    random = Random(silos)
    for may_collude in (0, 1, 5, MOST_COLLUDE):
        terms = terms_of(silos, may_collude)
        summands = tuple(range(silos))
        graph = graph_of(terms, summands, silos)
        gone = silos - terms.fewest(silos) + may_collude
        assert all(one in graph[other] for one in graph for other in graph[one])
        assert gone < len(graph[0]) <= gone + 2
        neighbours = set(graph[0])
        for removed in (random.sample(summands, gone) for _ in range(50)):
            assert connected(graph, removed)
        # The hardest case: all but one of a silo's neighbours.
        assert connected(graph, sorted(neighbours)[:gone])


def test_terms_differ_where_anything_differs() -> None:
    keys = {name: name.encode() * 32 for name in "abcd"}
    swapped = {"a": keys["b"], "b": keys["a"], "c": keys["c"], "d": keys["d"]}
    made = [
        Terms("run", keys),
        Terms("run2", keys),
        Terms("run", swapped),
        Terms("run", {**keys, "e": b"e" * 32}),
        Terms("run", keys, 4),
        Terms("run", keys, 3, 0),
    ]
    assert len({terms.digest for terms in made}) == len(made)
    assert Terms("run", dict(reversed(keys.items()))).digest == made[0].digest
