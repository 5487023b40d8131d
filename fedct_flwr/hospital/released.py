"""Each reply that left, word for word, with its request: files next to the log, under the digests that its line has.

Their contents are labels that the coordinator has, too. Messages of secure sums are not kept: they are masked.
"""

import hashlib
from pathlib import Path
from typing import Final

from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.hospital.log_entry import LogEntry
from fedct_flwr.types import RunError

FOLDER: Final = "released"


def keep(state: Path, entry: LogEntry, payload: bytes, request: bytes) -> None:
    """Write a reply and its request before they are logged. Raises OSError."""
    folder = state / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    for digest, content in ((entry.payload, payload), (entry.request, request)):
        if not (folder / digest).exists():
            write_atomically(folder / digest, content)


def kept(state: Path, entry: LogEntry) -> tuple[bytes, bytes] | None:
    """The reply and the request of a line with labels; None where they were not kept.

    Raises RunError for files that are not what the line says.
    """
    try:
        found = tuple((state / FOLDER / digest).read_bytes() for digest in (entry.payload, entry.request))
    except OSError:
        return None
    if tuple(hashlib.sha256(content).hexdigest() for content in found) != (entry.payload, entry.request):
        raise RunError(
            f"a file in {state / FOLDER} is not what line {entry.number:,} of the egress log says: it was changed "
            "after the reply left"
        )
    return found[0], found[1]
