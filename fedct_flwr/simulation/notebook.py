"""Results as a notebook shows them: a headline and a table, as text and as HTML, and numbers as DataFrames."""

import importlib
import io
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedct_flwr.text.console import console
from fedct_flwr.text.printable import printable
from fedct_flwr.types import ConfigError

DataFrame: TypeAlias = Any
"""One of pandas, which nothing else here needs."""
_WIDTH = 160
_AS_IT_IS = '<pre style="white-space:pre;overflow-x:auto;line-height:normal;font-family:monospace">{code}</pre>'


class RichRepr(ABC):
    """As text, and as HTML in a notebook: the headline and the table, if there is one."""

    def __repr__(self) -> str:
        return printable(self._console().file.getvalue().rstrip(), keep="\n")  # type: ignore[attr-defined]

    def _repr_html_(self) -> str:
        html = self._console().export_html(inline_styles=True, code_format=_AS_IT_IS)
        return printable(html, keep="\n")

    def _console(self) -> Console:
        # In a notebook rich would show it there at once.
        paper = console(file=io.StringIO(), width=_WIDTH, record=True, color_system=None, force_jupyter=False)
        # As text: brackets in a name are no markup.
        paper.print(Text(self._headline()), soft_wrap=True)
        if table := self._table():
            paper.print(table)
        return paper

    @abstractmethod
    def _headline(self) -> str: ...

    @abstractmethod
    def _table(self) -> Table | None: ...


def frame(rows: Sequence[Mapping[str, Any]], index: str) -> DataFrame:
    """Rows as a DataFrame. Raises ConfigError without pandas."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise ConfigError(
            "a DataFrame needs pandas: pip install pandas, or use the run's records and rows, which need none"
        ) from None
    found = pandas.DataFrame(list(rows))
    return found.set_index(index) if len(found) else found
