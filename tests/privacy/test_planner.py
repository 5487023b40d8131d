import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.mechanisms import NoisePlan
from fedct_flwr.labelers.rehearsal import rehearse, rehearse_together
from fedct_flwr.privacy.planner import DECAY, Estimate, Plan, Verdict, estimates, judged, symmetric, votes_in_sums
from fedct_flwr.privacy.tally_shares import shares_for
from fedct_flwr.types import ConfigError

PLAN = Plan(num_silos=5, num_records=2000, num_public=1000, num_classes=10, accuracy=0.82, rounds=1)
SMALL = Plan(num_silos=3, num_records=300, num_public=20, num_classes=2, accuracy=0.8, rounds=1, teachers=25)


def by_mechanism(plan: Plan, seed: int = 0) -> dict[str, Estimate]:
    return {estimate.mechanism: estimate for estimate in estimates(plan, seed)}


def test_the_consensus_of_three_voters_and_two_classes_is_what_enumerating_them_gives() -> None:
    plan = replace(SMALL, epsilon=20.0)
    found = by_mechanism(plan)["randomized-response"]
    kept = math.exp(1.0) / (math.exp(1.0) + 1)  # 20 labels, epsilon 20 in total: no composition is better than 1 each
    together = 1 - 0.2 * 3**-DECAY
    # The joint model's label, what each silo makes of it, and what is left of that.
    repeats = (0.8 - (1 - together)) / (together - (1 - together))
    says_as_joint = repeats * kept + (1 - repeats) * (1 - kept)
    share = sum(
        math.prod(says_as_joint if vote else 1 - says_as_joint for vote in votes)
        for votes in itertools.product((False, True), repeat=3)
        if sum(votes) >= 2
    )
    expected = together * share + (1 - together) * (1 - share)
    one = 0.8 * kept + 0.2 * (1 - kept)
    # 20,000 examples: three standard errors are 0.011.
    assert found.consensus == pytest.approx(expected, abs=0.011)
    assert found.silo == pytest.approx(one, abs=0.011)


def test_without_noise_a_silos_labels_are_as_good_as_its_model_and_the_consensus_no_better_than_a_joint_one() -> None:
    found = by_mechanism(PLAN)["no protection"]
    assert found.silo == pytest.approx(0.82, abs=0.01)
    assert 0.84 < found.consensus <= PLAN.accuracy_with(10_000) + 0.01
    assert found.verdict is Verdict.USEFUL


def test_infinite_epsilon_is_no_noise() -> None:
    found = by_mechanism(replace(PLAN, epsilon=math.inf))
    unprotected = found["no protection"]
    for name in ("randomized-response", "xor"):
        assert (found[name].silo, found[name].consensus) == (unprotected.silo, unprotected.consensus)
    for name in ("teachers, gumbel", "teachers, gaussian"):
        assert found[name].consensus == pytest.approx(unprotected.consensus, abs=0.02)


def test_huge_epsilon_is_nearly_none() -> None:
    found = by_mechanism(replace(SMALL, epsilon=1000.0))
    for name in ("randomized-response", "xor"):
        assert found[name].consensus == pytest.approx(found["no protection"].consensus, abs=0.01)


@pytest.mark.parametrize("name", ["teachers, gumbel", "teachers, gaussian", "randomized-response", "xor"])
def test_more_epsilon_is_not_worse_and_in_the_end_much_better(name: str) -> None:
    plan = replace(SMALL, num_silos=5)
    reached = [by_mechanism(replace(plan, epsilon=e))[name].consensus for e in (0.1, 1.0, 10.0, 100.0)]
    assert all(later > earlier - 0.01 for earlier, later in itertools.pairwise(reached))
    assert reached[-1] > reached[0] + 0.15


def test_more_silos_and_fewer_queries_are_not_worse() -> None:
    plan = replace(SMALL, epsilon=3.0)
    for better in (replace(plan, num_silos=30), replace(plan, queries=5)):
        found, base = by_mechanism(better), by_mechanism(plan)
        for name in ("teachers, gumbel", "randomized-response", "xor"):
            assert found[name].consensus > base[name].consensus - 0.01
    assert by_mechanism(replace(plan, queries=5))["xor"].consensus > by_mechanism(plan)["xor"].consensus + 0.02


def test_a_labels_price_at_fifty_thousand_queries_leaves_nothing_of_it() -> None:
    found = by_mechanism(replace(PLAN, num_public=50_000))
    for name in ("randomized-response", "xor", "teachers, gumbel", "teachers, gaussian"):
        assert found[name].verdict is Verdict.NOISE
        assert found[name].consensus == pytest.approx(0.1, abs=0.05)


def test_with_the_same_seed_the_same_and_with_another_one_nearly() -> None:
    plan = replace(SMALL, epsilon=20.0)
    assert list(estimates(plan, 7)) == list(estimates(plan, 7))
    for one, other in zip(estimates(plan, 7), estimates(plan, 8), strict=True):
        assert one.consensus == pytest.approx(other.consensus, abs=0.02)
        assert one != other


def test_teachers_are_chosen_where_none_are_planned_and_have_records_enough_to_learn() -> None:
    chosen = int(by_mechanism(replace(PLAN, epsilon=100.0))["teachers, gumbel"].noise.split()[0])
    assert 10 <= chosen <= 2000 / 20
    assert by_mechanism(replace(PLAN, teachers=37))["teachers, gumbel"].noise.startswith("37 teachers")
    few = replace(PLAN, num_records=12)
    assert by_mechanism(few)["teachers, gumbel"].noise.startswith("1 teachers")


def in_sums(plan: Plan) -> Estimate:
    (found,) = votes_in_sums(plan, 0, 20)
    assert found.silo is None
    return found


def test_noise_in_shares_costs_votes_what_its_accounting_says() -> None:
    plan = replace(SMALL, num_silos=30, epsilon=8.0)
    expected = shares_for(NoisePlan("gaussian", 8.0, 1e-5), 1, 20, 2, 29, quick=True).scale
    assert in_sums(plan).noise == f"scale {expected:.3g} votes"
    assert in_sums(replace(plan, epsilon=math.inf)).consensus == by_mechanism(plan)["no protection"].consensus
    assert in_sums(replace(plan, epsilon=1e4)).consensus == pytest.approx(by_mechanism(plan)["no protection"].consensus)
    reached = [in_sums(replace(plan, epsilon=e)).consensus for e in (0.1, 2.0, 8.0, 100.0)]
    assert reached == sorted(reached)
    assert reached[-1] > reached[0] + 0.2


def test_the_joint_labelers_labels_are_better_than_those_of_noise_at_each_silo() -> None:
    plan = Plan(num_silos=20, num_records=100, num_public=500, num_classes=3, accuracy=0.75, epsilon=1.0)
    (together, *_), (alone,) = rehearse_together(plan, 0), rehearse(plan, 0)
    assert alone.silo is not None
    assert together.consensus > alone.silo + 0.1
    assert together.consensus >= alone.consensus - 0.02


def test_each_joint_labeler_is_estimated_with_its_own_noise() -> None:
    """A choice pays for both until it is made, which takes more noise; where little is needed, all three are good."""
    plan = Plan(num_silos=20, num_records=500, num_public=500, num_classes=2, accuracy=0.75, epsilon=1.0)
    found = {estimate.mechanism: estimate for estimate in rehearse_together(plan, 0, 5)}
    assert list(found) == ["fedct-joint", "fedct-joint, additive", "fedct-joint, auto"]
    multiplier = {name: float(estimate.noise.removeprefix("multiplier ")) for name, estimate in found.items()}
    assert multiplier["fedct-joint"] == pytest.approx(multiplier["fedct-joint, additive"], rel=0.05)
    assert all(0.7 < estimate.consensus <= 1 for estimate in found.values())
    assert all(estimate.noise == "none" for estimate in rehearse_together(replace(plan, epsilon=math.inf), 0, 5))


@pytest.mark.parametrize(("silos", "may_collude", "some"), [(2, 0, 0), (3, 1, 2), (3, 2, 0), (100, 1, 99), (101, 1, 0)])
def test_sums_need_silos_that_can_add_up(silos: int, may_collude: int, some: int) -> None:
    plan = replace(SMALL, num_silos=silos, may_collude=may_collude)
    assert plan.honest == some
    if not some:
        assert votes_in_sums(plan, 0, 20) == []
        assert rehearse_together(plan, 0) == []


def test_verdicts() -> None:
    plan = replace(PLAN, majority=0.5)
    for consensus, verdict in {
        0.82: Verdict.USEFUL,
        0.81: Verdict.COSTS_ACCURACY,
        0.60: Verdict.COSTS_ACCURACY,
        0.55: Verdict.NOISE,
    }.items():
        assert judged(plan, "a", "b", 0.5, consensus).verdict is verdict


def test_the_learning_curve_goes_through_what_is_known_and_never_below_guessing() -> None:
    assert PLAN.accuracy_with(2000) == pytest.approx(0.82)
    assert 0.85 < PLAN.accuracy_with(10_000) < 0.87  # .858 was measured
    assert PLAN.accuracy_with(1e-9) == 0.1


@pytest.mark.parametrize(("of", "accuracy", "classes"), [(1.0, 0.7, 2), (0.9, 0.7, 3), (0.85, 0.82, 10)])
def test_what_strays_from_labels_of_one_accuracy_has_the_other(of: float, accuracy: float, classes: int) -> None:
    kept = symmetric(accuracy, of, classes)
    assert of * kept + (1 - of) * (1 - kept) / (classes - 1) == pytest.approx(accuracy)


def test_nothing_is_made_of_labels_that_are_no_better_than_guessing() -> None:
    assert symmetric(0.7, 0.5, 2) == 0.5


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": -math.inf},
        {"delta": 1.0},
        {"delta": -0.1},
        {"delta": 0.0},
        {"epsilon": math.inf, "delta": 2.0},
        {"num_classes": 1},
        {"num_silos": 0},
        {"num_silos": 10_001},
        {"num_records": 1},
        {"num_public": 0},
        {"rounds": 0},
        {"queries": -1},
        {"queries": 1001},
        {"teachers": 2001},
        {"accuracy": 0.1},
        {"accuracy": 1.0},
        {"accuracy": math.nan},
        {"majority": 0.9},
        {"majority": 1.0},
        {"decay": 0.0},
    ],
)
def test_what_cannot_be_planned_is_said_in_one_sentence(wrong: dict[str, Any], wording: SnapshotAssertion) -> None:
    with pytest.raises(ConfigError, match=r"^\w") as found:
        replace(PLAN, **wrong)
    assert str(found.value) == wording
    assert "\n" not in str(found.value)


def test_a_delta_that_lets_a_record_be_published_is_warned_of() -> None:
    assert PLAN.warnings() == []
    (warning,) = replace(PLAN, delta=1 / 2000).warnings()
    assert "publishes one of the 2000 examples" in warning
    assert replace(PLAN, delta=0.01, epsilon=math.inf).warnings()


def test_no_estimate_is_outside_of_what_is_possible() -> None:
    for estimate in estimates(Plan(1, 2, 1, 2, accuracy=0.51, epsilon=0.01), 0):
        assert 0 <= estimate.consensus <= 1
        assert estimate.silo is not None
        assert np.isfinite(estimate.silo)
