"""Class-balanced training: a silo that has seen few of a class believes in it no less for that.

G. King, L. Zeng, "Logistic regression in rare events data", Political Analysis 9(2), 2001, §4: weights by class shares.
"""

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.types import HardLabels


def class_weights(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weight of an example of each class ``(classes,)`` with which all classes at hand count the same.

    ``shares`` ``(classes,)`` are what each class has now, in any unit. The mean weight of all examples is 1; that of a
    class that is not there is 0.

    >>> class_weights(np.array([3.0, 1.0, 0.0])).round(2)
    array([0.67, 2.  , 0.  ])
    """
    there = shares > 0
    weights = np.zeros(len(shares))
    weights[there] = shares.sum() / there.sum() / shares[there]
    return weights


def balanced_weights(y: HardLabels, sample_weight: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Weights of the examples ``(n,)`` with which all classes of ``y`` have the same sum, as large as before.

    ``sample_weight`` ``(n,)`` says how much an example counts beside others of its class.

    >>> balanced_weights(np.int16([0, 0, 0, 1])).round(2)
    array([0.67, 0.67, 0.67, 2.  ])
    """
    before = np.ones(len(y)) if sample_weight is None else sample_weight
    shares = np.bincount(y, weights=before).astype(np.float64)
    return np.asarray(before * class_weights(shares)[y], dtype=np.float64)
