"""Processes that tests start are found by a mark in their environment, however they detach themselves.

All of a test session carry the session's mark; a test that wants to know of its own gives them another one.
"""

import contextlib
import os
from typing import Final

import psutil

from tests.patience import eventually

MARK: Final = "FEDCT_TEST_MARK"
"""The variable with a test's own mark."""
SESSION: Final = "FEDCT_TEST_SESSION"
"""The variable with the number of the process that runs the tests."""


def marked(mark: str, variable: str = MARK) -> list[psutil.Process]:
    """All other processes that carry the mark."""
    return [process for process in _others() if _value(process, variable) == mark]


def end_all(mark: str, variable: str = MARK) -> None:
    """Kill every process that carries the mark, until there is none."""
    eventually(lambda: not _killed(marked(mark, variable)), f"the end of all processes with {variable}={mark}")


def end_orphans() -> None:
    """Kill what sessions have left that are no more: one that is killed cannot tidy up."""
    _killed([process for process in _others() if _is_orphan(_value(process, SESSION))])


def _is_orphan(session: str | None) -> bool:
    return session is not None and session.isdecimal() and not psutil.pid_exists(int(session))


def _killed(processes: list[psutil.Process]) -> list[psutil.Process]:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=5)
    return processes


def _others() -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if process.pid != os.getpid()]


def _value(process: psutil.Process, variable: str) -> str | None:
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else process.environ().get(variable)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None
