"""``fedct doctor``: is this machine fit for simulations, and what is missing for what."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated, Final

import psutil
import typer
from joblib import cpu_count
from packaging.requirements import Requirement

from fedct_flwr.cli.findings import Check, Finding, bad, good, run_checks, warning
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.text.printable import count

_PACKAGE: Final = "fedct-flwr"
# Which collect other extras, and which are for who works on this project.
_NOT_FOR_USE: Final = ("", "all", "dev", "docs")
_GIGABYTE: Final = 1_000_000_000
_MEMORY, _DISK = 4.0, 1.0
"""Gigabytes that should be free."""
_WITHOUT_ENGINE: Final = "use fedct simulate --in-process, or "


def version_of(package: str) -> str | None:
    """The installed version, None if there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def this_python() -> Iterator[Finding]:
    """Which Python this is."""
    yield good(f"Python {'.'.join(map(str, sys.version_info[:3]))} on {sys.platform}")


def required(shown: Sequence[str] = ("flwr",)) -> Iterator[Finding]:
    """Required packages that are missing or of a version that does not do, or the versions of those to be ``shown``."""
    wrong = _lacking("")
    for one in wrong:
        found, needed = version_of(one.name) or "is not installed", f"{one.name}{one.specifier}"
        yield bad(f"{one.name} {found}, and {needed} is needed", f"pip install '{needed}'")
    if not wrong:
        versions = ((name, version_of(name)) for name in (_PACKAGE, *shown))
        yield good(", ".join(f"{name} {found}" for name, found in versions if found))


def _lacking(extra: str) -> list[Requirement]:
    """Packages of an extra, or always required ones, that are missing or of a version that does not do."""
    found = {one: version_of(one.name) for one in _requirements()[extra]}
    return [one for one, there in found.items() if there is None or not one.specifier.contains(there, prereleases=True)]


@cache
def _requirements() -> dict[str, list[Requirement]]:
    """By extra, "" for what is always required."""
    found: dict[str, list[Requirement]] = {}
    for one in map(Requirement, requires(_PACKAGE) or []):
        extra = str(one.marker).rpartition("extra == ")[2].strip("'\"") if one.marker else ""
        if one.name != _PACKAGE:
            found.setdefault(extra, []).append(one)
    return found


def packages(_: None) -> Iterator[Finding]:
    """Required packages and installed extras."""
    yield from required()
    extras = {name: not _lacking(name) for name in sorted(_requirements()) if name not in _NOT_FOR_USE}
    if there := [name for name, whole in extras.items() if whole]:
        yield good(f"extras: {', '.join(there)}")
    if missing := [name for name, whole in extras.items() if not whole]:
        message = f"extras not installed: {', '.join(missing)}"
        yield warning(message, f"where you need one: pip install -c constraints.txt -e '.[{missing[0]}]'")


def memory(_: None) -> Iterator[Finding]:
    """Free memory for the silos that train at the same time."""
    free = psutil.virtual_memory().available / _GIGABYTE
    message = f"memory: {free:.1f} GB are free for {count(cpu_count(), 'core')}"
    enough = free >= _MEMORY
    yield good(message) if enough else warning(message, f"end other programs: {_MEMORY:g} GB are better")


def gpu(_: None) -> Iterator[Finding]:
    """Where networks would be trained; nothing without the extra ``torch``."""
    try:
        from fedct_flwr.learners.trained_network import choose_device
    except ImportError:
        return
    found = choose_device("auto").type
    if found == "cpu" and shutil.which("nvidia-smi"):
        yield warning("GPU: there is one, but this torch cannot use it", "install a build of torch with CUDA")
    else:
        yield good("GPU: none; networks are trained on the CPU" if found == "cpu" else f"GPU: {found} trains networks")


def engine(_: None) -> Iterator[Finding]:
    """Whether Flower's simulation engine could start; it is not started."""
    if sys.platform == "win32":
        yield warning("engine: it is not tested on Windows", f"{_WITHOUT_ENGINE}Linux in WSL")
    elif version_of("ray") is None:
        install = "pip install -c constraints.txt -e '.[simulation]'"
        yield warning("engine: Ray is not installed", f"{_WITHOUT_ENGINE}{install}")
    elif any(character.isspace() for character in sys.executable):
        yield bad(f"engine: there is a space in {sys.executable}", f"{_WITHOUT_ENGINE}install into another folder")
    else:
        yield good(f"engine: Ray {version_of('ray')} is there")


def disk(_: None) -> Iterator[Finding]:
    """Room for runs, which go below the folder that one is in, and for what is temporary."""
    for what, folder in {"runs": Path.cwd(), "temporary files": Path(tempfile.gettempdir())}.items():
        free = shutil.disk_usage(folder).free / _GIGABYTE
        message = f"disk: {free:.1f} GB are free for {what} in {folder}"
        if not os.access(folder, os.W_OK):
            yield bad(f"disk: {folder}, where {what} go, cannot be written to", "go to another folder")
        elif free < _DISK:
            yield bad(message, f"make room, at least {_DISK:g} GB")
        else:
            yield good(message)


CHECKS: Final[tuple[Check[None], ...]] = (
    Check("Python", lambda _: this_python()),
    Check("packages", packages),
    Check("memory", memory),
    Check("GPU", gpu),
    Check("engine", engine),
    Check("disk", disk),
)


def doctor(
    details: Annotated[bool, typer.Option("--details", help="Say more about errors.")] = False, json_: Json = False
) -> None:
    """Look at this machine: what is ready for simulations, and what to do where something is missing.

    Nothing is started and nothing is sent. Exit code 3 if anything is bad, and 0 if there are warnings at most.
    """
    if code := run_checks(Output(as_json=json_), CHECKS, None, more="fedct doctor --details", details=details):
        raise typer.Exit(code)
