"""Noise that costs what it may, and hardly less."""

import pytest
from dp_accounting import DpEvent, GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.privacy.accounting import calibrate, epsilon
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.mechanisms import Gaussian, Gumbel
from fedct_flwr.types import ConfigError

DELTA = 1e-5


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
    found = calibrate(make_event, target, DELTA, 0.3, 1e5)
    assert 0.99 * target < epsilon(make_event(found), DELTA).upper <= target * (1 + 1e-9)


@pytest.mark.parametrize(("target", "sigma"), [(1.0, 3.7306), (0.1, 30.8)])
def test_finds_the_analytic_gaussian(target: float, sigma: float) -> None:
    """Balle, Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018."""
    assert calibrate(GaussianDpEvent, target, DELTA, 0.1, 1e4) == pytest.approx(sigma, rel=0.005)


def test_without_delta_only_pure_mechanisms_can_be_calibrated(wording: SnapshotAssertion) -> None:
    def answers(noise: float) -> DpEvent:
        return SelfComposedDpEvent(pure(1 / noise), 20)

    assert calibrate(answers, 2.0, 0.0, 1e-3, 1e6) == pytest.approx(10, rel=2e-3)
    with pytest.raises(ConfigError) as caught:
        calibrate(GaussianDpEvent, 2.0, 0.0, 1e-3, 1e6)
    assert str(caught.value) == wording
