"""Objects that show themselves as a table: as text in a terminal, as HTML in a notebook."""

import io
from abc import ABC, abstractmethod

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedct_flwr.text.console import console
from fedct_flwr.text.printable import printable

_WIDTH = 160
_AS_IT_IS = '<pre style="white-space:pre;overflow-x:auto;line-height:normal;font-family:monospace">{code}</pre>'


class Drawn(ABC):
    """``repr`` and HTML ``repr`` are the headline and the table, if there is one."""

    def __repr__(self) -> str:
        return printable(self._console().file.getvalue().rstrip(), keep="\n")  # type: ignore[attr-defined]

    def _repr_html_(self) -> str:
        html = self._console().export_html(inline_styles=True, code_format=_AS_IT_IS)
        return printable(html, keep="\n")

    def _console(self) -> Console:
        paper = console(file=io.StringIO(), width=_WIDTH, record=True, color_system=None)
        # As text: brackets in a name are no markup.
        paper.print(Text(self._headline()), soft_wrap=True)
        if table := self._table():
            paper.print(table)
        return paper

    @abstractmethod
    def _headline(self) -> str: ...

    @abstractmethod
    def _table(self) -> Table | None: ...
