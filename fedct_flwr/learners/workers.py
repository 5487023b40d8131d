"""Training spread over processes, with the same results whatever their number."""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, Literal, TypeVar

from joblib import Parallel, delayed, parallel_config
from threadpoolctl import ThreadpoolController

from fedct_flwr.types import TrainingError


def one_thread(api: Literal["blas"] | None = None) -> AbstractContextManager[Any]:
    """While it lasts, for the thread that enters it: OpenMP's limit is one of each thread, BLAS's is one for all.

    ``api`` limits BLAS alone, and leaves OpenMP's threads to boosting and networks.
    """
    return _libraries(len(sys.modules)).limit(limits=1, user_api=api)  # type: ignore[no-any-return]  # it is untyped


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Those that are loaded: to find them takes milliseconds, so only when there are more modules."""
    return ThreadpoolController()


Job = TypeVar("Job")
Result = TypeVar("Result")


def spread(work: Callable[[Sequence[Job]], Sequence[Result]], jobs: Sequence[Job], workers: int) -> list[Result]:
    """The result of each job, in order: ``work(jobs)`` of equal shares of them in ``workers`` processes at a time.

    With one worker, in this process. Processes, not threads: small models wait for Python, and torch has one random
    generator for all threads. Jobs are pickled into a pipe and never written to a file: they may be records. Raises
    TrainingError if ``work`` does, or a process was ended from outside.
    """
    number = min(workers, len(jobs))
    if number < 2:
        with one_thread():
            return list(work(jobs))
    shares = [jobs[first::number] for first in range(number)]
    try:
        with parallel_config("loky", inner_max_num_threads=1):
            # As many processes as ever, though jobs may be fewer: another number would end some and start them again.
            done = Parallel(n_jobs=workers, max_nbytes=None)(delayed(_done)(work, share) for share in shares)
    except BrokenProcessPool as error:
        raise TrainingError(
            "a process that trained the silo's models was ended, most likely for want of memory: train with fewer "
            "workers"
        ) from error
    results: list[Result] = [None] * len(jobs)  # type: ignore[list-item]
    for first, share in enumerate(done):
        if isinstance(share, TrainingError):
            raise share
        results[first::number] = share
    return results


def _done(work: Callable[[Sequence[Job]], Sequence[Result]], share: Sequence[Job]) -> Sequence[Result] | TrainingError:
    try:
        return work(share)
    except TrainingError as error:
        return error  # raised in here, it would end the processes, which others may be using
