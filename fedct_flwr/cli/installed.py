"""What is installed, next to what the package requires."""

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final

from packaging.requirements import Requirement

from fedct_flwr.cli.findings import Finding, bad, good

_PYTHON: Final = (3, 11)
_PACKAGE: Final = "fedct-flwr"
# Which collect other extras, and which are for who works on this project.
_NOT_FOR_USE: Final = ("all", "dev", "docs")


def version_of(package: str) -> str | None:
    """The installed version, None if there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def python() -> Iterator[Finding]:
    """Which Python this is."""
    found = f"Python {'.'.join(map(str, sys.version_info[:3]))} on {sys.platform}"
    yield bad(found, "install Python 3.11 or newer") if sys.version_info[:2] < _PYTHON else good(found)


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
