"""Report noisy max: the class with the most votes after noise, whatever mechanism makes it."""

from fedct_flwr.privacy.mechanisms import Mechanism
from fedct_flwr.privacy.mechanisms.base import largest
from fedct_flwr.privacy.randomness import Noise
from fedct_flwr.types import LABEL_DTYPE, HardLabels, VoteCounts


def noisy_max(mechanism: Mechanism, counts: VoteCounts, noise: Noise) -> HardLabels:
    """The class of each example, ``(examples,)``: where nobody voted, noise decides.

    ``counts`` ``(examples, classes)``; ``mechanism`` is one on vote counts, which releases counts or already labels.

    Formal guarantees:
        Whatever ``mechanism.event(examples)`` promises: the labels depend on the counts only through what it released,
        and on lots from the same source of noise. A tie goes to any of its classes, not to the first: that would
        favor it.
    """
    released = mechanism(counts, noise)
    if released.ndim == 1:
        return released.astype(LABEL_DTYPE)
    return largest(released, noise)
