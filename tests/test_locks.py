"""The lock files are those of pyproject.toml and constraints.txt, and complete. Nothing is asked of a registry."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from typing import Any

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.readme import ROOT
from tests.wheelhouses import load_script

wheelhouse = load_script("wheelhouse")
LOCKS = ROOT / "docker" / "locks"
NAMES = sorted(path.stem for path in LOCKS.glob("*.txt"))
CONSTRAINTS = {
    canonicalize_name(name): version
    for name, sign, version in (line.partition("==") for line in (ROOT / "constraints.txt").read_text().splitlines())
    if sign
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CALLS = re.sub(r" \\\n *", " ", (ROOT / "docker" / "lock").read_text("utf-8"))
EXTRAS, MORE = (
    re.findall(r"--extra ([a-z-]+)", call)
    for call in re.findall(r"^lock (?:extras|coordinator) .*", CALLS, re.MULTILINE)
)
"""What agents' learners may need, and what the coordinator alone does."""
# PyTorch is published in builds for several devices.
NOT_LOCKED = {"torch", "torchvision"}
# Where the images run.
PLATFORM: dict[str, Any] = {**default_environment(), "sys_platform": "linux", "platform_system": "Linux"}


def versions(*names: str) -> dict[str, str]:
    return {pin.name: pin.version for pin in wheelhouse.locked(*names)}


def required(name: str, extras: tuple[str, ...] = ()) -> Iterator[Requirement]:
    """The requirements of a distribution, without those of extras that are not asked for."""
    if name == PROJECT["name"]:
        # Of the checkout: what is installed may be of another.
        optional = (line for extra in extras for line in PROJECT["optional-dependencies"][extra])
        lines = [*PROJECT["dependencies"], *optional]
    else:
        try:
            lines = requires(name) or []
        except PackageNotFoundError:  # for another platform
            lines = []
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({**PLATFORM, "extra": extra}) for extra in ("", *extras)):
            yield requirement


def closure(*roots: Requirement) -> dict[str, list[Requirement]]:
    """All direct and indirect requirements by package, as the distributions that are installed here declare them."""
    found: dict[str, list[Requirement]] = {}
    open_ = list(roots)
    while open_:
        requirement = open_.pop()
        name = canonicalize_name(requirement.name)
        known = found.setdefault(name, [])
        if requirement not in known:
            known.append(requirement)
            open_ += required(name, tuple(requirement.extras))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_lock_has_the_versions_of_the_constraints(name: str) -> None:
    found = versions(name)
    assert found
    assert found == {package: CONSTRAINTS.get(package) for package in found}


@pytest.mark.parametrize("name", NAMES)
def test_a_lock_names_digests_and_no_registry(name: str) -> None:
    text = (LOCKS / f"{name}.txt").read_text("utf-8")
    assert all(wheelhouse.locked(name).values())
    assert "://" not in text
    assert not re.search(r"^\s*-(?!-hash=)", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("names", "roots"),
    [
        (("supernode",), ["flwr"]),
        (("agent",), ["fedct-flwr"]),
        (("agent", "extras"), [f"fedct-flwr[{','.join(EXTRAS)}]"]),
        (("agent", "coordinator"), [f"fedct-flwr[{','.join(MORE)}]"]),
        (("sbom",), ["cyclonedx-bom"]),
    ],
)
def test_a_lock_is_complete(names: tuple[str, ...], roots: list[str]) -> None:
    locked = versions(*names)
    for name, requirements in closure(*map(Requirement, roots)).items():
        if name not in NOT_LOCKED | {"fedct-flwr"}:
            assert name in locked, f"{name} is missing in {names}: make lock"
            for requirement in requirements:
                assert requirement.specifier.contains(locked[name]), f"{requirement} and {locked[name]}: make lock"
