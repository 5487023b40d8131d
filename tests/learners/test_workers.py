"""Work in several processes."""

import os
from collections.abc import Sequence

import psutil
import pytest

from fedct_flwr.learners.workers import spread
from fedct_flwr.types import TrainingError

# Functions within tests, as these travel to other processes, which do not know this module.


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", [0, 1, 7])
def test_results_are_in_the_order_of_the_jobs(workers: int, number: int) -> None:
    def square(jobs: Sequence[int]) -> list[int]:
        return [job * job for job in jobs]

    assert spread(square, range(number), workers) == [job * job for job in range(number)]


def test_they_are_processes_of_one_thread() -> None:
    def where(jobs: Sequence[int]) -> list[tuple[int, str]]:
        return [(os.getpid(), os.environ["OMP_NUM_THREADS"]) for _ in jobs]

    processes, threads = zip(*spread(where, range(4), 2), strict=True)
    assert os.getpid() not in processes
    assert set(threads) == {"1"}


@pytest.mark.parametrize("workers", [1, 2])
def test_what_goes_wrong_is_said_and_leaves_the_processes_alone(workers: int) -> None:
    def fail(jobs: Sequence[int]) -> list[int]:
        if 3 in jobs:
            raise TrainingError("no luck")
        return [os.getpid() for _ in jobs]

    spread(fail, [0, 1], workers)
    before = {os.getpid(), *(process.pid for process in psutil.Process().children())}
    with pytest.raises(TrainingError, match="no luck"):
        spread(fail, [1, 2, 3], workers)
    assert before.issuperset(spread(fail, [0, 1], workers))


def test_a_process_that_is_ended_from_outside_is_said_to_be() -> None:
    def end(jobs: Sequence[int]) -> list[int]:
        os._exit(1)

    with pytest.raises(TrainingError, match="train with fewer workers"):
        spread(end, [0, 1], 2)
