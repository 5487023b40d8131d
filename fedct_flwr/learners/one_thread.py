"""Numerical libraries that compute in one thread: threads of silos on the same cores only wait for each other."""

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """While it lasts, and for the thread that enters it.

    OpenMP counts for each thread that Python starts anew: a limit in one says nothing to the others. BLAS has one limit
    for all.
    """
    return _libraries(len(sys.modules)).limit(limits=1)  # type: ignore[no-any-return]  # threadpoolctl is untyped


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Those that are loaded: to find them takes milliseconds, so that is done anew only when there are more modules."""
    return ThreadpoolController()
