"""Noise on the tally at the coordinator: which mechanism, how much of it, and what it costs; and what silos' costs."""

from collections.abc import Callable
from typing import Final

from numpy.random import Generator

from fedct_flwr.config.privacy import NoisePlan
from fedct_flwr.consensus.counting import Decide
from fedct_flwr.privacy.budget import PrivacyUnit
from fedct_flwr.privacy.calibration import SLOW_QUERIES, calibrate
from fedct_flwr.privacy.fedkt import price_of
from fedct_flwr.privacy.mechanisms import ON_COUNTS, CountNoise, Mechanism
from fedct_flwr.privacy.mechanisms.base import noisy_max
from fedct_flwr.privacy.randomness import Noise, SecureNoise, SimulatedNoise
from fedct_flwr.privacy.spending import ALL_SILOS, NoiseOnVotes, Spending
from fedct_flwr.types import HardLabels, VoteCounts

_LEAST_SCALE: Final = 0.05


def tally_mechanism(plan: NoisePlan, votes: int, num_queries: int) -> CountNoise:
    """The mechanism of this plan, for silos with ``votes`` votes each, that keeps the plan's epsilon and delta.

    With a ``gamma`` its scale is 1 / gamma, whatever that costs. Raises ConfigError where no noise keeps the budget.
    """

    def of(scale: float) -> CountNoise:
        return ON_COUNTS[plan.mechanism](scale, votes_per_unit=votes, unit=PrivacyUnit.SILO)

    if plan.gamma:
        return of(1 / plan.gamma)
    highest = 100 * votes * num_queries / plan.epsilon
    scale = calibrate(
        lambda scale: of(scale).event(num_queries),
        plan.epsilon,
        plan.delta,
        min(_LEAST_SCALE, highest),
        highest,
        quick=num_queries > SLOW_QUERIES,
    )
    return of(scale)


def noisy(mechanism: Mechanism, make_noise: Callable[[Generator], Noise]) -> Decide:
    """Decide on counts after noise: the class that then has most votes.

    Every row goes through the mechanism, also one without any vote: to abstain there would tell, without noise, that
    there was none. So nothing is ABSTAIN.

    Formal guarantees:
        For each silo as a whole, all its votes replaced by whatever else: the labels together cost what the mechanism's
        event says of all examples asked about, if the silo has at most ``votes_per_unit`` votes on each, all for one
        class (consistent voting counts no others). Which silos answered is public. It protects from who sees the
        labels, **not from the coordinator**, who sees the votes; and the coordinator's own round log (how far silos
        agree with the labels) is not covered, so it must stay there. Holds with ``SecureNoise`` only.
    """

    def decide(counts: VoteCounts, incumbent: HardLabels, rng: Generator) -> HardLabels:
        return noisy_max(mechanism, counts, make_noise(rng))

    return decide


def noise_for(*, real: bool) -> Callable[[Generator], Noise]:
    """Noise that protects real silos, or for simulated ones noise of the run's seed, which protects no one."""
    return (lambda rng: SecureNoise()) if real else SimulatedNoise


def spent_by(mechanism: CountNoise, num_queries: int, delta: float, *, partitions: int = 1) -> Spending:
    """What the labels of ``num_queries`` examples cost a unit.

    ``partitions``: how many times a silo goes through the mechanism for each example, at L2. Epsilon is the least that
    our accountants can promise for this mechanism whatever the votes are.
    """
    price = price_of(mechanism, num_queries, times=partitions, delta=delta)
    return Spending(
        whom=ALL_SILOS,
        unit=mechanism.unit,
        epsilon=price.tightest.upper,
        delta=delta,
        accountant=price.tightest.accountant,
        noise=NoiseOnVotes(mechanism.name, num_queries, mechanism.scale, price.gumbel.upper, price.paper),
    )
