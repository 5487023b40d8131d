"""``fedct coordinator restore``: a coordinator's folder from a backup, on this or another machine."""

import gzip
import os
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Annotated, Final

import typer

from fedct_flwr.cli.coordinator.backup import DATABASE
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.output import Output
from fedct_flwr.files.regular import check_is_file
from fedct_flwr.text.printable import in_shell
from fedct_flwr.types import ConfigError

_CHUNK: Final = 1 << 20


def restore(
    file: Annotated[Path, typer.Argument(help="What fedct coordinator backup has written.")],
    folder: Annotated[Path, typer.Argument(help="The folder to make.")],
) -> None:
    """Make a coordinator's folder from a backup, whole or not at all. Nothing is overwritten.

    Silos notice nothing: certificates, keys and names are those of before. On a machine with another name, run fedct
    coordinator init --host afterwards.
    """
    target = folder.absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(
            f"{folder} exists: a backup is never put over a coordinator; stop it and move the folder away, or choose "
            "another one"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        check_is_file(file)
        with gzip.open(file) as unpacked:
            with tarfile.open(fileobj=unpacked, mode="r:") as archive:
                archive.extractall(temporary, _plain(archive))  # noqa: S202 - what is not plain is refused
            # To its end, where the checksum of all of it is.
            while unpacked.read(_CHUNK):
                pass
        made = CoordinatorFolder.open(temporary)
        address = made.address()
        for part in (made.silos, made.state, made.runs):
            part.mkdir(exist_ok=True, mode=0o700)
        if target.exists():
            target.rmdir()
        temporary.rename(target)
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {error.filename or file}: name the backup") from None
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile):
        raise ConfigError(f"{file} is damaged or not a backup: name a file of 'fedct coordinator backup'") from None
    except ConfigError:
        raise ConfigError(f"{file} is no backup of a coordinator: name what 'fedct coordinator backup' wrote") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    restored = CoordinatorFolder(target)
    # It holds a path.
    restored.write_flower_config(address)
    out, shown = Output(), in_shell(folder)
    out.say(f"{shown} is restored")
    if not (restored.state / DATABASE).exists():
        out.say(f"The backup has no database: once the coordinator runs, fedct coordinator register {shown}")
    out.say(f"Next: fedct coordinator start {shown}")


def _plain(archive: tarfile.TarFile) -> list[tarfile.TarInfo]:
    """All members: files and folders of ours, as tarfile's filter "data" takes them, which Python 3.11.2 does not have.

    Raises TarError for links, devices and paths out of the folder.
    """
    members = archive.getmembers()
    for member in members:
        path = PurePosixPath(member.name)
        if not (member.isfile() or member.isdir()) or path.is_absolute() or ".." in path.parts:
            raise tarfile.TarError(member.name)
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        member.mode &= 0o755
    return members
