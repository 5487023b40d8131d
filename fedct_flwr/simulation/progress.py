"""How far a simulation is, on a terminal or in a notebook."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fedct_flwr.text.console import console

_T = TypeVar("_T")

Told: TypeAlias = Callable[[Mapping[str, Any]], None]
"""What is told each round's record as soon as the round has ended."""


class Bars:
    """A bar for rounds, and one for silos whose baselines are trained; shown while ``shown`` lasts."""

    def __init__(self, *, visible: bool | None) -> None:
        shown_on = console(stderr=True)
        hidden = not (shown_on.is_terminal or shown_on.is_jupyter) if visible is None else not visible
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(
            *columns, console=shown_on, transient=True, disable=hidden, redirect_stdout=sys.stdout.isatty()
        )

    @contextmanager
    def rounds(self, total: int) -> Iterator[Told]:
        """A bar for so many rounds at most; yields what is to be told their records."""
        with self._progress:
            task = self._progress.add_task("rounds", total=total)
            yield lambda record: self._progress.update(task, completed=record["round"])
            self._progress.remove_task(task)

    def of(self, items: Sequence[_T], what: str) -> Iterable[_T]:
        """The items, with a bar that tells how many are done."""
        with self._progress:
            task = self._progress.add_task(what, total=len(items))
            for item in items:
                yield item
                self._progress.advance(task)
            self._progress.remove_task(task)
