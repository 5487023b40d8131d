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
from packaging.requirements import Requirement

from fedct_flwr.cli.findings import Check, Finding, bad, by_amount, good, run_checks, warning
from fedct_flwr.cli.output import Json, Output

_PACKAGE: Final = "fedct-flwr"
# Which collect other extras, and which are for who works on this project.
_NOT_FOR_USE: Final = ("all", "dev", "docs")


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


def missing_extras() -> dict[str, list[str]]:
    """Each extra, with the packages of it that are missing or of a version that does not do."""
    return {name: [one.name for one in _lacking(name)] for name in _requirements() if name not in ("", *_NOT_FOR_USE)}


def _lacking(extra: str) -> list[Requirement]:
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


# --- checks


_GIGABYTE: Final = 1_000_000_000
_LEAST_MEMORY: Final = 1.0
_GOOD_MEMORY: Final = 4.0
_LEAST_DISK: Final = 1.0
_GOOD_DISK: Final = 5.0
_MEMORY_LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_PARTS_OF_FLOWER: Final = ("flwr", "flower-superlink")
_BUILT_IN: Final = ("heart-disease", "breast-cancer", "diabetes")


def python(_: None) -> Iterator[Finding]:
    """Which Python this is, and whether Flower's engine can start workers with it."""
    yield from this_python()
    if sys.platform == "win32":
        yield warning("the engine is not tested on Windows", "use fedct simulate --in-process, or Linux in WSL")


def packages(_: None) -> Iterator[Finding]:
    """What is required, and what extras are there."""
    yield from required()
    extras = missing_extras()
    if there := sorted(name for name, lacks in extras.items() if not lacks):
        yield good(f"extras: {', '.join(there)}")
    if missing := sorted(name for name, lacks in extras.items() if lacks):
        said = f"extras not installed: {', '.join(missing)}"
        yield warning(said, f"where you need one: pip install -c constraints.txt -e '.[{missing[0]}]'")


def machine(_: None) -> Iterator[Finding]:
    """How many silos can train at the same time, and what memory is free within the limit of a container."""
    number = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield good(f"cores: {number}")
    limits = [int(text) for path in _MEMORY_LIMITS if path.is_file() and (text := path.read_text().strip()).isdecimal()]
    free = min(psutil.virtual_memory().available, *limits, psutil.virtual_memory().total) / _GIGABYTE
    yield by_amount(
        f"memory: {free:.1f} GB are free",
        free,
        (_LEAST_MEMORY, f"end other programs: {_LEAST_MEMORY:g} GB are needed, {_GOOD_MEMORY:g} GB are better"),
        (_GOOD_MEMORY, "use --in-process for large data sets: the engine has a process for each core"),
    )


def gpu(_: None) -> Iterator[Finding]:
    """Where networks would be trained."""
    try:
        from fedct_flwr.learners.trained_network import choose_device
    except ImportError:
        # That the extra is missing is said already.
        return
    found = choose_device("auto").type
    if found == "cpu" and shutil.which("nvidia-smi"):
        yield warning("GPU: there is one, but this torch cannot use it", "install a build of torch with CUDA")
    elif found == "cpu":
        yield good("GPU: none; networks are trained on the CPU")
    else:
        yield good(f"GPU: networks are trained on {found}")


def engine(_: None) -> Iterator[Finding]:
    """Whether Flower's simulation engine could start; it is not started."""
    fix = "use fedct simulate --in-process, or "
    folder = Path(sys.executable).parent
    if version_of("ray") is None:
        yield warning("engine: Ray is not installed", f"{fix}pip install -c constraints.txt -e '.[simulation]'")
    elif missing := [name for name in _PARTS_OF_FLOWER if shutil.which(name, path=str(folder)) is None]:
        yield bad(
            f"engine: {', '.join(missing)} not in {folder}", f"{fix}pip install -c constraints.txt -e '.[simulation]'"
        )
    elif any(character.isspace() for character in sys.executable):
        yield bad(f"engine: there is a space in {sys.executable}", f"{fix}install into another folder")
    else:
        yield good(f"engine: Ray {version_of('ray')} and Flower's programs are there")


def data(_: None) -> Iterator[Finding]:
    """Which data sets lie on this machine, apart from the built-in ones."""
    from fedct_flwr.datasets import LOADERS
    from fedct_flwr.datasets.cache import data_folder

    folder = data_folder()
    named = f"FEDCT_DATA = {folder}" if os.environ.get("FEDCT_DATA") else f"{folder} (FEDCT_DATA is not set)"
    if os.environ.get("FEDCT_DATA") and not folder.is_dir():
        yield bad(f"data: {named} is no folder", "set FEDCT_DATA to the folder of the data sets, or unset it")
        return
    there = sorted(name for name in LOADERS if (folder / name).is_dir())
    yield good(f"data: {', '.join([*_BUILT_IN, *there])}; others are looked for in {named}")


def disk(_: None) -> Iterator[Finding]:
    """Room for runs, which go below the folder that one is in, and for what is temporary."""
    for what, folder in {"runs": Path.cwd(), "temporary files": Path(tempfile.gettempdir())}.items():
        if not os.access(folder, os.W_OK):
            yield bad(f"disk: {folder}, where {what} go, cannot be written to", "go to another folder")
            continue
        free = shutil.disk_usage(folder).free / _GIGABYTE
        yield by_amount(
            f"disk: {free:.1f} GB are free for {what} in {folder}",
            free,
            (_LEAST_DISK, f"make room, at least {_LEAST_DISK:g} GB"),
            (_GOOD_DISK, f"make room, {_GOOD_DISK:g} GB are better"),
        )


CHECKS: Final = (
    Check("Python", python),
    Check("packages", packages),
    Check("machine", machine),
    Check("GPU", gpu),
    Check("engine", engine),
    Check("data", data),
    Check("disk", disk),
)


def doctor(
    details: Annotated[bool, typer.Option("--details", help="Say more about errors.")] = False, json_: Json = False
) -> None:
    """Look at this machine: what is ready for simulations, and what to do where something is missing.

    Nothing is started and nothing is sent. Exit code 3 if anything is bad, and 0 if there are warnings at most.
    """
    out = Output(as_json=json_)
    if code := run_checks(out, CHECKS, None, more="fedct doctor --details", details=details):
        raise typer.Exit(code)
