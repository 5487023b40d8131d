"""The process in which a foreign model is read, for tests that do without: to start one for each takes seconds.

``tests/attacks/test_model_files.py`` starts them.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest


class Here:
    """Does what a process of its own would, in this one."""

    def __init__(self, **_: Any) -> None:
        pass

    def submit(self, work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done

    def shutdown(self, **_: Any) -> None:
        pass


def read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read models in this process."""
    monkeypatch.setattr("fedct_flwr.models.loading.ProcessPoolExecutor", Here)
