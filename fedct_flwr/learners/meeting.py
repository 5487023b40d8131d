"""Silos of one process take turns, and wait for each other where they train: so all their networks train at once.

Without torch, so that the federation can hold a meeting of silos that it knows nothing of.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from fedct_flwr.learners import MEETING, Train
from fedct_flwr.learners.out_of_fold import one_thread

_Result = TypeVar("_Result")


class Meeting:
    """Of ``count`` threads, of which one is at work at a time.

    A thread that wants to train waits until all others do, or are done; then ``train`` is called once for all of them.
    A thread that is at work for more than ``patience`` seconds is given up, and the others go on without it.
    """

    def __init__(self, count: int, train: Train, patience: float | None = None) -> None:
        self._train = train
        self._patience = patience
        self._coming = count
        self._waiting: list[Any] = []
        self._over: dict[int, Exception | None] = {}
        self._turn: threading.Thread | None = None
        self._since = 0.0
        self._training = False
        self._changed = threading.Condition()

    @contextmanager
    def part(self) -> Iterator[None]:
        """One thread's part, from its first turn on."""
        self._take_turn(lambda: True)
        token = MEETING.set(self)
        try:
            yield
        finally:
            MEETING.reset(token)
            self._leave()

    def train(self, course: Any) -> None:
        """Have a course taken together with the others'. Raises what went wrong with this one."""
        if not self._leave(course):
            # The thread was given up, and the others go on without it.
            course.take()
            return
        self._take_turn(lambda: id(course) in self._over or not self._coming)
        if id(course) not in self._over:
            self._train_all()
        if error := self._over.pop(id(course)):
            raise error

    def _take_turn(self, ready: Callable[[], bool]) -> None:
        with self._changed:
            while not self._changed.wait_for(lambda: self._turn is None and ready(), self._patience):
                if self._turn and not self._training and time.monotonic() >= self._since + (self._patience or 0):
                    self._turn, self._coming = None, self._coming - 1
                    self._changed.notify_all()
            self._turn, self._since = threading.current_thread(), time.monotonic()

    def _leave(self, course: Any = None) -> bool:
        """End the thread's turn, to wait for training where there is a course; whether it had the turn still."""
        with self._changed:
            if self._turn is not threading.current_thread():
                return False
            self._turn, self._coming = None, self._coming - 1
            self._waiting += [] if course is None else [course]
            self._changed.notify_all()
        return True

    def _train_all(self) -> None:
        courses, self._waiting, self._training = self._waiting, [], True
        try:
            errors = self._train(courses)
        except Exception as error:  # each thread has to get it, or would never stop waiting
            errors = [error] * len(courses)
        self._over |= {id(course): error for course, error in zip(courses, errors, strict=True)}
        self._coming, self._training = self._coming + len(courses), False


def together(work: Sequence[Callable[[], _Result]], train: Train) -> list[_Result]:
    """The results of all work, each in a thread of its own; their networks train at once. Raises what one raises."""
    meeting = Meeting(len(work), train)

    def part(one: Callable[[], _Result]) -> _Result:
        with meeting.part(), one_thread():
            return one()

    with ThreadPoolExecutor(len(work)) as threads:
        return list(threads.map(part, work))
