"""Boosted trees with sample weights, trained to the same bits in less time.

Scikit-learn 1.9 bins a numeric column by weighted percentiles and computes each of the 254 in a call of its own. That
takes half a second for 15 columns, whatever the number of examples and trees. Version 1.10 no longer does so
(scikit-learn's pull request 34248), and earlier versions bin without weights. Once 1.10 is the oldest that is
supported, this file can go.
"""

import sys
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_BINNING: Final = "sklearn.ensemble._hist_gradient_boosting.binning"
_SLOW: Final = "_weighted_percentile"
"""What the slow versions call there."""
_ALMOST_INFINITE: Final = 1e300
"""The highest limit: infinity is for missing values."""


def train(model: Any, X: Any, y: NDArray[Any], **params: Any) -> Any:
    """``model.fit(X, y, **params)``, to the same bits; raises what that raises."""
    slow = hasattr(sys.modules.get(_BINNING), _SLOW) and type(model).__name__.startswith("HistGradientBoosting")
    if not slow or params.get("sample_weight") is None:
        return model.fit(X, y, **params)
    # On this object alone: other code in the process keeps scikit-learn as it is.
    model._bin_data = partial(_binned, model)
    try:
        return model.fit(X, y, **params)
    finally:
        del model._bin_data


def _binned(model: Any, X: NDArray[np.float64], sample_weight: Any, is_training_data: bool) -> Any:
    """In place of the model's method of this name: the bin of each value, ``(n, columns)``."""
    mapper = model._bin_mapper
    if not is_training_data or len(X) > mapper.subsample or not np.all(sample_weight):
        return type(model)._bin_data(model, X, sample_weight, is_training_data)
    # Weights move limits only between more different values than there are bins.
    others, most, found = X.copy(), mapper.n_bins - 1, {}
    for column in range(X.shape[1]):
        if mapper.is_categorical is not None and mapper.is_categorical[column]:
            continue
        known = ~np.isnan(X[:, column])
        values = X[known, column]
        if len(np.unique(values)) > most:
            found[column] = limits(values, sample_weight[known], most)
            others[:, column] = 0
    mapper.fit(others)
    for column, of_column in found.items():
        mapper.bin_thresholds_[column] = of_column
        mapper.n_bins_non_missing_[column] = len(of_column) + 1
    return mapper.transform(X)


def limits(values: NDArray[np.float64], weights: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """The different weighted percentiles between so many ``bins`` of values ``(n,)`` with weights ``(n,)`` above 0.

    Halfway to the next value where the weights up to a value are exactly a percentile: R. J. Hyndman, Y. Fan, "Sample
    quantiles in statistical packages", The American Statistician 50(4), 1996, definition 2.

    >>> limits(np.array([3.0, 1.0, 2.0, 4.0]), np.array([1.0, 1.0, 2.0, 4.0]), 4)
    array([2. , 3.5, 4. ])
    """
    order = np.argsort(values)
    values, weights = values[order], weights[order]
    # Sorted twice, as scikit-learn does: weights of equal values are summed in that order, down to the last bit.
    up_to = np.cumsum(weights[np.argsort(values)])
    wanted = np.linspace(0, 100, num=bins + 1)[1:-1] / 100 * up_to[-1]
    last = len(values) - 1
    at = np.minimum(np.searchsorted(up_to, wanted), last)
    exact = up_to[at] - wanted <= np.finfo(np.float64).eps
    found = np.unique(np.where(exact, (values[at] + values[np.minimum(at + 1, last)]) / 2, values[at]))
    return np.asarray(np.minimum(found, _ALMOST_INFINITE), dtype=np.float64)
