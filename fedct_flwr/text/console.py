"""The console that prints for people: nothing in a text moves their cursor, hides or recolors anything."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from fedct_flwr.text.printable import printable


class SafeConsole(Console):
    """A console that escapes every control or hidden character but line feeds and its own styles.

    Markup in what others have named is escaped where it is printed, with ``rich.markup.escape``.
    """

    def render_str(self, text: str, **how: Any) -> Text:
        """As it will be printed, so that it is wrapped at the right place."""
        return super().render_str(printable(text, keep="\n"), **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of anything; control codes among them are the console's own, as those of a live table."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text, keep="\n"))


def console(**how: Any) -> Console:
    """A console with rich's settings, which takes nothing in texts for an emoji and colors nothing by its looks."""
    return SafeConsole(highlight=False, emoji=False, **how)
