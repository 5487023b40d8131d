"""The paper's epsilon beside ours: ALGORITHMS.md's figures, and what is tighter than what."""

import math

import numpy as np
import pytest
from dp_accounting import SelfComposedDpEvent

from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.budget import PrivacyUnit
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.fedkt import Level, NoiseKind, dear_partitions, fedkt_mechanism, fedkt_price, price_of
from fedct_flwr.privacy.moments import fedkt_epsilon
from fedct_flwr.types import ConfigError


def test_golden_numbers() -> None:
    """Where the paper has 5.14: 4.19 by optimal composition of what is 2 gamma-DP, 2.45 with Gumbel noise."""
    price = fedkt_price(0.04, 148, level="L2")
    optimal = epsilon(SelfComposedDpEvent(pure(0.08), 148), 1e-5)
    rho = 148 * 0.08**2 / 8
    as_zcdp = rho + 2 * math.sqrt(rho * math.log(1e5))  # Bun, Steinke, TCC 2016, Proposition 1.3
    assert price.paper == pytest.approx(5.144, abs=0.0005)
    assert optimal.upper == pytest.approx(4.19, abs=0.005)
    assert as_zcdp == pytest.approx(2.45, abs=0.005)
    # That the noise is Laplace's, and by Rényi DP in place of zCDP's own conversion:
    assert price.tightest.upper == pytest.approx(4.145, abs=0.005)
    assert price.gumbel.upper == pytest.approx(2.102, abs=0.005)


@pytest.mark.parametrize("level", ["L1", "L2"])
@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("noise", ["laplace", "gumbel"])
def test_ours_is_never_above_the_papers(level: Level, partitions: int, noise: NoiseKind) -> None:
    price = fedkt_price(0.05, 40, level=level, partitions=partitions, noise=noise)
    assert price.paper is not None
    assert price.gumbel.upper <= price.tightest.upper < price.paper
    assert (price.gumbel == price.tightest) == (noise == "gumbel")


def test_a_silo_of_two_students_has_twice_the_votes_and_an_example_twice_the_queries() -> None:
    silo, example = (fedkt_price(0.05, 40, level=level, partitions=2) for level in ("L1", "L2"))
    assert silo.unit is PrivacyUnit.SILO
    assert example.unit is PrivacyUnit.EXAMPLE
    assert silo.paper == fedkt_epsilon(0.1, 40)
    assert example.paper == fedkt_epsilon(0.05, 80)
    assert silo.tightest.upper == pytest.approx(fedkt_price(0.1, 40, level="L1").tightest.upper, rel=0.01)
    assert example.tightest == fedkt_price(0.05, 80, level="L2").tightest


def test_what_it_prices_is_the_mechanism() -> None:
    silos = fedkt_mechanism(0.05, level="L1", partitions=2, noise="gumbel")
    assert (silos.scale, silos.votes_per_unit, silos.unit) == (20.0, 2, PrivacyUnit.SILO)
    assert fedkt_mechanism(0.05, level="L2", partitions=2).votes_per_unit == 1
    assert price_of(silos, 40).tightest == epsilon(silos.event(40), 1e-5)
    assert price_of(silos, 40) == fedkt_price(0.05, 40, level="L1", partitions=2, noise="gumbel")
    assert price_of(silos, 40, times=3).tightest == epsilon(silos.event(120), 1e-5)


def test_without_delta_the_papers_accountant_has_nothing_to_say() -> None:
    price = fedkt_price(0.05, 40, level="L2", delta=0.0)
    assert price.paper is None
    assert price.tightest.upper == pytest.approx(40 * 2 * 0.05)


def test_gaussian_noise_is_not_in_the_paper() -> None:
    price = fedkt_price(0.04, 148, level="L2", noise="gaussian")
    assert price.paper is None
    assert "paper" not in str(price)
    assert price.gumbel.upper < price.tightest.upper


def test_gumbel_noise_is_as_good_for_the_labels() -> None:
    gap = np.linspace(0, 30, 1000)
    assert (1 / (1 + np.exp(gap)) <= (2 + gap) / (4 * np.exp(gap)) + 1e-15).all()


def test_several_partitions_at_l1_are_dear() -> None:
    warning = dear_partitions("L1", 2, 0.05)
    assert warning is not None
    assert "each query costs 2 * 2 * gamma = 0.2, 2 times" in warning
    assert dear_partitions("L1", 1, 0.05) is dear_partitions("L2", 2, 0.05) is dear_partitions("L0", 2, 0.0) is None


def test_numbers_that_are_none_are_refused() -> None:
    for wrong in ({"gamma": 0.0}, {"partitions": 0}, {"delta": 1.0}):
        with pytest.raises(ConfigError):
            fedkt_price(**({"gamma": 0.1, "num_queries": 3, "level": "L1"} | wrong))  # type: ignore[arg-type]
