"""Coordinators that do anything in any order, with colluders: of each sum they open one that is large enough, or none.

What can be opened follows from the masks that are left: a group of honest silos whose self-masks are all known, and
whose unknown pairwise masks are all with each other in the same sum. The same search finds openings once a check is
taken out of the silos.
"""

from collections.abc import Callable
from random import Random

import pytest

from fedct_flwr.secure_sum.silo import SumClient
from tests.secure_sum.adversary import Adversary
from tests.secure_sum.silos import federation, names, shape

TRIALS, STEPS = 120, 30
View = tuple[int, ...]


def openings(random: Random) -> tuple[list[set[int]], int]:
    """What a coordinator opens that behaves at random: groups of honest silos; and how many there must be at least."""
    silos, may_collude = random.choice([(4, 1), (5, 1), (6, 1), (6, 2), (7, 2)])
    made = federation(silos, may_collude)
    honest = names(silos)[: silos - may_collude]
    adversary = Adversary(made, names(silos)[silos - may_collude :])
    # As the terms have it, and told again, so that terms with a bug do not judge themselves.
    fewest = max(silos - silos // 3, (silos + may_collude) // 2 + 1, may_collude + 2)
    core = set(random.sample(range(silos), random.randint(2, fewest)))

    def some(members: View) -> View:
        """Some silos that it is after, and others to make up the number that silos insist on."""
        after = core & set(members)
        others = random.sample(sorted(set(members) - after), max(0, made.coordinator._terms.fewest(silos) - len(after)))
        return tuple(sorted(after | set(others)))

    views = [tuple(range(silos)), some(tuple(range(silos)))]
    told = {name: random.choice([views[0], views[0], views[1]]) for name in honest}
    if random.random() < 0.5:
        told = dict.fromkeys(honest, views[0])
    signs = random.choice([0.0, 0.4])
    answers = adversary.asks(shape(), told)
    lists = {view: [view, *(some(view) for _ in range(random.randint(1, 6)))] for view in views}
    signed: dict[tuple[View, View], dict[int, bytes]] = {}
    for _ in range(STEPS):
        name = random.choice(honest)
        view = told[name] if random.random() < 0.9 else random.choice(views)
        survivors = random.choice(lists[view])
        known = signed.setdefault((view, survivors), adversary.collude_sign(view, survivors))
        if random.random() < signs:
            if told[name] == view:
                known |= adversary.sign(survivors, [name])
        elif all(made.coordinator.names[s] in told or s in adversary.colluders for s in survivors):
            if any(answers[made.coordinator.names[s]].tags is None for s in survivors if s not in adversary.colluders):
                continue  # a silo that adds to no such sum has given no tags
            full = survivors == view and random.random() < 0.7
            if told[name] == view:
                adversary.open(name, view, survivors, answers, {} if full else dict(sorted(known.items())))
    adversary.add_colluders_shares()
    return groups(adversary, answers, told), fewest - may_collude


def groups(adversary: Adversary, answers: dict, told: dict[str, View]) -> list[set[int]]:
    view_of = {adversary.places[name]: view for name, view in told.items() if adversary.places[name] in view}
    left = {
        place: adversary.stripped(place, view, answers[adversary.coordinator.names[place]].masked)[1:]
        for place, view in view_of.items()
    }
    found, seen = [], set()
    for start in left:
        group, new = set(), {start}
        while new:
            group |= new
            new = set().union(*(left[one][0] for one in new if one in left)) - group
        if start not in seen and all(
            one in left and not left[one][1] and view_of[one] == view_of[start] for one in group
        ):
            found.append(group)
        seen |= group
    return found


def wrong(random: Random) -> bool:
    found, fewest = openings(random)
    return len(found) > 1 or any(len(group) < fewest for group in found)


def test_no_coordinator_opens_two_sums_or_one_that_is_too_small() -> None:
    opened = 0
    for seed in range(TRIALS):
        found, fewest = openings(Random(seed))
        assert len(found) <= 1, seed
        assert all(len(group) >= fewest for group in found), seed
        opened += len(found)
    assert opened > TRIALS // 20  # some behave as they should


def unsigned_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SumClient, "_check_signatures", lambda *about: None)


def lists_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedct_flwr.secure_sum.terms.SumTerms.fewest", lambda *about: 2)


@pytest.mark.parametrize("plant", [unsigned_list, lists_of_any_length])
def test_the_search_finds_what_a_missing_check_lets_through(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)
    assert any(wrong(Random(seed)) for seed in range(5 * TRIALS))
