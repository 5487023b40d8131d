"""Whether the limits that several studies share can be kept here."""

import os
from collections.abc import Iterator
from pathlib import Path

from fedct_flwr.cli.silo.findings import Finding, Silo, bad, good, warning
from fedct_flwr.cli.silo.standing import over_studies


def shared_limits(silo: Silo) -> Iterator[Finding]:
    """The folder under ``[records]``, and what all studies have used; nothing where no limits are shared."""
    config = silo.config
    folder = config.records.folder
    if folder is None:
        return
    if not _can_write(folder):
        yield bad(
            f"limits over all studies: this user cannot write into {silo.shown(folder)}, so nothing leaves",
            "let all studies' agents write into the folder under [records]; in containers, mount it: "
            "compose.limits.yaml says how",
        )
        return
    found = over_studies(config)
    used, privacy = found["used"], found.get("privacy")
    if used is None or (privacy and privacy["spent"] is None):
        yield bad(
            f"limits over all studies: what has left cannot be told from {silo.shown(folder)}, so nothing leaves",
            "restore the folder as a whole from the latest backup, with the user that all agents run as",
        )
        return
    parts = [f"{used[name]:,} of {limit:,} {name}" for name, limit in found["limits"].items()]
    if privacy:
        parts.append(f"epsilon {privacy['spent']:.3g} of {privacy['epsilon']:g}")
    said = f"limits over all studies: {', '.join(parts)} used"
    if all(used[name] < limit for name, limit in found["limits"].items()):
        yield good(said)
    else:
        yield warning(said, "stop here, or raise the limit under [records] in silo.toml and approve that")


def _can_write(folder: Path) -> bool:
    """Whether the folder is there for this user, or can be made."""
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
    except PermissionError:
        return False
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
