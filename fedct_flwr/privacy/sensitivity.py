"""How many bits of a silo's one-hot labels one record can change: what is certain, and what the paper estimates."""

import math
from dataclasses import dataclass
from typing import Final

from scipy.stats import norm

from fedct_flwr.types import ConfigError

NO_GUARANTEE: Final = "no formal guarantee"


@dataclass(frozen=True)
class Sensitivity:
    """At most so many ``bits`` change, of one release; ``reservation`` says why that may be wrong, or is empty."""

    bits: int
    source: str
    reservation: str = ""

    @property
    def formal(self) -> bool:
        """Whether a guarantee may rest on it."""
        return not self.reservation

    def __str__(self) -> str:
        return f"{self.bits} bits ({self.source}{'; ' if self.reservation else ''}{self.reservation})"


def worst_case(num_queries: int) -> Sensitivity:
    """All labels change. A changed label is two bits: 2|U|, not |U| as in a footnote of arXiv:2310.05696, §4.

    Formal guarantees:
        Nothing is assumed: two binary matrices of one-hot (or empty) rows differ in at most two bits a row.

    >>> print(worst_case(50_000))
    100000 bits (worst case)
    """
    return Sensitivity(2 * num_queries, "worst case")


def proposition_2(num_queries: int, stability: float, delta: float) -> Sensitivity:
    """The formula of Abourayya et al., arXiv:2310.05696, Proposition 2, for ``num_queries`` = n public examples.

    ``ceil(n e + P sqrt(n e (1 - e)) + P**2 / 3)`` labels, two bits each, with P the (1 - ``delta``)-quantile of the
    normal distribution and e = ``stability``, the on-average-replace-one stability rate. Raises ConfigError for numbers
    that are no probabilities.

    Formal guarantees:
        None. Stability on average bounds an expectation over data sets, neighbours and examples; a sensitivity is a
        supremum. It bounds the loss on the record that was replaced, not on the public set. And the proof takes the
        examples' changes for independent, with a normal approximation of their sum.

    >>> print(proposition_2(50_000, stability=0.05, delta=0.01))
    5232 bits (Proposition 2; no formal guarantee)
    """
    if not (0 <= stability <= 1 and 0 < delta < 1):
        raise ConfigError(f"Proposition 2 needs a stability rate in [0, 1] and 0 < delta < 1, not {stability}, {delta}")
    quantile = norm.ppf(1 - delta)
    mean = num_queries * stability
    labels = math.ceil(mean + quantile * math.sqrt(mean * (1 - stability)) + quantile**2 / 3)
    return Sensitivity(2 * min(max(labels, 0), num_queries), "Proposition 2", NO_GUARANTEE)
