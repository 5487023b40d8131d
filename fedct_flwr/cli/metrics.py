"""Numbers for Prometheus in its text form: what ``status`` shows, and never data.

A timer writes them into the folder of node_exporter's textfile collector: nothing here listens at a port.
"""

from collections.abc import Callable, Iterable
from typing import Final

from fedct_flwr.cli.output import echo
from fedct_flwr.types import FedctError

Sample = tuple[str, str, dict[str, str], float | None]
"""Name without ``fedct_``, help, labels, value; None is left out."""
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_READABLE: Final = ("readable", "1 if all that is measured can be read")


def show(samples: Callable[[], Iterable[Sample]]) -> None:
    """Print all samples, or that they cannot be read."""
    try:
        found = [*samples(), (*_READABLE, {}, 1)]
    except (FedctError, OSError):
        found = [(*_READABLE, {}, 0)]
    families: dict[str, list[str]] = {}
    for name, help_, labels, value in found:
        lines = families.setdefault(name, [f"# HELP fedct_{name} {help_}", f"# TYPE fedct_{name} gauge"])
        if value is not None:
            escaped = {key: text.translate(_ESCAPES) for key, text in sorted(labels.items())}
            said = ",".join(f'{key}="{text}"' for key, text in escaped.items())
            lines.append(f"fedct_{name}{f'{{{said}}}' if said else ''} {float(value)}")
    echo("".join(f"{line}\n" for lines in families.values() for line in lines))
