"""``fedct silo verify``: proof of all that left. Needs the public key alone."""

import json
import re
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from client_app.books import spent
from client_app.keys import load_public_key, public_key_path
from client_app.log_entry import LOG_FILE, Event, read_entries
from client_app.log_proof import verify_log
from fedct_flwr.cli.silo.folder import Folder, FolderOption, silo_file
from fedct_flwr.config import SiloConfig
from fedct_flwr.types import ConfigError, RunError

_HASH: Final = re.compile(r"[0-9a-f]{64}")


def verify(
    folder: Folder = None,
    folder_option: FolderOption = None,
    key: Annotated[
        Path | None, typer.Option(help="The silo's public key, of which a copy lies elsewhere.", show_default="its own")
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="HASH", help="A line's hash that was written down earlier: it must still be there.")
    ] = "",
) -> None:
    """Prove that the log of all that left is as it was written, and say what has left.

    Exit code 4 and the first bad line if it is not, or if it lacks the line that was written down.
    """
    since = since.strip().lower()
    if since and not _HASH.fullmatch(since):
        raise ConfigError(f"--since {since!r} is no hash of a line: give the 64 digits that were written down")
    config = SiloConfig.read_toml(silo_file(folder, folder_option))
    verdict = verify_log(config.state, load_public_key(key or public_key_path(config.egress_key)), config.silo)
    if not verdict.intact:
        where = f", line {verdict.bad_line}" if verdict.bad_line else ""
        raise RunError(f"the egress log is not intact{where}: {verdict.sentence}")
    found = _line_with(since, config.state / LOG_FILE, verdict.lines) if since else None
    if since and not found:
        raise RunError(
            f"the egress log has no line with the hash {since}: an older copy was put back, or it was begun anew, and "
            "what left in between is not in it"
        )
    # The agent may write meanwhile: only what was proven is added up.
    proven = [entry for entry in read_entries(config.state) if entry.number <= verdict.lines]
    sums, refused = spent(proven), sum(entry.event is Event.REFUSED for entry in proven)
    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.print(f"The egress log of {config.silo} is intact: {verdict.sentence}.")
    console.print(
        f"Left: {sums.rounds:,} messages with labels, {sums.queries:,} labels, {sums.bytes:,} bytes; "
        f"refused: {refused:,}."
    )
    if found:
        console.print(f"The line that was written down is there: line {found:,}.")
    if verdict.lines:
        console.print(f"Hash of its last line: {verdict.last}")
        console.print("Write that down elsewhere: 'fedct silo verify --since HASH' proves later that nothing is gone.")


def _line_with(digest: str, path: Path, lines: int) -> int | None:
    """Which of the first ``lines`` lines, which are proven, has this hash (from 1); None if none has."""
    if not lines:
        return None
    with path.open("rb") as file:
        for number, line in zip(range(1, lines + 1), file, strict=False):
            if json.loads(line)["hash"] == digest:
                return number
    return None
