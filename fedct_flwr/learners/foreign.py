"""Which public examples are unlike a silo's own records.

A silo may know its own patients better than the consensus does, and know nothing of others. Trees learn to tell own
records from public examples. Labels of examples that they take for public teach the silo about others and hardly touch
what own records say. Domain classifiers weigh examples in the same way (Bickel, Brückner, Scheffer, "Discriminative
learning under covariate shift", JMLR 10, 2009).
"""

from typing import Any, Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

FOREIGN: Final = 0.3
"""A foreign example is an own record with a smaller probability than this, if there were as many of these."""
_MISTAKEN: Final = 0.1
"""Share of own records that may look as foreign as a foreign example: few records look foreign to one another."""
_TREES: Final = 50
_LEAF: Final = 3
_MOST: Final = 1000
"""Own records that a tree learns from, and as many public examples: more would take long and tell little more."""


def foreign(both: Any, own: int, rng: Generator) -> NDArray[np.bool_]:
    """Which public examples are foreign to own records ``(n - own,)``; none where trees cannot learn from them.

    ``both`` ``(n, ...)`` has the ``own`` records, then the public examples, as a model takes them.
    """
    from sklearn.tree import DecisionTreeClassifier  # not at the top: algorithms and their kinds wait for no learner

    count = both.shape[0]
    table = both.reshape(count, -1) if both.ndim > 2 else both
    likely, asked = np.zeros(count), np.zeros(count)
    for _ in range(_TREES):
        # As in a balanced random forest; judged are examples that the tree has not learned.
        each = min(own, _MOST)
        drawn = np.concatenate([rng.integers(0, own, each), rng.integers(own, count, each)])
        rest = np.setdiff1d(np.arange(count), drawn)
        tree = DecisionTreeClassifier(
            max_features="sqrt", min_samples_leaf=_LEAF, random_state=int(rng.integers(1 << 31))
        )
        try:
            likely[rest] += tree.fit(table[drawn], drawn < own).predict_proba(table[rest])[:, 1]
        except (ValueError, TypeError):
            # Text, for example, that a model of somebody's own takes as it is.
            return np.zeros(count - own, dtype=np.bool_)
        asked[rest] += 1
    likely = np.divide(likely, asked, out=np.ones(count), where=asked > 0)
    found: NDArray[np.bool_] = likely[own:] < min(FOREIGN, np.quantile(likely[:own], _MISTAKEN))
    return found
