"""What is installed, next to what the package requires."""

from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final

from packaging.requirements import Requirement

PYTHON: Final = (3, 11)
_PACKAGE: Final = "fedct-flwr"
# Which collect other extras, and which are for who works on this project.
_NOT_FOR_USE: Final = ("all", "dev", "docs")


def version_of(package: str) -> str | None:
    """The installed version, None if there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def wrong() -> dict[str, tuple[str, str | None]]:
    """Required packages that are missing or of a version that does not do: what is needed, and what is there."""
    return {one.name: (f"{one.name}{one.specifier}", version_of(one.name)) for one in _lacking("")}


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
