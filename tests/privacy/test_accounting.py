"""Golden epsilons, closed forms, and what accountants must refuse."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NeighboringRelation,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    UnsupportedDpEvent,
    UnsupportedEventError,
    ZCDpEvent,
    get_epsilon_gaussian,
)
from dp_accounting.dp_event import DiscreteLaplaceDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy.stats import binom
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.privacy import accounting
from fedct_flwr.privacy.accounting import calibrate, epsilon, fits, quick_epsilon
from fedct_flwr.privacy.budget import Budget, PrivacyUnit
from fedct_flwr.privacy.events import BoundedRangeDpEvent, DiscreteGaussianDpEvent, composed, from_json, pure, to_json
from fedct_flwr.privacy.mechanisms import Gaussian, Gumbel, RandomizedResponse
from fedct_flwr.types import ConfigError
from tests.sentences import sentence

DELTA = 1e-5
SGD = PoissonSampledDpEvent(0.01, GaussianDpEvent(1.1))
KNOWN = [
    NoOpDpEvent(),
    RandomizedResponseDpEvent(0.3, 10),
    GaussianDpEvent(2.0),
    DiscreteLaplaceDpEvent(0.1, 2),
    DiscreteGaussianDpEvent(3.0, 1),
    BoundedRangeDpEvent(0.08),
    SGD,
    SelfComposedDpEvent(SGD, 100),
    composed(pure(0.1), SelfComposedDpEvent(composed(SGD, DiscreteLaplaceDpEvent(0.1, 1)), 3)),
]


def optimal(eps: float, times: int, delta: float) -> float:
    """Of a mechanism that is eps-DP: Kairouz, Oh, Viswanath, ICML 2015, Theorem 3.3, as sums of the binomial."""
    kept = math.exp(eps) / (1 + math.exp(eps))
    losses = eps * (2 * np.arange(times + 1) - times)
    p = binom.pmf(np.arange(times + 1), times, kept)

    def least_delta(total: float) -> float:
        return float((p * np.maximum(0, -np.expm1(total - losses))).sum())

    low, high = 0.0, times * eps
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if least_delta(middle) <= delta else (middle, high)
    return high


@pytest.mark.parametrize(("eps", "times"), [(0.1, 40), (0.08, 148), (1.0, 5), (3.0, 2), (0.01, 2000)])
def test_the_bound_is_not_far_above_the_optimal_composition(eps: float, times: int) -> None:
    found = epsilon(SelfComposedDpEvent(pure(eps), times), DELTA)
    exact = optimal(eps, times, DELTA)
    assert exact - 1e-9 <= found.upper <= 1.15 * exact + 1e-3


@pytest.mark.parametrize("times", [1, 30])
def test_gaussian_noise_is_accounted_for_as_well_as_in_closed_form(times: int) -> None:
    found = epsilon(SelfComposedDpEvent(GaussianDpEvent(4.0), times), DELTA)
    exact = get_epsilon_gaussian(4.0 / math.sqrt(times), DELTA)
    assert exact - 1e-9 <= found.upper <= exact + 1e-3


def test_a_repeated_randomized_response_is_not_counted_once() -> None:
    """dp_accounting 0.6.0 does: if this begins to fail, its accountant may be used as it is."""
    event = SelfComposedDpEvent(RandomizedResponse(10, 0.1).event(1), 100)
    theirs = PLDAccountant(NeighboringRelation.REPLACE_ONE).compose(event).get_epsilon(DELTA)
    assert theirs < 0.11
    assert epsilon(event, DELTA).upper > 1.8


def test_dp_sgd_costs_what_dp_accounting_says() -> None:
    event = SelfComposedDpEvent(SGD, 1000)
    found = epsilon(event, DELTA)
    assert found.accountant == "pld"
    assert found.upper == pytest.approx(PLDAccountant().compose(event).get_epsilon(DELTA), rel=1e-6)
    assert quick_epsilon(event, DELTA) == pytest.approx(RdpAccountant().compose(event).get_epsilon(DELTA), rel=0.02)
    assert found.upper <= quick_epsilon(event, DELTA)


@pytest.mark.parametrize("event", KNOWN)
def test_more_of_an_event_never_costs_less(event) -> None:
    costs = [epsilon(SelfComposedDpEvent(event, times), DELTA).upper for times in (0, 1, 2, 10)]
    assert costs[0] == 0
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(costs))


@pytest.mark.parametrize("event", KNOWN)
def test_fits_agrees_with_epsilon(event) -> None:
    cost = epsilon(event, DELTA).upper
    assert fits(event, cost, DELTA) or math.isinf(cost)
    if 0 < cost < math.inf:
        assert not fits(event, cost * 0.99, DELTA)


def test_what_is_not_private_costs_infinitely_much_beside_anything() -> None:
    plain = RandomizedResponseDpEvent(0.0, 2)
    for event in (plain, composed(pure(0.1), plain)):
        assert math.isinf(epsilon(event, DELTA).upper)
        assert math.isinf(epsilon(event, 0).upper)
        assert not fits(event, 1e6, DELTA)


@pytest.mark.parametrize(
    "event",
    [
        UnsupportedDpEvent(),
        SampledWithoutReplacementDpEvent(100, 10, GaussianDpEvent(1.0)),
        PoissonSampledDpEvent(0.1, pure(1.0)),
        SelfComposedDpEvent(pure(0.1), -3),
        ComposedDpEvent([pure(0.1), UnsupportedDpEvent()]),
        SelfComposedDpEvent(UnsupportedDpEvent(), 2),
        GaussianDpEvent(-1.0),
        GaussianDpEvent(math.nan),
        ZCDpEvent(0.1),
        RandomizedResponseDpEvent(1.5, 2),
        RandomizedResponseDpEvent(0.5, 1),
        DiscreteLaplaceDpEvent(0.5, -2),
    ],
    ids=str,
)
def test_unknown_and_impossible_events_are_refused_everywhere(event) -> None:
    for refuse in (lambda: epsilon(event, DELTA), lambda: fits(event, 10, DELTA), lambda: to_json(event)):
        with pytest.raises(UnsupportedEventError):
            refuse()


class Cheaper(GaussianDpEvent):
    """Pretends to be another event."""


def test_a_subclass_of_a_known_event_is_unknown() -> None:
    with pytest.raises(UnsupportedEventError, match="Cheaper"):
        epsilon(Cheaper(1.0), DELTA)


@pytest.mark.parametrize("delta", [-0.1, 1.0, 2.0, math.nan])
def test_an_impossible_delta_is_refused(delta: float) -> None:
    with pytest.raises(ConfigError, match="delta is"):
        epsilon(pure(0.1), delta)


@pytest.mark.parametrize("event", KNOWN)
def test_an_event_survives_being_written_down(event) -> None:
    assert from_json(to_json(event)) == event


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"type": "os.system"}',
        '{"type": "GaussianDpEvent", "noise_multiplier": "1"}',
        '{"type": "GaussianDpEvent", "noise_multiplier": 1, "more": 2}',
        '{"type": "SelfComposedDpEvent", "event": {"type": "NoOpDpEvent"}, "count": -1}',
    ],
)
def test_any_other_text_is_no_event(text: str) -> None:
    with pytest.raises(UnsupportedEventError):
        from_json(text)


def test_events_that_take_long_to_price_have_a_bound_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [DiscreteGaussianDpEvent(100.0 + number, 1) for number in range(accounting._MOST_LOSSES)]
    assert epsilon(composed(*few), DELTA).accountant == "pld"

    def never(*arguments: object, **others: object) -> None:
        pytest.fail("a loss distribution was computed")

    monkeypatch.setattr(accounting, "_losses", never)
    for event in (composed(*few, DiscreteGaussianDpEvent(99.0, 1)), DiscreteGaussianDpEvent(2.0**20, 2)):
        found = epsilon(SelfComposedDpEvent(event, 50), DELTA)
        assert found.accountant == "rdp"
        assert found.upper == quick_epsilon(SelfComposedDpEvent(event, 50), DELTA)
        assert fits(SelfComposedDpEvent(event, 50), found.upper, DELTA)
        assert not fits(SelfComposedDpEvent(event, 50), found.upper * 0.99, DELTA) or not found.upper


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        *((epsilon, 1e-5) for epsilon in (0, -1.0, math.nan, math.inf)),
        *((1.0, delta) for delta in (-1e-9, 1.0, math.nan)),
    ],
)
def test_a_budget_that_promises_nothing_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ConfigError, match="epsilon is" if delta == 1e-5 else "delta is"):
        Budget(epsilon, delta)


def test_a_delta_of_one_in_n_is_weak() -> None:
    budget = Budget(1.0, 1e-3, PrivacyUnit.EXAMPLE)
    assert "publishes one of the 1000 examples" in str(budget.weakness(1000))
    assert budget.weakness(999) is None


AT_DELTA = 1e-5


def _sgd(noise: float) -> DpEvent:
    return SelfComposedDpEvent(PoissonSampledDpEvent(0.05, GaussianDpEvent(noise)), 100)


PLANS = {
    "one gaussian": GaussianDpEvent,
    "votes": lambda scale: Gaussian(scale).event(300),
    "noisy max": lambda scale: Gumbel(scale).event(300),
    "sgd": _sgd,
}


@pytest.mark.parametrize("target", [0.5, 3.0])
@pytest.mark.parametrize("plan", PLANS)
def test_what_is_found_costs_what_it_may_and_hardly_less(plan: str, target: float) -> None:
    make_event = PLANS[plan]
    found = calibrate(make_event, target, AT_DELTA, 0.3, 1e5)
    assert 0.99 * target < epsilon(make_event(found), AT_DELTA).upper <= target * (1 + 1e-9)


def test_without_delta_only_pure_mechanisms_can_be_calibrated(wording: SnapshotAssertion) -> None:
    def answers(noise: float) -> DpEvent:
        return SelfComposedDpEvent(pure(1 / noise), 20)

    assert calibrate(answers, 2.0, 0.0, 1e-3, 1e6) == pytest.approx(10, rel=2e-3)
    assert sentence(ConfigError, calibrate, GaussianDpEvent, 2.0, 0.0, 1e-3, 1e6) == wording
