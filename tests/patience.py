"""How long tests wait for what has to come: longer than it takes on a machine with ten times as much to do.

A wait ends as soon as what it waits for is there, so a generous end costs nothing where all goes well.
"""

import contextlib
import time
from collections.abc import Callable
from typing import Final, TypeVar

PATIENCE: Final = 900.0
"""Seconds for anything: a process, an answer, a federation."""
_POLL_SECONDS: Final = 0.02

_Found = TypeVar("_Found")


def eventually(
    condition: Callable[[], _Found], what: str = "it", seconds: float = PATIENCE, pause: float = _POLL_SECONDS
) -> _Found:
    """Return what ``condition`` returns as soon as it is true; OSErrors and ValueErrors mean that it is not yet.

    Raises AssertionError after ``seconds``.
    """
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, ValueError):
            if found := condition():
                return found
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        time.sleep(pause)
