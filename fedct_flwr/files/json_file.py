"""Files of one JSON document: how they are written, and what reading a damaged one can raise."""

import json
from pathlib import Path
from typing import Any, Final

from fedct_flwr.files.atomic import write_atomically

DAMAGED: Final = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What reading raises for a file that is not JSON, or not of the form that its reader expects."""
UNREADABLE: Final = (OSError, *DAMAGED)
"""The same, or a file that cannot be read."""


def write_json(path: Path, content: Any) -> None:
    """Replace ``path`` by the content as JSON that people can read. Raises OSError, as ``write_atomically``."""
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())
