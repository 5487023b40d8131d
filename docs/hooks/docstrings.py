"""Docstrings as the site shows them: doctests are code, not quotations."""

import re
from typing import Any, Final

from griffe import Extension, Object

_DOCTEST: Final = re.compile(r"^>>> .*(?:\n(?!$).*)*", re.MULTILINE)


class Doctests(Extension):
    """Puts a fence around each doctest, which Markdown would take for a quotation in a quotation."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring as it was read; no module is imported."""
        if obj.docstring:
            obj.docstring.value = _DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", obj.docstring.value)
