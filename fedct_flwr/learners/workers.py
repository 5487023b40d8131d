"""Threads of numeric libraries, while small models are trained."""

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, Literal

from threadpoolctl import ThreadpoolController


def one_thread(api: Literal["blas"] | None = None) -> AbstractContextManager[Any]:
    """While it lasts, for the thread that enters it: OpenMP's limit is one of each thread, BLAS's is one for all.

    ``api`` limits BLAS alone, and leaves OpenMP's threads to boosting and networks.
    """
    return _libraries(len(sys.modules)).limit(limits=1, user_api=api)  # type: ignore[no-any-return]  # it is untyped


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Those that are loaded: to find them takes milliseconds, so only when there are more modules."""
    return ThreadpoolController()
