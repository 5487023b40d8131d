"""The console that prints for people: nothing in a text moves their cursor, hides or recolors anything."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

from fedct_flwr.text.printable import printable

_T = TypeVar("_T")


class SafeConsole(Console):
    """A console that escapes every control or hidden character but line feeds and its own styles.

    Markup in what others have named is escaped where it is printed, with ``rich.markup.escape``.
    """

    def render_str(self, text: str, **how: Any) -> Text:
        """The text as printed, so that it is wrapped at the right place."""
        return super().render_str(printable(text, keep="\n"), **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of anything; control codes among them are the console's own, as those of a live table."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text, keep="\n"))


def console(**how: Any) -> Console:
    """A console with rich's settings, which takes nothing in texts for an emoji and colors nothing by its looks."""
    return SafeConsole(highlight=False, emoji=False, **how)


@contextmanager
def bar(what: str, total: int | None, *, visible: bool | None = None) -> Iterator[Callable[[float], None]]:
    """A bar on standard error, for ``total`` steps or of unknown length; ``visible`` None: on a terminal or in Jupyter.

    Yields a function that moves it on by a number of steps.
    """
    # Takes a while to import.
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    shown_on = console(stderr=True)
    hidden = not (shown_on.is_terminal or shown_on.is_jupyter) if visible is None else not visible
    if shown_on.is_jupyter and not hidden:
        yield from _in_notebook(what, total)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    # Output during the run stands above the bar, unless it goes to a file.
    to_terminal = sys.stdout is not None and sys.stdout.isatty()
    with Progress(*columns, console=shown_on, transient=True, redirect_stdout=to_terminal, disable=hidden) as shown:
        task = shown.add_task(escape(what), total=total)
        yield lambda steps: shown.advance(task, steps)


def _in_notebook(what: str, total: int | None) -> Iterator[Callable[[float], None]]:
    """One line of its own below what a cell has printed, empty at the end: rich's bar would need widgets."""
    from IPython.display import display

    show: Any = display
    done, line = 0.0, show({"text/plain": what}, raw=True, display_id=True)

    def advance(steps: float) -> None:
        nonlocal done
        done += steps
        line.update({"text/plain": f"{what}: {done:.0f}{f' of {total}' if total else ''}"}, raw=True)

    try:
        yield advance
    finally:
        line.update({"text/plain": ""}, raw=True)


def progress(items: Sequence[_T], what: str, *, visible: bool | None = None) -> Iterator[_T]:
    """The items, with such a bar that tells how many are done."""
    with bar(what, len(items), visible=visible) as advance:
        for item in items:
            yield item
            advance(1)
