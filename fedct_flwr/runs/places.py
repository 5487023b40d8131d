"""Where runs go: a new folder each, so that no run overwrites another."""

import itertools
import time
from pathlib import Path
from typing import Final

from fedct_flwr.types import RunError

LOCK: Final = ".lock"
"""The file in a run folder that its coordinator holds."""


def check_new(path: Path) -> None:
    """Raise RunError if a run would overwrite something."""
    # A lock alone is what a run leaves that could not begin.
    if path.is_dir() and {entry.name for entry in path.iterdir()} <= {LOCK}:
        return
    if path.exists():
        raise RunError(f"the run folder {path} exists: choose another one, or resume the run in it")
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir():
        raise RunError(f"cannot write the run folder {path}: {above} is no folder")


def dated(parent: Path, study: str) -> Path:
    """Path of a new run below ``parent``, named after study and time.

    Runs that begin in the same second get a number each.
    """
    first = path = parent / f"{study}-{time.strftime('%Y%m%d-%H%M%S')}"
    numbers = itertools.count(2)
    while path.exists():
        path = first.with_name(f"{first.name}-{next(numbers)}")
    return path


def default_path(study: str, run_id: int) -> Path:
    """Where a run goes that was given no folder."""
    return Path.home() / ".fedct" / "runs" / f"{study}-{run_id}"
