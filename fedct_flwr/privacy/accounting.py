"""Total cost of events: pure composition, Rényi DP and privacy loss distributions, on dp_accounting.

From a target epsilon and delta to the noise: ``calibrate``.

Each accountant gives an upper bound, so the least of them is one too. Two data sets are adjacent if one unit is added
to one of them or removed from it; events that need another relation (sampling without replacement) are refused.

dp_accounting's own accountants are not used as they are, for two reasons. They want one adjacency for all events, and
refuse a randomized response next to a Poisson sample. And ``PLDAccountant`` 0.6.0 counts a repeated randomized response
once.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NeighboringRelation,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
    pld,
)
from dp_accounting.dp_event import DiscreteLaplaceDpEvent
from dp_accounting.rdp import rdp_privacy_accountant as rdp_accountant
from numpy.typing import NDArray

from fedct_flwr.privacy.budget import Budget
from fedct_flwr.privacy.events import BoundedRangeDpEvent, DiscreteGaussianDpEvent, check, pure
from fedct_flwr.types import ConfigError

_PLDS: Final = pld.privacy_loss_distribution
_GRID: Final = 1e-4
"""Privacy losses are rounded to multiples of this."""
_ORDERS: Final = np.array(
    [1 + tenth / 10 for tenth in range(1, 100)] + list(range(11, 64)) + [2.0**power for power in range(6, 21)]
)
_HOPELESS: Final = 30.0
"""A tighter bound does not bring an epsilon of more than this, by Rényi DP, down to a third of it."""
_LARGEST_SCALE: Final = 1 << 14
_MOST_LOSSES: Final = 32
"""Of discrete Gaussian noise with a larger scale, and of more different events, no loss distribution is computed: one
of scale 2^20 takes half a minute and a gigabyte, and a coordinator may ask for another scale in each question."""
_SAMPLED_ORDERS: Final = 512
"""Beyond this order, a Poisson sample's divergence takes longer than it is worth."""


_HOW: Final[dict[str, Any]] = {
    "pessimistic_estimate": True,
    "use_connect_dots": True,
    "value_discretization_interval": _GRID,
}
"""How loss distributions are made: upper bounds, by connecting the dots, the tighter way."""


class Epsilon(NamedTuple):
    """Epsilon at some delta of what events describe: not of code that does something else.

    ``upper`` is the promise. ``accountant`` gave this bound: pure, rdp or pld.
    """

    upper: float
    accountant: str


def epsilon(event: DpEvent, delta: float) -> Epsilon:
    """The least epsilon at ``delta`` that can be promised for ``event``, by all accountants.

    Infinite where there is none: an answer without noise, or delta = 0 for Gaussian noise. Raises UnsupportedEventError
    for events that are unknown, ConfigError for a delta outside of [0, 1).

    Forty releases of a mechanism that is 0.1-DP:

    >>> spent = epsilon(SelfComposedDpEvent(pure(0.1), 40), delta=1e-5)
    >>> round(spent.upper, 2), spent.accountant
    (2.51, 'pld')
    """
    return _epsilon(tuple(_leaves(event, delta).items()), delta)


@lru_cache(maxsize=64)
def _epsilon(counted: tuple[tuple[DpEvent, int], ...], delta: float) -> Epsilon:
    """Cached, as a ledger is asked often, and loss distributions take up to seconds."""
    leaves = Counter(dict(counted))
    bounds = {"pure": _pure_composition(leaves)}
    if delta > 0:
        bounds["rdp"] = _renyi(leaves, delta)
        bounds["pld"] = _loss_distribution(leaves, delta)
    accountant = min(bounds, key=lambda name: bounds[name])
    return Epsilon(bounds[accountant], accountant)


def fits(event: DpEvent, limit: float, delta: float) -> bool:
    """Whether the event costs at most ``limit`` at ``delta``; quickly where that is plain. Raises like ``epsilon``.

    One that Rényi DP finds far too dear does not fit: its loss distribution would fill the memory.
    """
    leaves = _leaves(event, delta)
    slack = limit * (1 + 1e-9)  # thirty times 0.1 is more than 3 in floating point
    if _pure_composition(leaves) <= slack:
        return True
    if delta == 0:
        return False
    quick = _renyi(leaves, delta)
    if quick <= slack or quick > max(_HOPELESS, 3 * limit):
        return quick <= slack
    return _loss_distribution(leaves, delta) <= slack


def quick_epsilon(event: DpEvent, delta: float) -> float:
    """An upper bound in about a millisecond, without privacy loss distributions. Raises like ``epsilon``."""
    leaves = _leaves(event, delta)
    return min(_pure_composition(leaves), _renyi(leaves, delta) if delta > 0 else math.inf)


def _leaves(event: DpEvent, delta: float) -> Counter[DpEvent]:
    if not 0 <= delta < 1:
        raise ConfigError(f"delta is {delta}; set it to 0 or a number below 1, such as 1e-5")
    check(event)
    leaves: Counter[DpEvent] = Counter()
    for leaf, count in _flat(event, 1):
        leaves[leaf] += count
    return +leaves


def _flat(event: DpEvent, count: int) -> Iterator[tuple[DpEvent, int]]:
    if isinstance(event, ComposedDpEvent):
        for part in event.events:
            yield from _flat(part, count)
    elif isinstance(event, SelfComposedDpEvent):
        yield from _flat(event.event, count * event.count)
    elif not isinstance(event, NoOpDpEvent):
        yield event, count


def _pure_composition(leaves: Counter[DpEvent]) -> float:
    return math.fsum(count * _pure_epsilon(leaf) for leaf, count in leaves.items())


def _pure_epsilon(leaf: DpEvent) -> float:
    match leaf:
        case RandomizedResponseDpEvent():
            kept, lost = _odds(leaf)
            return math.log(kept / lost) if lost > 0 else math.inf
        case DiscreteLaplaceDpEvent():
            return float(leaf.noise_parameter * leaf.sensitivity)
        case BoundedRangeDpEvent():
            return leaf.eta
        case _:
            return math.inf


def _odds(leaf: RandomizedResponseDpEvent) -> tuple[float, float]:
    """Probabilities of the true class, and of each other one."""
    lost = leaf.noise_parameter / max(1, leaf.num_buckets)
    return 1 - leaf.noise_parameter + lost, lost


def _renyi(leaves: Counter[DpEvent], delta: float) -> float:
    total = np.zeros(len(_ORDERS))
    for leaf, count in leaves.items():
        total += count * _divergences(leaf)
    finite = np.isfinite(total)
    if not finite.any():
        return math.inf
    return float(rdp_accountant.compute_epsilon(_ORDERS[finite], total[finite], delta)[0])


@lru_cache(maxsize=256)
def _divergences(leaf: DpEvent) -> NDArray[np.float64]:
    """Rényi divergence of each order; infinite where not computed."""
    orders, relation, event = _ORDERS, NeighboringRelation.ADD_OR_REMOVE_ONE, leaf
    match leaf:
        case RandomizedResponseDpEvent():
            relation = NeighboringRelation.REPLACE_ONE  # a unit may change any answer into any other
        case DiscreteLaplaceDpEvent():
            relation, event = NeighboringRelation.REPLACE_ONE, pure(max(_pure_epsilon(leaf), 1e-300))
        case BoundedRangeDpEvent():
            event = ZCDpEvent(leaf.eta**2 / 8)
        case DiscreteGaussianDpEvent():
            event = ZCDpEvent(leaf.sensitivity**2 / (2 * leaf.scale**2))
        case PoissonSampledDpEvent():
            orders = _ORDERS[_ORDERS <= _SAMPLED_ORDERS]
        case _:
            pass
    divergences: NDArray[np.float64] = np.full(len(_ORDERS), math.inf)
    with np.errstate(all="ignore"):
        composed = rdp_accountant.RdpAccountant(orders, relation).compose(event).rdp
    divergences[: len(orders)] = np.where(np.isnan(composed), math.inf, composed)
    np.minimum(divergences, _pure_epsilon(leaf), out=divergences)
    return divergences


def _loss_distribution(leaves: Counter[DpEvent], delta: float) -> float:
    """Epsilon by privacy loss distributions; infinite without one."""
    if len(leaves) > _MOST_LOSSES or any(map(_lacks_losses, leaves)):
        return math.inf
    total: Any = None
    for leaf, count in leaves.items():
        losses = _losses(leaf, count)
        total = losses if total is None else total.compose(losses)
    return 0.0 if total is None else float(total.get_epsilon_for_delta(delta))


def _lacks_losses(leaf: DpEvent) -> bool:
    """Whether it has no loss distribution, as it tells all, or one that takes too long."""
    if isinstance(leaf, DiscreteGaussianDpEvent):
        return leaf.scale > _LARGEST_SCALE
    return isinstance(leaf, RandomizedResponseDpEvent) and bool(leaf.noise_parameter == 0)


def _losses(leaf: DpEvent, count: int) -> Any:
    if isinstance(leaf, GaussianDpEvent):
        # Many Gaussians are one.
        return _PLDS.from_gaussian_mechanism(leaf.noise_multiplier / math.sqrt(count), **_HOW)
    one = _one_loss(leaf)
    return one.self_compose(count) if count > 1 else one


@lru_cache(maxsize=64)
def _one_loss(leaf: DpEvent) -> Any:
    match leaf:
        case RandomizedResponseDpEvent():
            return _few_losses(leaf)
        case DiscreteLaplaceDpEvent():
            if leaf.sensitivity == 0:
                return _PLDS.identity(_GRID)
            return _PLDS.from_discrete_laplace_mechanism(leaf.noise_parameter, leaf.sensitivity, **_HOW)
        case DiscreteGaussianDpEvent():
            if leaf.sensitivity == 0:
                return _PLDS.identity(_GRID)
            return _PLDS.from_discrete_gaussian_mechanism(leaf.scale, leaf.sensitivity, **_HOW)
        case BoundedRangeDpEvent():
            return _bounded_range(leaf.eta)
        case PoissonSampledDpEvent():
            return _PLDS.from_gaussian_mechanism(
                leaf.event.noise_multiplier, sampling_prob=leaf.sampling_probability, **_HOW
            )
        case _:
            raise AssertionError(f"check() lets {type(leaf).__name__} through")


def _few_losses(leaf: RandomizedResponseDpEvent) -> Any:
    """Randomized response's losses, by its exact hockey-stick divergences at the ends of its range and at zero.

    dp_accounting rounds each loss up instead, which many small ones add up to far too much.
    """
    kept, lost = _odds(leaf)
    edge = math.ceil(math.log(kept / lost) / _GRID)
    points = np.array(sorted({-edge, -edge + 1, 0, edge - 1, edge}))
    grown = np.exp(points * _GRID)
    rest = lost * (leaf.num_buckets - 2)
    deltas = (
        np.maximum(0, kept - grown * lost) + np.maximum(0, lost - grown * kept) + np.maximum(0, rest - grown * rest)
    )
    return _connected(points, deltas)


def _bounded_range(eta: float) -> Any:
    """The largest hockey-stick divergence of any mechanism of this range, at each multiple of the grid.

    For a loss of t or t - eta it is (1 - e^(t-eta)) (1 - e^(eps-t)) / (1 - e^-eta) for 0 <= eps <= t, and largest at
    t = (eps + eta) / 2 (Dong, Durfee, Rogers, ICML 2020, §4). Below zero by symmetry: exchanging the two inputs
    leaves the range. Dominating pairs of the mechanisms compose to one of their composition (Zhu, Dong, Wang, "Optimal
    accounting of differential privacy via characteristic function", AISTATS 2022, Theorem 10).
    """
    edge = math.ceil(eta / _GRID)
    points = np.arange(-edge, edge + 1)
    loss = np.abs(points) * _GRID
    above = np.expm1(np.minimum(0, loss - eta) / 2) ** 2 / -np.expm1(-eta)
    below = 1 - np.exp(-loss) + np.exp(-loss) * above
    return _connected(points, np.where(points < 0, below, above))


def _connected(points: NDArray[np.int64], deltas: NDArray[np.float64]) -> Any:
    pmf = pld.pld_pmf.create_pmf_pessimistic_connect_dots(_GRID, points, np.clip(deltas, 0, 1))
    return _PLDS.PrivacyLossDistribution(pmf)


SLOW_QUERIES: Final = 10_000
"""With more answers, each an event, a search for the least noise by loss distributions takes too long."""

_PRECISION: Final = 1e-3
_STRIDE: Final = 1.1
TIGHT_BELOW: Final = 30.0
"""Beyond this epsilon nothing is promised that a tighter bound could improve, and loss distributions take minutes."""


def calibrate(
    make_event: Callable[[float], DpEvent],
    epsilon: float,
    delta: float,
    low: float,
    high: float,
    *,
    quick: bool = False,
) -> float:
    """The least noise in ``low..high``, to a thousandth of itself, whose event costs at most ``epsilon`` at ``delta``.

    ``make_event(noise)`` describes everything that is planned; more noise must not make it dearer. Raises ConfigError
    if it costs too much even with ``high``. ``quick``: in milliseconds, by Rényi DP alone, for some more noise; loss
    distributions of a hundred thousand answers take half a minute.

    >>> from dp_accounting import GaussianDpEvent
    >>> round(calibrate(GaussianDpEvent, epsilon=1.0, delta=1e-5, low=0.1, high=100.0), 2)
    3.73

    Formal guarantees:
        What is returned was itself found to fit: a search that ends too early only means more noise. Reads no data.
    """
    Budget(epsilon, delta)  # refuses impossible ones
    if not 0 < low <= high:
        raise ValueError(f"noise between {low} and {high}")

    def enough(noise: float) -> bool:
        return fits(make_event(noise), epsilon, delta)

    def plainly_enough(noise: float) -> bool:
        return quick_epsilon(make_event(noise), delta) <= epsilon

    quick = quick or epsilon > TIGHT_BELOW
    if not (plainly_enough(high) if quick else enough(high)):
        raise ConfigError(
            f"no noise keeps what is planned within epsilon {epsilon:g} at delta {delta:g}: plan fewer queries or "
            "rounds, or raise epsilon"
        )
    if quick:
        return _least(plainly_enough, low, high)
    # Loss distributions take long, and longest for little noise: they only improve on what the quick bound finds.
    least = _least(plainly_enough, low, high) if plainly_enough(high) else high
    while least > low and enough(below := max(low, least / _STRIDE)):
        least = below
    return _least(enough, max(low, least / _STRIDE), least)


def epsilon_in_time(event: DpEvent, delta: float) -> Epsilon:
    """``accounting.epsilon``, or a quick bound where it would take minutes and promise next to nothing."""
    quick = quick_epsilon(event, delta)
    return Epsilon(quick, "pure or rdp") if quick > TIGHT_BELOW else epsilon(event, delta)


def _least(enough: Callable[[float], bool], low: float, high: float) -> float:
    """Least noise that is ``enough``, as ``high`` is: bisection on its logarithm."""
    if enough(low):
        return low
    while high > low * (1 + _PRECISION):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
