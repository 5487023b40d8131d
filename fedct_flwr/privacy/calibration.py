"""From a target epsilon and delta to the noise: the least that fits, by the accountants that the ledger uses."""

import math
from collections.abc import Callable
from typing import Final

from dp_accounting import DpEvent

from fedct_flwr.privacy.accounting import Epsilon, epsilon, fits, quick_epsilon
from fedct_flwr.privacy.budget import Budget
from fedct_flwr.types import ConfigError

SLOW_QUERIES: Final = 10_000
"""Of more answers, each an event, loss distributions take too long to look for the least noise with."""

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
    """What ``accounting.epsilon`` says, or where that would take minutes to promise next to nothing, a quick bound."""
    quick = quick_epsilon(event, delta)
    return Epsilon(quick, None, "pure or rdp") if quick > TIGHT_BELOW else epsilon(event, delta)


def _least(enough: Callable[[float], bool], low: float, high: float) -> float:
    """Of the noise that is ``enough``, as ``high`` is: bisection on its logarithm."""
    if enough(low):
        return low
    while high > low * (1 + _PRECISION):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
