"""The joint labeler that silos choose by a sum: what one record changes, what it costs, and which labeler wins."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score

from fedct_flwr.datasets.schema import Schema
from fedct_flwr.labelers.joint_choice import AHEAD, BOTH, JointChoice, plans_for
from fedct_flwr.labelers.joint_linear import Descent, step_together
from fedct_flwr.labelers.public_features import NORM
from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.budget import Budget
from fedct_flwr.privacy.events import composed
from fedct_flwr.privacy.ledger import BudgetExceeded, Ledger
from fedct_flwr.privacy.noise_shares import least_multiplier
from fedct_flwr.secure_sum.plain import sum_modulo
from fedct_flwr.types import ConfigError, Examples, HardLabels
from tests.labelers.test_joint_linear import Silent, noises

STEPS: Final = 15
WIDE: Final = 12
"""Columns: more than an additive labeler keeps."""
SCHEMA = Schema.numeric(("a", "b", "c"), tuple(f"c{place}" for place in range(WIDE)))
PUBLIC = np.random.default_rng(0).normal(size=(300, WIDE))


def choice(**given: Any) -> JointChoice:
    told = {"num_records": 400, "num_classes": 3, "epsilon": 1.0, "delta": 1e-5, "honest": 3, "steps": STEPS}
    plans = plans_for(**{**told, **given}, additive_columns=WIDE)
    schema = SCHEMA if plans.linear.num_classes == 3 else replace(SCHEMA, classes=("a", "b"))
    return JointChoice(plans, PUBLIC, schema, seed=0)


FOUND = choice()


def of_range(X: np.ndarray) -> HardLabels:
    return (np.abs(X[:, 1]) > 0.7).astype(np.int16)


def of_line(X: np.ndarray) -> HardLabels:
    return (X @ np.linspace(-1, 1, WIDE) > 0).astype(np.int16)


def records(count: int, seed: int, rule: Any) -> Examples:
    X = np.random.default_rng(seed).normal(size=(count, WIDE))
    return Examples(X, rule(X))


def weights_like(found: JointChoice, rng: np.random.Generator, size: float) -> np.ndarray:
    return np.asarray(rng.normal(size=found.start.weights.shape) * 10**size)


def length(summand: np.ndarray) -> float:
    return math.sqrt(sum(int(number) ** 2 for number in summand.view(np.int64)))


@given(seed=st.integers(0, 2**32), step=st.integers(0, STEPS), size=st.floats(-3, 4))
@settings(max_examples=150, deadline=None)
def test_no_record_changes_a_sum_by_more_than_its_noise_is_for_whatever_the_weights(
    seed: int, step: int, size: float
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(4, WIDE)) * np.exp(rng.normal(size=(4, 1), scale=4))
    y = rng.integers(0, 3, 4).astype(np.int16)
    weights = weights_like(FOUND, rng, size)
    # Weights of both, of one alone, and of none: a coordinator may ask for anything.
    weights *= np.repeat(rng.integers(0, 2, 2), np.diff([0, FOUND._linear_size, FOUND._size]))[:, None]
    most = (FOUND.noise if step <= BOTH else FOUND.noise_of_winner).sensitivity
    vectors = FOUND.vectors(X)
    for i in range(4):
        assert length(FOUND.summand(vectors[[i]], y[[i]], weights, Silent(), step)) <= most


def test_the_claims_are_nearly_reached_by_each_kind_of_sum() -> None:
    X, rng = np.random.default_rng(1).normal(size=(400, WIDE)), np.random.default_rng(2)
    weights, vectors = weights_like(FOUND, rng, 0), FOUND.vectors(X)
    for step, most in ((BOTH, FOUND.noise), (BOTH + 1, FOUND.noise_of_winner), (0, FOUND.noise)):
        used = weights if step == BOTH else 1e4 * weights
        found = [
            length(FOUND.summand(vectors[[i]], np.int16([c]), used, Silent(), step)) for i in range(400) for c in (0, 1)
        ]
        assert 0.95 * most.sensitivity < max(found) <= most.sensitivity
    assert FOUND.noise.sensitivity == pytest.approx(math.sqrt(2) * FOUND.noise_of_winner.sensitivity)


@pytest.mark.parametrize("step", [0, BOTH, BOTH + 1])
@pytest.mark.parametrize("position", [0, 4096, 5000])
def test_a_record_adds_the_same_to_the_sum_whatever_the_others_are(step: int, position: int) -> None:
    X, y = records(5001, 1, of_line)
    weights = weights_like(FOUND, np.random.default_rng(1), 1)
    vectors, others = FOUND.vectors(X), np.delete(np.arange(5001), position)
    with_it = FOUND.summand(vectors, y, weights, Silent(), step)
    without = FOUND.summand(FOUND.vectors(X[others]), y[others], weights, Silent(), step)
    alone = FOUND.summand(FOUND.vectors(X[[position]]), y[[position]], weights, Silent(), step)
    np.testing.assert_array_equal(with_it - without, alone)


def test_the_sum_of_the_choice_has_how_many_records_each_labeler_is_right_about() -> None:
    X, y = records(500, 3, of_line)
    weights = weights_like(FOUND, np.random.default_rng(3), 0)
    counts = FOUND.summand(FOUND.vectors(X), y, weights, Silent(), BOTH).view(np.int64)
    linear, additive = (part.label(own, X) == y for part, own in zip(FOUND._parts, FOUND._split(weights), strict=True))
    of_class = [y == c for c in range(3)]
    ahead = [int(additive[own].sum()) - int(linear[own].sum()) for own in of_class]
    assert counts[:3].tolist() == [AHEAD * FOUND._unit * each for each in ahead]
    assert counts[3:6].tolist() == [FOUND._unit * int(own.sum()) for own in of_class]
    assert not counts[6:].any()


def test_what_is_charged_for_all_steps_is_the_budget_and_pays_for_each_kind_of_sum(tmp_path: Path) -> None:
    found, budget = choice(epsilon=0.7), Budget(0.7, 1e-5)
    spent = epsilon(composed(*[found.noise.event()] * found.plan.steps), 1e-5)
    assert 0.69 < spent.upper <= 0.7
    for shares in (found.noise, found.noise_of_winner):
        assert shares.event() == found.noise.event()
        # What the event says: noise in one sum, for what a record changes in it.
        assert shares.scale / shares.sensitivity == pytest.approx(found.noise.event().noise_multiplier)
    with Ledger(tmp_path) as ledger:
        for _ in range(STEPS):
            ledger.charge("study", "records", budget, found.noise.event())
        with pytest.raises(BudgetExceeded):
            ledger.charge("study", "records", budget, found.noise.event())


def test_each_labeler_plans_with_its_part_of_the_budget() -> None:
    plans = plans_for(600, 2, epsilon=1.0, delta=1e-5, honest=3, steps=STEPS, additive_columns=WIDE)
    share = (BOTH / 2 + STEPS - 1 - BOTH) / STEPS
    for plan in plans:
        assert (plan.steps, plan.share) == (STEPS - 1, pytest.approx(share))
        assert plan.ridge == pytest.approx(least_multiplier(1.0, 1e-5) / (600 * math.sqrt(share)))
    # Both for half of five steps and one for nine of fifteen: what noise leaves of 1 / multiplier^2.
    found = choice(num_records=600, num_classes=2)
    of_both, of_one = ((NORM * found.plan.clip / shares.scale) ** 2 for shares in (found.noise, found.noise_of_winner))
    whole = 1 / least_multiplier(1.0, 1e-5) ** 2
    assert BOTH * of_both + (STEPS - 1 - BOTH) * of_one == pytest.approx(share * whole)


@pytest.mark.parametrize(("rule", "kind", "least"), [(of_range, "additive", 0.9), (of_line, "linear", 0.85)])
def test_the_labeler_that_fits_the_table_is_chosen_and_trained_further(rule: Any, kind: str, least: float) -> None:
    found = choice(num_records=4_000, num_classes=2)
    silos = [records(1_000, seed, rule) for seed in range(4)]
    progress = step_together(found, silos, noises(4))
    labeler, weights = found.finished(progress)
    assert ("additive" if labeler.plan.bins else "linear") == kind
    test = records(2_000, 9, rule)
    assert balanced_accuracy_score(test.y, labeler.label(weights, test.X)) > least
    told = found.told(progress)["choice"]
    assert (told["additive_ahead"] > told["error"]) == (kind == "additive")
    # The other is at zero.
    loser = found._split(progress.weights)[kind == "linear"]
    assert not loser.any()
    assert weights.any()


def test_what_the_choice_says_is_off_by_its_error() -> None:
    found = choice(num_records=4_000, num_classes=2)
    X, y = records(4_000, 5, of_line)
    weights = weights_like(found, np.random.default_rng(0), 0)
    at = Descent(BOTH, weights, weights)
    vectors, nothing = found.vectors(X), found.vectors(X[:0])

    def ahead(sources: list[Any]) -> tuple[float, float]:
        first, *others = sources
        summands = [found.summand(vectors, y, weights, first, BOTH)]
        summands += [found.summand(nothing, y[:0], weights, other, BOTH) for other in others]
        told = found.ahead(found.step(at, sum_modulo(summands, 64)))
        assert told is not None
        return told

    exact = ahead([Silent()] * 3)[0]
    linear, additive = (
        balanced_accuracy_score(y, part.label(own, X))
        for part, own in zip(found._parts, found._split(weights), strict=True)
    )
    assert exact == pytest.approx(additive - linear)
    drawn = np.array([ahead(list(noises(3, seed))) for seed in range(200)])
    assert abs((drawn[:, 0] - exact).mean()) < 5 * drawn[:, 0].std() / math.sqrt(200)
    assert drawn[:, 0].std() == pytest.approx(drawn[:, 1].mean(), rel=0.2)


def test_a_lead_within_the_noise_leaves_the_simpler_labeler() -> None:
    found = choice(num_records=4_000, num_classes=2)
    weights = weights_like(found, np.random.default_rng(0), 0)
    at, size = Descent(BOTH, weights, weights), weights.size
    for lead, won in ((0.9, 0), (1.1, 1)):
        counts = np.zeros(size, dtype=np.int64)
        counts[2:4] = 2_000 * found._unit
        error = found.ahead(found.step(at, counts.view(np.uint64)))
        assert error is not None
        counts[:2] = round(lead * error.error * 2_000) * AHEAD * found._unit
        after = found.step(at, counts.view(np.uint64))
        kept = [part.any() for part in found._split(after.weights)]
        assert kept == [won == 0, won == 1]


def test_lost_steps_leave_the_weights_and_a_lost_choice_leaves_the_linear_labeler() -> None:
    silos = [records(100, seed, of_line) for seed in range(4)]
    vectors, progress = [FOUND.vectors(own.X) for own in silos], FOUND.start
    for step in range(STEPS):
        before = progress
        if step in (2, BOTH, 9):
            progress = FOUND.lost(before)
            rows = slice(0, FOUND._linear_size) if step == BOTH else slice(None)
            np.testing.assert_array_equal(progress.weights[rows], before.weights[rows])
            continue
        drawn = zip(vectors, silos, noises(4, step), strict=True)
        progress = FOUND.step(
            before, sum_modulo([FOUND.summand(v, s.y, before.weights, n, step) for v, s, n in drawn], 64)
        )
        assert (progress.weights != before.weights).any() or step < BOTH
    assert FOUND.finished(progress)[0].plan.components
    assert FOUND.told(progress) == {"choice": {}}
    assert np.isfinite(progress.weights).all()
    with pytest.raises(ValueError, match="step 15 of 15"):
        FOUND.lost(progress)
    with pytest.raises(ValueError, match="step 15 of 15"):
        FOUND.step(progress, np.zeros(progress.weights.size, dtype=np.uint64))


def test_impossible_choices_are_refused() -> None:
    with pytest.raises(ConfigError, match=f"set it to {BOTH + 2} or more"):
        choice(steps=BOTH + 1)
    X, y = records(5, 0, of_line)
    with pytest.raises(ValueError, match="no numbers"):
        FOUND.summand(FOUND.vectors(X), y, np.full(FOUND.start.weights.shape, math.nan), Silent(), BOTH)
    with pytest.raises(ValueError, match="step 0 of 15 with a sum"):
        FOUND.step(FOUND.start, np.zeros(3, dtype=np.uint64))


def measured(found: JointChoice, step: int, weights: np.ndarray, record: Examples, runs: int = 3_000) -> float:
    """A lower bound on the epsilon of one sum, with the record at one silo and without it; as for ``JointLinear``."""
    vectors, nobody = found.vectors(record.X), found.vectors(record.X[:0])
    look = found.summand(vectors, record.y, weights, Silent(), step).view(np.int64) / 1.0
    look /= np.linalg.norm(look)
    seen = []
    for which, (own, y) in enumerate(((vectors, record.y), (nobody, record.y[:0]))):
        silos = [(own, y), (nobody, record.y[:0]), (nobody, record.y[:0])]
        opened = [
            sum_modulo([found.summand(*one, weights, n, step) for one, n in zip(silos, sources, strict=True)], 64)
            for sources in (noises(3, 2 * number + which) for number in range(runs))
        ]
        seen.append(np.array(opened).view(np.int64) @ look)
    apart = (seen[0].mean() - seen[1].mean()) / seen[1].std() - 5 * math.sqrt(2 / runs)
    return get_epsilon_gaussian(1 / apart, 1e-5) if apart > 0 else 0.0


def audited() -> JointChoice:
    """Of few numbers, and so few steps that one sum can be measured."""
    plans = plans_for(1, 2, epsilon=12.0, delta=1e-5, honest=3, steps=BOTH + 2, additive_columns=2)
    return JointChoice(plans, PUBLIC[:, :2], Schema.numeric(("a", "b"), ("x", "y")), seed=0)


def hardest(found: JointChoice, step: int) -> tuple[np.ndarray, Examples]:
    """Weights, and a record that moves the sum of this step the furthest.

    For the choice, one of two labelers is right; to train them, both are sure and wrong.
    """
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(50, 2)), weights_like(found, rng, 2)
    linear, additive = (p.label(w, X) for p, w in zip(found._parts, found._split(weights), strict=True))
    position = int(np.flatnonzero((linear == additive) == (step != BOTH))[0])
    right = additive[[position]]
    return weights, Examples(X[[position]], right if step == BOTH else np.asarray(1 - right))


def claimed(found: JointChoice) -> float:
    return float(get_epsilon_gaussian(found.noise.event().noise_multiplier, 1e-5))


@pytest.mark.parametrize("step", [0, BOTH, BOTH + 1])
def test_the_measured_epsilon_of_each_kind_of_sum_is_within_the_claim(step: int) -> None:
    found = audited()
    assert 0.5 * claimed(found) < measured(found, step, *hardest(found, step)) <= claimed(found)


def test_training_both_with_the_noise_of_one_is_noticed() -> None:
    found = audited()
    found.__dict__["noise"] = found.noise_of_winner
    assert measured(found, 0, *hardest(found, 0)) > claimed(found)


@pytest.mark.parametrize("unit", ["twice", "as if a record counted in its class alone"])
def test_a_choice_in_which_a_record_counts_more_than_was_paid_for_is_noticed(unit: str) -> None:
    found = audited()
    found.__dict__["_unit"] = 2 * found._unit if unit == "twice" else math.floor(found.noise.sensitivity)
    assert measured(found, BOTH, *hardest(found, BOTH)) > claimed(found)


def test_a_winner_that_is_trained_along_with_the_loser_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = audited()
    right = JointChoice._gradients
    monkeypatch.setattr(JointChoice, "_gradients", lambda self, X, y, w, trained: right(self, X, y, w, (0, 1)))
    assert measured(found, BOTH + 1, *hardest(found, BOTH + 1)) > claimed(found)


def test_the_paths_of_both_are_told_for_an_audit() -> None:
    silos = [records(200, seed, of_range) for seed in range(4)]
    vectors, progress, weights = [FOUND.vectors(own.X) for own in silos], FOUND.start, []
    for step in range(STEPS):
        weights.append(progress.weights)
        drawn = zip(vectors, silos, noises(4, step), strict=True)
        progress = FOUND.step(
            progress, sum_modulo([FOUND.summand(v, s.y, progress.weights, n, step) for v, s, n in drawn], 64)
        )
    winner = FOUND.finished(progress)[0]
    (loser, short), (last, long) = FOUND.paths(weights)
    assert (last is winner, loser is winner) == (True, False)
    assert (len(short), len(long)) == (BOTH + 1, STEPS - 1)
    for _, path in ((loser, short), (last, long)):
        assert all((a != b).any() for a, b in zip(path[BOTH - 1 :], path[BOTH:], strict=False))
