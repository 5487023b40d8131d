"""What is installed, beside what is required and what was tested."""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final, NamedTuple

PACKAGE: Final = "fedct-flwr"
PYTHON: Final = (3, 11)

# Which collect other extras, and which are for who works on this project.
_NOT_FOR_USE: Final = ("all", "dev", "docs")
_COMPARE: Final[Mapping[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}


class Requirement(NamedTuple):
    """``flwr<1.43,>=1.41`` of an extra, or of no extra."""

    name: str
    text: str
    bounds: tuple[tuple[str, str], ...]
    extra: str


def version_of(package: str) -> str | None:
    """The installed version, None if there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def wrong() -> dict[str, tuple[str, str | None]]:
    """Required packages that are missing or of a version that does not do: what is needed, and what is there."""
    return {r.name: (r.text, version_of(r.name)) for r in _requirements() if not r.extra and not _is_met(r)}


def extras() -> dict[str, list[str]]:
    """Each extra, with what of it is missing or of a version that does not do."""
    found: dict[str, list[str]] = {}
    for requirement in _requirements():
        if requirement.extra and requirement.extra not in _NOT_FOR_USE:
            lacks = found.setdefault(requirement.extra, [])
            if not _is_met(requirement):
                lacks.append(requirement.text)
    return found


def untested() -> dict[str, tuple[str, str]]:
    """Direct requirements whose version is not the tested one: what is there, and what was tested."""
    tested = _tested()
    there = {r.name: version_of(r.name) for r in _requirements() if r.extra not in _NOT_FOR_USE}
    # Builds of torch for a device have a suffix, +cpu.
    return {
        name: (found, tested[name])
        for name, found in there.items()
        if found and name in tested and found.partition("+")[0] != tested[name].partition("+")[0]
    }


def numbers(text: str) -> tuple[int, ...]:
    """A version as numbers, up to the first part that is none.

    >>> numbers("1.41.0rc1"), numbers("2.13.0+cpu")
    ((1, 41), (2, 13, 0))
    """
    found = []
    for part in text.partition("+")[0].split("."):
        if not part.isdecimal():
            break
        found.append(int(part))
    return tuple(found)


@cache
def _requirements() -> tuple[Requirement, ...]:
    return tuple(_parsed(requires(PACKAGE) or []))


def _parsed(lines: list[str]) -> Iterator[Requirement]:
    for line in lines:
        text, _, marker = (part.strip() for part in line.partition(";"))
        name = re.match(r"[A-Za-z0-9._-]+", text)
        extra = re.search(r"extra == ['\"]([^'\"]+)['\"]", marker)
        if name and name[0].lower() != PACKAGE:
            bounds = tuple(re.findall(r"([<>=]=?)\s*([0-9][^,\s]*)", text))
            yield Requirement(name[0].lower(), text, bounds, extra[1] if extra else "")


def _is_met(requirement: Requirement) -> bool:
    found = version_of(requirement.name)
    if found is None:
        return False
    return all(_COMPARE[sign](*_alike(numbers(found), numbers(bound))) for sign, bound in requirement.bounds)


def _alike(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of the same length: 1.41 is 1.41.0."""
    length = max(len(one), len(other))
    return one + (0,) * (length - len(one)), other + (0,) * (length - len(other))


@cache
def _tested() -> dict[str, str]:
    """The pins that the tests run with: of the package, or of the checkout."""
    bundled = Path(str(resources.files("fedct_flwr.cli").joinpath("tested.txt")))
    checkout = Path(__file__).parents[2] / "constraints.txt"
    for path in (bundled, checkout):
        if path.is_file():
            pins = (line.partition("==") for line in path.read_text("utf-8").splitlines())
            return {name.strip().lower(): pin.strip() for name, sign, pin in pins if sign}
    return {}
