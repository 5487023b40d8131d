"""The front door of a package: a public name is imported when it is first asked for."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def importing(package: str) -> Callable[[str], Any]:
    """Make a package's ``__getattr__``: it imports what the block for type checkers names, when asked for it."""
    modules: dict[str, str] = {}

    def found(name: str) -> Any:
        if not modules:
            source = sys.modules[package].__loader__.get_source(package)  # type: ignore[union-attr]
            nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
            own = [node for node in nodes if str(node.module).startswith(f"{package}.")]
            # At once: another thread may look meanwhile.
            modules.update({each.name: str(node.module) for node in own for each in node.names})
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return found
