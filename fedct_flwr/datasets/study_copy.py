"""A copy of a study's folder, which comes from elsewhere: plain files and folders alone, checked before anything else.

A link would choose which of this machine's files are copied into the study, and read as public examples from there.
"""

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Final

from fedct_flwr.types import ConfigError

MOST_ENTRIES: Final = 200_000
MOST_BYTES: Final = 64 << 30
DEEPEST: Final = 16
"""Folders within folders. A study has one or two."""


def check_plain(study: Path) -> int:
    """Raise ConfigError for a study's folder with links, devices and the like, or too large; returns its bytes.

    Opens no file. The folder itself may be a link: its path comes from the person at this machine, not from elsewhere.
    """
    size = entries = 0
    folders = [(study.resolve(), 0)]
    while folders:
        folder, depth = folders.pop()
        try:
            with os.scandir(folder) as found:
                for entry in found:
                    entries += 1
                    state = entry.stat(follow_symlinks=False)
                    shown = repr(os.path.relpath(entry.path, study.resolve()))
                    if not (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)):
                        raise ConfigError(
                            f"{shown} in the study {study} is a link, or neither a file nor a folder: ask the "
                            "coordinator for a folder with files in their places"
                        )
                    if stat.S_ISDIR(state.st_mode):
                        folders.append((Path(entry.path), depth + 1))
                    else:
                        size += state.st_size
                    if entries > MOST_ENTRIES or size > MOST_BYTES or depth > DEEPEST:
                        raise ConfigError(
                            f"the study {study} is too large: it may have {MOST_ENTRIES:,} files, {MOST_BYTES >> 30} "
                            f"GiB and {DEEPEST} folders within each other, check that it is the coordinator's folder"
                        )
        except OSError as error:
            raise ConfigError(f"cannot read the study {study}: {error.strerror}") from None
    return size


def copy_study(study: Path, target: Path) -> None:
    """Copy a study's folder, whole or not at all. Raises ConfigError as ``check_plain`` does, and where it fails."""
    size = check_plain(study)
    if target.resolve().is_relative_to(study.resolve()):
        raise ConfigError(f"{target} lies in the study {study} that it would get a copy of: choose another folder")
    if size > shutil.disk_usage(target.parent).free:
        raise ConfigError(f"the study {study} has {size:,} bytes, for which {target.parent} has no space: make room")
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        # Links that came since then stay links, and are refused.
        copied = shutil.copytree(study.resolve(), temporary / target.name, symlinks=True)
        check_plain(copied)
        copied.rename(target)
    except OSError as error:
        raise ConfigError(f"cannot copy the study {study}: {error.strerror or 'a file in it cannot be read'}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
