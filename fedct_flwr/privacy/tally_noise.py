"""Noise on the tally at the coordinator: which mechanism, how much of it, and what it costs; and what silos' costs."""

from collections.abc import Callable
from typing import Final

from numpy.random import Generator

from fedct_flwr.config.privacy import NoisePlan
from fedct_flwr.consensus.counting import Decide
from fedct_flwr.privacy.accounting import SLOW_QUERIES, calibrate, epsilon_in_time
from fedct_flwr.privacy.budget import ALL_SILOS, NoiseOnVotes, PrivacyUnit, Spending
from fedct_flwr.privacy.mechanisms import ON_COUNTS, CountNoise, Mechanism, noisy_max, repeated
from fedct_flwr.privacy.randomness import Noise, SecureNoise, SimulatedNoise
from fedct_flwr.types import HardLabels, VoteCounts


def dear_partitions(level: str, partitions: int, gamma: float = 0.0) -> str | None:
    """Explain why several partitions cost too much at L1, or None: the noise must hide a silo's vote for each of them.

    ``gamma`` is 0 where it is not known yet.
    """
    if level != "L1" or partitions < 2:
        return None
    known = f" = {2 * partitions * gamma:g}" if gamma else ""
    return (
        f"with {partitions} partitions at FedKT-L1 each query costs 2 * {partitions} * gamma{known}, "
        f"{partitions} times what it costs with one: set partitions to 1"
    )


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
    """Cost of the labels of ``num_queries`` examples for a unit.

    ``partitions``: how many times a silo goes through the mechanism for each example, at L2. Epsilon is the least that
    our accountants can promise for this mechanism whatever the votes are.
    """
    price = epsilon_in_time(repeated(mechanism.event(num_queries), partitions), delta)
    return Spending(
        whom=ALL_SILOS,
        unit=mechanism.unit,
        epsilon=price.upper,
        delta=delta,
        accountant=price.accountant,
        noise=NoiseOnVotes(mechanism.name, num_queries, mechanism.scale, mechanism.votes_per_unit),
    )
