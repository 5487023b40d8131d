"""Runs as a page on disk."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.report.page import content, document
from fedct_flwr.report.summary import Run
from fedct_flwr.types import RunError

NAME: Final = "report.html"
"""In a run's folder."""


def write_report(runs: Sequence[Run], target: Path, advice: str = "") -> None:
    """Write the page of these runs, whole or not at all. Raises RunError, which ends with ``advice``."""
    page = document(content(runs))
    try:
        write_atomically(target, page.encode())
    except OSError as error:
        raise RunError(f"cannot write {target}: {error.strerror}{advice}") from error
