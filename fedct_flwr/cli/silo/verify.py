"""``fedct silo verify``: proof of all that left. Needs the public key alone."""

import json
import re
from pathlib import Path
from typing import Annotated, Final

import typer

from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.silo.folder import Folder, silo_file
from fedct_flwr.config import SiloConfig
from fedct_flwr.hospital.egress_log import kept
from fedct_flwr.hospital.keys import load_public_key, public_key_path
from fedct_flwr.hospital.log_entry import LOG_FILE, Event, read_entries, spent
from fedct_flwr.hospital.log_proof import verify_log
from fedct_flwr.text.console import bar
from fedct_flwr.text.plural import count
from fedct_flwr.types import ConfigError, RunError

_HASH: Final = re.compile(r"[0-9a-f]{64}")


def verify(
    folder: Folder = None,
    key: Annotated[
        Path | None, typer.Option(help="The silo's public key, of which a copy lies elsewhere.", show_default="its own")
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="HASH", help="A line's hash that was written down earlier: it must still be there.")
    ] = "",
    json_: Json = False,
) -> None:
    """Prove that the log of all that left is as it was written, and say what has left.

    Exit code 4 and the first bad line if it is not, or if it lacks the line that was written down.
    """
    since = since.strip().lower()
    if since and not _HASH.fullmatch(since):
        raise ConfigError(f"--since {since!r} is no hash of a line: give the 64 digits that were written down")
    config = SiloConfig.read_toml(silo_file(folder))
    public_key = load_public_key(key or public_key_path(config.egress_key))
    out, log = Output(as_json=json_), config.state / LOG_FILE
    with bar("proving line by line", log.stat().st_size if log.is_file() else None) as advance:
        verdict = verify_log(config.state, public_key, config.silo, advance)
    found = _line_with(since, log, verdict.lines) if since and verdict.intact else None
    # The agent may write meanwhile: only what was proven is added up.
    proven = [entry for entry in read_entries(config.state) if entry.number <= verdict.lines] if verdict.intact else []
    # Raises for a reply that was changed after it left.
    released = [entry for entry in proven if entry.event is Event.RELEASED]
    replies = [kept(config.state, entry) for entry in released]
    labels, bytes_ = sum(entry.queries for entry in released), spent(proven).bytes
    refused = sum(entry.event is Event.REFUSED for entry in proven)
    document = {
        "silo": config.silo,
        "intact": verdict.intact,
        "sentence": verdict.sentence,
        "lines": verdict.lines,
        "bad_line": verdict.bad_line,
        "last_hash": verdict.last or None,
        "sent": {"messages": len(released), "labels": labels, "bytes": bytes_},
        "refused": refused,
        "since_line": found,
    }
    out.show(document)
    if not verdict.intact:
        where = f", line {verdict.bad_line}" if verdict.bad_line else ""
        raise RunError(f"the egress log is not intact{where}: {verdict.sentence}")
    if since and not found:
        raise RunError(
            f"the egress log has no line with the hash {since}: an older copy was put back, or a new log begun, and "
            "what left in between is not in it"
        )
    out.say(f"The egress log of {config.silo} is intact: {verdict.sentence}.")
    out.say(
        f"Left: {count(len(released), 'message')} with labels, {count(labels, 'label')}, {bytes_:,} bytes "
        f"in all; refused: {refused:,}."
    )
    if replies:
        whole = sum(reply is not None for reply in replies)
        out.say(f"Kept word for word, and as the log says: {whole:,} of {len(replies):,}; see 'fedct silo released'.")
    if found:
        out.say(f"The line that was written down is there: line {found:,}.")
    if verdict.lines:
        out.say(f"Hash of its last line: {verdict.last}")
        out.say("Write that down elsewhere: 'fedct silo verify --since HASH' proves later that nothing is gone.")


def _line_with(digest: str, path: Path, lines: int) -> int | None:
    """Which of the first ``lines`` lines, which are proven, has this hash (from 1); None if none has."""
    if not lines:
        return None
    with path.open("rb") as file:
        for number, line in zip(range(1, lines + 1), file, strict=False):
            if json.loads(line)["hash"] == digest:
                return number
    return None
