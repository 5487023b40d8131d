"""What is made of an array that cannot change, kept as long as the array: many silos prepare the same public set."""

import weakref
from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

from numpy.typing import NDArray

_MOST: Final = 256
"""Results that are kept at a time; further ones are made anew each time."""

_KEPT: Final[dict[tuple[int, Hashable], tuple[weakref.ref[Any], Any]]] = {}

T = TypeVar("T")


def once(X: NDArray[Any], key: Hashable, make: Callable[[], T]) -> T:
    """What ``make`` gives for this array and ``key``; kept if the array is read-only, for all that have the same array.

    Nobody may change it.
    """
    if X.flags.writeable:
        return make()
    name = (id(X), key)
    if (kept := _KEPT.get(name)) is not None:
        found: T = kept[1]
        return found
    found = make()
    if len(_KEPT) < _MOST:
        _KEPT[name] = (weakref.ref(X, lambda _: _KEPT.pop(name, None)), found)
    return found
