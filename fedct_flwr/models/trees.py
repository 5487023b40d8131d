"""Trees in files from elsewhere: what scikit-learn's compiled code reads before it looks at it.

A tree takes its number of nodes from the shape of an array, and its classes from another one; of an array without a
shape it reads what is not there, and the process ends.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from skops.io._sklearn import ReduceNode

_READING: Final = threading.Lock()


@contextmanager
def checked() -> Iterator[None]:
    """In here, skops makes trees only from arrays of the right shapes. Its own method is back in place afterwards."""
    with _READING:
        make = ReduceNode._construct

        def construct(node: Any) -> Any:
            if node.constructor.class_name == "Tree":
                _check(node.args.construct(), node.attrs.construct())
            return make(node)

        ReduceNode._construct = construct
        try:
            yield
        finally:
            ReduceNode._construct = make


def _check(args: Any, state: Any) -> None:
    """Raise ValueError unless a tree can be made of this: features, classes of each output, outputs; and its arrays."""
    _, classes, outputs = args
    right = (
        _has_axes(classes, 1)
        and len(classes) == outputs
        and classes.dtype == np.intp
        and _has_axes(state.get("nodes"), 1)
        and _has_axes(state.get("values"), 3)
    )
    if not right:
        raise ValueError("Arrays of a tree with other shapes")


def _has_axes(array: Any, axes: int) -> bool:
    return isinstance(array, np.ndarray) and array.ndim == axes
