"""Which categories of a table become columns of their own: all, as long as one-hot encoding takes little memory.

Two columns of 5,000 categories in 20,000 public examples are a file of half a megabyte, and 1.6 GB one-hot. Beyond
``MOST_VALUES`` the rarest categories are none: their examples have zeros in all columns of the category, as those of a
category have that nobody knew.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

MOST_VALUES: Final = 1 << 26
"""Values of one-hot columns, of all examples that are learned from (512 MB in double precision)."""
_FREQUENT: Final = 0.001
"""Share of the examples from which on a category is kept in any case: no column has more than 1,000 of them."""


def kept(counts: Sequence[NDArray[np.int64]], examples: int) -> list[NDArray[np.bool_]]:
    """Which categories of each column are kept, ``(categories,)`` each, of how many examples each has; one at least.

    >>> [mask.tolist() for mask in kept([np.array([3, 1]), np.array([2, 2])], 4)]
    [[True, True], [True, True]]
    """
    room = MOST_VALUES // max(1, examples)
    # Of equally rare ones all go or none: which of them stays should not depend on their order.
    ordered = np.sort(np.concatenate([*counts, np.zeros(0, np.int64)]))[::-1]
    least = ordered[room] + 1 if room < len(ordered) else 0
    return [own >= min(least, _FREQUENT * examples, own.max(initial=0)) for own in counts]
