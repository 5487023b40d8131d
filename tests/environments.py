"""The environment that a page's install commands make, within one that has more: other packages seem to be missing."""

import re
import sys
import tomllib
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from types import ModuleType
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.readme import ROOT

_PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
_FIRST: Final = {"simulation", "report"}
"""What `make run` installs: the README's first step, which comes before each page."""


_BACKPORTS: Final = {"importlib_metadata", "zipp"}
"""Once imported, importlib_metadata takes the place of the standard library's own finder."""


def extras_named(text: str) -> frozenset[str]:
    """The extras that the commands of a text install."""
    return frozenset(_FIRST.union(*(named.split(",") for named in re.findall(r"-e '?\.\[([a-z,-]+)\]", text))))


@lru_cache
def brought(extras: frozenset[str]) -> set[str]:
    """The distributions that come with these extras of the project, and all that those require."""
    found: set[tuple[str, str]] = set()
    left = [(_PROJECT["name"], extra) for extra in ("", *extras)]
    while left:
        name, extra = asked = left.pop()
        if asked in found:
            continue
        found.add(asked)
        for each in map(Requirement, _requirements(name, extra)):
            if each.marker is None or each.marker.evaluate({"extra": extra}):
                left += [(canonicalize_name(each.name), of) for of in ("", *each.extras)]
    return {name for name, _ in found}


def _requirements(name: str, extra: str) -> list[str]:
    if name == _PROJECT["name"]:
        return _PROJECT["optional-dependencies"][extra] if extra else _PROJECT["dependencies"]
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []


@lru_cache
def missing_with(extras: frozenset[str]) -> set[str]:
    """Top-level modules that other extras bring, and these do not."""
    there, everything = brought(extras), brought(frozenset({"all"}))
    owners = {module: {canonicalize_name(name) for name in names} for module, names in packages_distributions().items()}
    hidden = [module for module, names in owners.items() if names & everything and not names & there]
    # Some distributions bring a folder of such a name too.
    return {module for module in hidden if not (ROOT / module).exists()} - _BACKPORTS


def hide_all_but(extras: frozenset[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let importing what these extras do not bring fail, as where it is not installed."""
    hidden, find = missing_with(extras), PathFinder.find_spec
    for name, module in [*sys.modules.items()]:
        # Modules of the project that have imported one of them already try again.
        holds = any(isinstance(vars(module).get(each), ModuleType) for each in hidden)
        if name.partition(".")[0] in hidden or (name.startswith("fedct_flwr.") and holds):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(
        PathFinder, "find_spec", lambda name, *more: None if name.partition(".")[0] in hidden else find(name, *more)
    )
