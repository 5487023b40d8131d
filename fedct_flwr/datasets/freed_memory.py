"""Give memory that is free back to the system, after work on large tables."""

import ctypes
import sys
from functools import cache
from typing import Any

import pyarrow as pa


def give_back() -> None:
    """Give back what Arrow and C keep of freed memory, to hand it out again: hundreds of megabytes of a long table.

    It takes milliseconds, so it is for the end of a piece of work. Elsewhere than with the GNU C library, C keeps what
    it has.
    """
    pa.default_memory_pool().release_unused()
    if (trim := _trim()) is not None:
        trim(0)


@cache
def _trim() -> Any:
    """C's ``malloc_trim``, or None where there is none."""
    try:
        return ctypes.CDLL(None).malloc_trim if sys.platform == "linux" else None
    except (OSError, AttributeError):
        return None
