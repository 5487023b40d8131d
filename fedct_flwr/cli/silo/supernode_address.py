"""Which address the SuperNode calls, where a file other than ``silo.toml`` says so, as for containers.

The agent has no way out, and its approval names the address in ``silo.toml``. Containers get theirs from ``.env`` or
from a chart, which hand the agent the same text in its environment.
"""

import os
import re
from pathlib import Path
from typing import Final

VARIABLE: Final = "FEDCT_SUPERLINK"
"""In the environment of an agent in a container: what its SuperNode was told to call."""
_ENV_FILE: Final = ".env"
_LINE: Final = re.compile(r"""^\s*(?:export\s+)?SUPERLINK\s*=\s*(['"]?)([^\s'"#]*)\1""", re.MULTILINE)
_MOST_BYTES: Final = 2**20


def called_elsewhere(folder: Path, superlink: str) -> str:
    """The address that the SuperNode calls, if it is another than ``silo.toml`` of this folder says; else empty."""
    called = os.environ.get(VARIABLE) or _in_env_file(folder / _ENV_FILE)
    return called if called != superlink else ""


def _in_env_file(path: Path) -> str:
    """What ``.env`` says; empty where it says nothing. The last line counts."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    found = _LINE.findall(text)
    return found[-1][1] if found else ""
