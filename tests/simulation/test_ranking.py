"""Which differences mean something: the tests and their corrections."""

import math
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedct_flwr import simulate
from fedct_flwr.simulation.comparing import compared, groups_of, holm, ranked, verdict
from tests.simulation.test_repeats import tables


def test_without_test_records_it_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.8, 0.05, 12), rng.normal(0.7, 0.05, 12)
    best, other = ranked({"b": b, "a": a}, 0.0)
    expected = stats.ttest_rel(b, a)
    interval = expected.confidence_interval(0.95)
    assert (best.name, other.name) == ("a", "b")
    assert (other.low, other.high) == (pytest.approx(interval.low), pytest.approx(interval.high))
    assert other.p == pytest.approx(expected.pvalue)
    assert other.difference == pytest.approx((b - a).mean())


def test_shared_records_widen_the_interval_by_the_formula() -> None:
    differences = np.array([0.1, 0.2, 0.05, 0.15, 0.0])
    base = np.linspace(0.5, 0.6, 5)
    other = ranked({"a": base + differences, "b": base}, 0.25)[1]
    error = math.sqrt((1 / 5 + 0.25) * differences.var(ddof=1))
    reach = stats.t.ppf(0.975, 4) * error
    assert other.low == pytest.approx(-differences.mean() - reach)
    assert other.high == pytest.approx(-differences.mean() + reach)
    assert other.p == pytest.approx(2 * stats.t.sf(differences.mean() / error, 4))


def test_equal_methods_are_seldom_called_different_however_many_seeds() -> None:
    """Splits of the same records: a fixed difference of this sample, of no meaning for the next one, and noise."""
    rng = np.random.default_rng(1)
    corrected = naive = 0
    samples = 300
    for _ in range(samples):
        # Test records decide: of 400, each split draws 100, and the two methods are right on as many.
        right = rng.random((2, 400)) < 0.8
        draws = np.array([rng.permutation(400)[:100] for _ in range(40)])
        scores = {name: right[n][draws].mean(axis=1) for n, name in enumerate("ab")}
        corrected += ranked(scores, 100 / 300)[1].differs
        naive += ranked(scores, 0.0)[1].differs
    assert corrected / samples < 0.09
    assert naive / samples > 0.3


def test_holm_is_that_of_the_textbook() -> None:
    found = holm({"a": 0.01, "b": 0.02, "c": 0.03, "d": 0.5, "e": math.nan})
    assert [found[name] for name in "abcd"] == pytest.approx([0.04, 0.06, 0.06, 0.5])
    assert math.isnan(found["e"])


def test_the_best_of_many_equal_methods_is_seldom_better_beyond_chance() -> None:
    rng = np.random.default_rng(3)
    several = [ranked({f"m{n}": rng.normal(size=10) for n in range(10)}, 0.0) for _ in range(200)]
    assert sum(any(each.differs for each in standings) for standings in several) / 200 < 0.06


def test_one_seed_or_seeds_that_change_nothing_say_nothing() -> None:
    for scores in ({"a": [0.9], "b": [0.1]}, {"a": [0.9, 0.9, 0.9], "b": [0.1, 0.1, 0.1]}):
        best, other = ranked(scores, 0.25)
        assert math.isnan(other.low)
        assert math.isnan(other.p)
        assert not other.differs
        assert "chance" in verdict([best, other])


def test_a_clear_difference_is_found_among_many() -> None:
    rng = np.random.default_rng(2)
    scores = {f"m{n}": 0.8 + rng.normal(0, 0.01, 10) for n in range(5)} | {"bad": 0.5 + rng.normal(0, 0.01, 10)}
    standings = ranked(scores, 0.25)
    assert [standing.name for standing in standings if standing.differs] == ["bad"]
    assert verdict(standings).startswith("4 of 5")
    assert verdict(ranked({"a": scores["m0"], "bad": scores["bad"]}, 0.25)).startswith("a is better than all")
    assert verdict(ranked({"a": scores["m0"], "b": scores["m1"]}, 0.25)).startswith("no difference")
    assert "only one" in verdict(ranked({"a": [1.0, 0.5]}, 0.25))


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (
            [{"algorithm": "a"}, {"algorithm": "q", "quorum": 0.6}, {"algorithm": "q", "quorum": 0.9}],
            {"algorithm=a", "algorithm=q, quorum=0.6", "algorithm=q, quorum=0.9"},
        ),
        ([{"learner": "m" * 40 + end} for end in "ab"], {f"learner={'m' * 40}{end}" for end in "ab"}),
        ([{"algorithm": "a"}, {"algorithm": "a", "quorum": 0.6}], {"run 1", "run 2"}),
    ],
)
def test_no_group_of_runs_is_lost_in_any_order(settings: list[dict[str, Any]], names: set[str]) -> None:
    for order in permutations(settings):
        runs: list[Any] = [SimpleNamespace(config=SimpleNamespace(to_flower=lambda of=of: of)) for of in order]
        found = groups_of(runs)
        assert found.keys() == names
        assert sorted(map(id, (run for group in found.values() for run in group))) == sorted(map(id, runs))


def test_learners_alone_are_named_by_their_parameters_where_these_differ() -> None:
    settings: dict[str, Any] = {"learner": "decision-tree", "rounds": 1, "progress": False}
    runs = [
        simulate(*tables(), learner_params={"max_depth": depth}, algorithm=algorithm, **settings)
        for depth in (1, 4)
        for algorithm in ("fedct", "fedct-dawid-skene")
    ]
    alone = [each.name for each in compared(groups_of(runs)).standings if each.name.startswith("alone")]
    assert [sum(f'"max_depth": {depth}' in name for name in alone) for depth in (1, 4)] == [1, 1]
    found = [each.name for each in compared(groups_of(runs[:2])).standings if each.name.startswith("alone")]
    assert found == ["alone, decision-tree"]
