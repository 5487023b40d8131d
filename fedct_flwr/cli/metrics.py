"""Numbers for Prometheus in its text form: those of a document of ``status``, and none of its texts but states.

A timer writes them into the folder of node_exporter's textfile collector: nothing here listens at a port.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fedct_flwr.cli.output import echo
from fedct_flwr.types import FedctError


def show(document: Callable[[], Mapping[str, Any]]) -> None:
    """Print all numbers, or that they cannot be read."""
    try:
        lines = [*numbers(document()), "fedct_readable 1"]
    except (FedctError, OSError):
        lines = ["fedct_readable 0"]
    echo("".join(f"{line}\n" for line in lines))


def numbers(value: Any, name: str = "fedct", silo: str = "") -> Iterator[str]:
    """A line for each number in a document, named after its keys; unknown ones (None) are left out.

    >>> list(numbers({"silos": [{"silo": "essen", "state": "online", "log": {"lines": 3}}]}))
    ['fedct_silos_state{silo="essen",state="online"} 1', 'fedct_silos_log_lines{silo="essen"} 3']
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "state":
                yield f'{name}_state{{silo="{value.get("silo", silo)}",state="{inner}"}} 1'
            else:
                yield from numbers(inner, re.sub(r"\W", "_", f"{name}_{key}"), value.get("silo", silo))
    elif isinstance(value, list):
        for inner in value:
            yield from numbers(inner, name, silo)
    elif isinstance(value, int | float):
        yield f'{name}{{silo="{silo}"}} {+value}' if silo else f"{name} {+value}"
