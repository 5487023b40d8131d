"""A program that sees the files it needs and nothing else of this machine, and has no rights over other processes.

bubblewrap (``bwrap``) makes the view: an empty file system with the operating system's programs, this Python, and what
the program was given; processes of its own; no way to more rights. Started by root the program runs as a user id of its
own besides, started by anybody else as that user. Both ways no key can be read that was not given, whoever owns it.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import site
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, cast

import psutil

import client_app
import fedct_flwr
import server_app
from fedct_flwr.cli.coordinator import reaper
from fedct_flwr.engine.flower import BIN, OFFLINE
from fedct_flwr.types import RunError

TEMPORARY: Final = "/tmp"  # noqa: S108 - each program has one of its own
_BUBBLEWRAP: Final = "bwrap"
_REAPED: Final = (sys.executable, "-I", "-S", str(Path(reaper.__file__).resolve()))
"""Starts bubblewrap, and ends it with this process. Bubblewrap's --die-with-parent alone has gaps."""
_SYSTEM: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")
_SETTINGS: Final = (
    "alternatives", "group", "hosts", "ld.so.cache", "localtime", "nsswitch.conf", "passwd", "resolv.conf", "ssl",
)  # fmt: skip
_KEPT_VARIABLES: Final = ("LANG", "LC_ALL", "TZ", "OMP_NUM_THREADS", "FLWR_SUPEREXEC_TASK_POLL_INTERVAL")
"""All that is handed on of the environment, in which others may have left what is secret."""
_TEMPORARY_BYTES: Final = 256 << 20
_LONGEST_LINE: Final = 10_000
_STOP_SECONDS: Final = 10.0
_PROBE_SECONDS: Final = 60.0
_COLOR: Final = re.compile(r"\x1b\[[0-9;]*m")
_PROBE: Final = """
import json, os, sys
read = []
for path in sys.argv[1:]:
    try:
        os.close(os.open(path, os.O_RDONLY))
        read.append(path)
    except OSError:
        pass
print(json.dumps([os.getuid(), read]))
"""


@dataclass(frozen=True)
class Program:
    """What is run, and all that it may see: ``files`` as copies, ``readable`` and ``writable`` folders as they are."""

    name: str
    command: Sequence[str]
    user: int
    """The user id that it runs as where root starts it."""
    files: Sequence[Path] = ()
    readable: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    """Files that exist in its view alone."""
    home: str = TEMPORARY


class Running:
    """A confined program at work; each line that it prints goes to ``say``."""

    def __init__(self, program: Program, hidden: Path, say: Callable[[str], None]) -> None:
        self.program = program
        self._process = _spawn(program, hidden)
        output = cast(IO[bytes], self._process.stdout)
        self._reader = threading.Thread(target=self._read, args=(output, say), daemon=True)
        self._reader.start()

    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int:
        """Its exit code as soon as it has ended. Raises subprocess.TimeoutExpired if it runs on."""
        return self._process.wait(seconds)

    def stop(self) -> None:
        """End it, in order if it can, and wait until nothing of it is left."""
        with contextlib.suppress(psutil.NoSuchProcess):
            # bubblewrap hands no signal on.
            for process in psutil.Process(self._process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if process.name() != _BUBBLEWRAP:
                        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(_STOP_SECONDS)
        # The reaper kills what is left.
        cast(IO[bytes], self._process.stdin).close()
        self._process.wait()
        self._reader.join(_STOP_SECONDS)

    def _read(self, output: IO[bytes], say: Callable[[str], None]) -> None:
        while line := output.readline(_LONGEST_LINE):
            text = _COLOR.sub("", line.decode("utf-8", "replace")).rstrip()
            # Code that runs there can print anything, and a terminal shall not obey it.
            say(f"{self.program.name}: {''.join(one if one.isprintable() else ' ' for one in text)}")


def check_confined(program: Program, hidden: Path, keys: Sequence[Path]) -> None:
    """Raise RunError unless this program would run without root's rights and without a view of these ``keys``."""
    probe = Program(program.name, [sys.executable, "-c", _PROBE, *map(str, keys)], program.user, program.files,
                    program.readable, program.writable)  # fmt: skip
    if not shutil.which(_BUBBLEWRAP) or not shutil.which("setpriv"):
        raise RunError(f"{_REFUSED}, and there is no bubblewrap: {_REMEDY}")
    output: list[str] = []
    running = Running(probe, hidden, output.append)
    with contextlib.suppress(subprocess.TimeoutExpired):
        running.wait(_PROBE_SECONDS)
    running.stop()
    said = output[-1].removeprefix(f"{probe.name}: ") if output else ""
    try:
        user, read = json.loads(said)
    except ValueError:
        reason = " ".join(said.split())[-200:] or f"exit code {running.code()}"
        raise RunError(f"{_REFUSED}, and bubblewrap cannot do that here ({reason}): {_REMEDY}") from None
    if user == 0 or read:
        what = f"can read {', '.join(read)}" if read else "is root"
        raise RunError(f"{_REFUSED}, and here it {what}: {_REMEDY}")


_REFUSED: Final = (
    "the SuperExec runs the code of whoever reaches the SuperLink, so it must neither be root nor read keys"
)
_REMEDY: Final = (
    "install bubblewrap (apt install bubblewrap) and start this as root, which always works with it, or run the "
    "coordinator in containers (compose.yaml)"
)


def _spawn(program: Program, hidden: Path) -> subprocess.Popen[bytes]:
    with contextlib.ExitStack() as open_files:
        handles: list[int] = []

        def handle(content: bytes) -> str:
            """The number of a descriptor from which this can be read. Nothing of it gets to a disk."""
            number = os.memfd_create(program.name)
            open_files.callback(os.close, number)
            os.write(number, content)
            os.lseek(number, 0, os.SEEK_SET)
            handles.append(number)
            return str(number)

        # By its path, as the program's own PATH is another one.
        bubblewrap = shutil.which(_BUBBLEWRAP) or _BUBBLEWRAP
        arguments = [*_REAPED, bubblewrap, *_view(program, hidden, handle), *_rights(program), *program.command]
        # The reaper gets a session of its own, so that a terminal's signals reach the coordinator alone.
        return subprocess.Popen(
            arguments, env=_environment(program), pass_fds=handles, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/", start_new_session=True,
        )  # fmt: skip


def _view(program: Program, hidden: Path, handle: Callable[[bytes], str]) -> list[str]:
    """Bubblewrap's arguments for what the program sees: later ones cover earlier ones."""
    arguments = [
        "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
        "--proc", "/proc", "--dev", "/dev", "--ro-bind", "/usr", "/usr",
        "--size", str(_TEMPORARY_BYTES), "--perms", "1777", "--tmpfs", TEMPORARY,
    ]  # fmt: skip
    for path in map(Path, _SYSTEM):
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        else:
            arguments += ["--ro-bind-try", str(path), str(path)]
    for name in _SETTINGS:
        arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for folder in _python():
        arguments += [*_above(folder), "--ro-bind", str(folder), str(folder)]
    # Wherever it lies: of the coordinator's folder nothing is seen but what comes now.
    # Under the name that links lead to as well, which may lie in a folder from above.
    for folder in dict.fromkeys((hidden.resolve(), hidden)):
        arguments += [*_above(folder), "--perms", "0755", "--tmpfs", str(folder)]
    for folder in program.readable:
        arguments += [*_above(folder), "--ro-bind", str(folder), str(folder)]
    for folder in program.writable:
        arguments += [*_above(folder), "--bind", str(folder), str(folder)]
    contents = {file: file.read_bytes() for file in program.files}
    contents |= {Path(path): text.encode() for path, text in program.texts.items()}
    for path, content in contents.items():
        # For all, as nobody else is here.
        arguments += [*_above(path), "--perms", "0444", "--ro-bind-data", handle(content), str(path)]
    return arguments


def _above(path: Path) -> list[str]:
    """The folders above a path, which bubblewrap would make for root alone."""
    return [part for folder in reversed(path.parents[:-1]) for part in ("--perms", "0755", "--dir", str(folder))]


def _rights(program: Program) -> list[str]:
    """The rest of bubblewrap's arguments, and how root becomes somebody else."""
    if os.geteuid() != 0:
        return ["--unshare-user", "--cap-drop", "ALL", "--"]
    # What it takes to give up all rights, and is given up with them.
    needed = [part for name in ("SETUID", "SETGID", "SETPCAP") for part in ("--cap-add", f"CAP_{name}")]
    return [
        "--cap-drop", "ALL", *needed, "--", "setpriv", "--reuid", str(program.user), "--regid", str(program.user),
        "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--",
    ]  # fmt: skip


def _python() -> Iterator[Path]:
    """Folders of this Python, of what is installed in it, and of this library, each once."""
    installed = [*site.getsitepackages(), *(path for path in sys.path if path.endswith(("-packages", "lib-dynload")))]
    prefixes = [sys.base_prefix, sys.base_exec_prefix, sys.prefix, os.path.realpath(sys.executable + "/../..")]
    packages = [Path(str(package.__file__)).parent for package in (fedct_flwr, server_app, client_app)]
    found: list[Path] = [Path("/usr")]
    for path in [*map(Path, prefixes), *map(Path, installed), *packages]:
        for one in (path.absolute(), path.resolve()):
            if one.is_dir() and not any(one.is_relative_to(other) for other in found):
                found.append(one)
    yield from found[1:]


def _environment(program: Program) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {
        **kept,
        **OFFLINE,
        "PATH": f"{BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": program.home,
        "FLWR_HOME": f"{TEMPORARY}/flwr",
        "PYTHONPATH": str(Path(str(fedct_flwr.__file__)).parents[1]),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
