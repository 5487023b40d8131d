"""Record what a wheelhouse holds, and verify it without a network. Standard library alone.

    python3 docker/wheelhouse.py record FOLDER                       write SHA256SUMS, and pins of what was collected
    python3 docker/wheelhouse.py verify FOLDER [--manifest SHA256]   compare FOLDER with SHA256SUMS and docker/locks
    python3 docker/wheelhouse.py installed FOLDER SITE_PACKAGES      compare what is installed with FOLDER's wheels

Two things are trusted: the lock files beside this one, and the SHA-256 of SHA256SUMS that somebody noted elsewhere.
"""

import argparse
import hashlib
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

LOCKS = Path(__file__).parent / "locks"
MANIFEST = "SHA256SUMS"
PROJECT = "fedct-flwr"
# Each has builds for the CPU and for several versions of CUDA, which lie in different places with different digests.
_BUILDS = re.compile(r"torch|torchvision|triton|nvidia-.+|cuda-.+")
# Files that an installer adds to a package, or writes in its own form.
_INSTALLERS = re.compile(r"[^/]+\.dist-info/(?:INSTALLER|RECORD|REQUESTED|direct_url\.json)")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Pin(NamedTuple):
    """A package's normalized name and its version."""

    name: str
    version: str


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Returns the exit code: 1 if anything is wrong, each in one line on standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("record", "verify", "installed"):
        commands.add_parser(name).add_argument("folder", type=Path)
    commands.choices["verify"].add_argument("--manifest", help="the SHA-256 that SHA256SUMS must have")
    commands.choices["installed"].add_argument("site_packages", type=Path)
    given = parser.parse_args(arguments)
    if given.command == "record":
        wrong = record(given.folder)
    elif given.command == "verify":
        wrong = verify(given.folder, given.manifest)
    else:
        wrong = verify(given.folder) or installed(given.folder, given.site_packages)
    for line in wrong:
        print(line, file=sys.stderr)
    if not wrong:
        print(_summary(given.folder))
    return int(bool(wrong))


def record(folder: Path) -> list[str]:
    """Write the pins and SHA256SUMS. Returns what is wrong; nothing is written then."""
    if wrong := _links(folder) or list(_unlocked(folder)):
        return wrong
    for name, text in _pins(folder).items():
        (folder / name).write_text(text, "utf-8")
    sums = "".join(f"{_digest(folder / name)}  {name}\n" for name in _contents(folder))
    (folder / MANIFEST).write_text(sums, "utf-8")
    return []


def verify(folder: Path, manifest: str | None = None) -> list[str]:
    """Differences between a wheelhouse, its SHA256SUMS, and the lock files."""
    path = folder / MANIFEST
    if not path.is_file():
        return [f"{folder} has no {MANIFEST}: collect it with 'make wheelhouse'"]
    if manifest is not None and _digest(path) != manifest.lower():
        return [f"{path} is not the one with the digest {manifest}: get the wheelhouse again"]
    recorded = dict(reversed(line.split("  ", 1)) for line in path.read_text("utf-8").splitlines() if "  " in line)
    there = _contents(folder)
    if wrong := _links(folder):
        return wrong
    wrong = [f"{folder / name} is not in {MANIFEST}: remove it" for name in there if name not in recorded]
    for name, digest in recorded.items():
        if name not in there:
            wrong.append(f"{folder / name} is missing: get the wheelhouse again")
        elif _digest(folder / name) != digest:
            wrong.append(f"{folder / name} is not the file that was recorded: get the wheelhouse again")
    wrong += _unlocked(folder)
    for name, text in _pins(folder).items():
        if name in there and (folder / name).read_text("utf-8") != text:
            wrong.append(f"{folder / name} does not list the wheels that are there: get the wheelhouse again")
    return wrong


def installed(folder: Path, site_packages: Path) -> list[str]:
    """Differences between installed packages and the wheels they come from, file by file.

    Compiled files (``__pycache__``) and commands (``bin``) are not compared: an installer writes them.
    """
    places = folder, folder / "coordinator", folder / "project"
    wheels = {pin_of(path): path for place in places for path in place.glob("*.whl")}
    there = {pin_of(path) for path in site_packages.glob("*.dist-info")}
    expected = {name: digest for pin in there & wheels.keys() for name, digest in _files(wheels[pin])}
    found = {path.relative_to(site_packages).as_posix(): path for path in _walk(site_packages)}
    compared = {
        name: path
        for name, path in found.items()
        if "__pycache__" not in path.parts and not _INSTALLERS.fullmatch(name)
    }
    return [
        *(f"{pin.name} {pin.version} comes from no wheel of {folder}" for pin in sorted(there - wheels.keys())),
        *(f"{site_packages / name} is missing" for name in sorted(expected.keys() - compared.keys())),
        *(f"{path} is in no wheel of {folder}" for name, path in sorted(compared.items()) if name not in expected),
        *(
            f"{path} is not the file of its wheel"
            for name, path in sorted(compared.items())
            if name in expected and _digest(path) != expected[name]
        ),
    ]


def pin_of(path: Path) -> Pin:
    """Name and version, as the name of a wheel or of its metadata says them.

    >>> pin_of(Path("ml_dtypes-0.6.0-cp311-cp311-linux_x86_64.whl"))
    Pin(name='ml-dtypes', version='0.6.0')
    """
    name, _, rest = path.name.partition("-")
    return Pin(_normalized(name), rest.removesuffix(".dist-info").partition("-")[0])


def locked(*names: str) -> dict[Pin, set[str]]:
    """The SHA-256 of all files that lock files name, by package and version."""
    found: dict[Pin, set[str]] = {}
    for name in names:
        text = (LOCKS / f"{name}.txt").read_text("utf-8")
        places = [match.start() for match in _PIN.finditer(text)]
        for match, end in zip(_PIN.finditer(text), [*places[1:], len(text)], strict=True):
            pin = Pin(_normalized(match[1]), match[2])
            found.setdefault(pin, set()).update(_HASH.findall(text[match.start() : end]))
    return found


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _unlocked(folder: Path) -> Iterator[str]:
    """Refused contents of a wheelhouse: wheels that the lock files do not name, and several projects."""
    for place, lock in (
        (folder, locked("agent", "extras")),
        (folder / "coordinator", locked("coordinator")),
        (folder / "tools", locked("sbom")),
    ):
        names = {pin.name for pin in lock}
        for path in sorted(place.glob("*.whl")):
            pin = pin_of(path)
            if not _BUILDS.fullmatch(pin.name) and pin.name not in names:
                yield f"{path} is in no lock file of docker/locks: remove it, or lock it with 'make lock'"
            elif pin.name in names and _digest(path) not in lock.get(pin, set()):
                yield f"{path} is not a file that docker/locks names for {pin.name}: get the wheelhouse again"
    projects = sorted((folder / "project").glob("*.whl"))
    if [pin_of(path).name for path in projects] != [PROJECT]:
        yield f"{folder / 'project'} must hold one wheel, {PROJECT}'s: remove the folder and run 'make wheelhouse'"


def _links(folder: Path) -> list[str]:
    found = (folder / name for name in _contents(folder))
    return [f"{path} is a link: put the file itself there" for path in found if path.is_symlink()]


def _pins(folder: Path) -> dict[str, str]:
    """Requirements with the digests of what was collected: of extras, and the project's own wheel."""
    agent = locked("agent")
    extras = [path for path in folder.glob("*.whl") if pin_of(path) not in agent]
    return {
        "extras.txt": "".join(sorted(map(_requirement, extras))),
        "project.txt": "".join(map(_requirement, (folder / "project").glob("*.whl"))),
    }


def _requirement(path: Path) -> str:
    pin = pin_of(path)
    return f"{pin.name}=={pin.version} --hash=sha256:{_digest(path)}\n"


def _contents(folder: Path) -> list[str]:
    """All files but SHA256SUMS and make's own marks, as ``.project``."""
    names = (path.relative_to(folder).as_posix() for path in _walk(folder))
    return sorted(name for name in names if name != MANIFEST and not re.fullmatch(r"\.[a-z]+(-[a-z,-]*)?", name))


def _walk(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())


def _files(wheel: Path) -> Iterator[tuple[str, str]]:
    """Files that a wheel puts into site-packages, with their SHA-256."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            place = re.sub(r"^[^/]+\.data/(?:purelib|platlib)/", "", name)
            if not name.endswith("/") and ".data/" not in place.partition("/")[0] + "/" and not _INSTALLERS.match(name):
                yield place, hashlib.sha256(archive.read(name)).hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _summary(folder: Path) -> str:
    wheels: Mapping[Pin, Path] = {pin_of(path): path for path in folder.glob("*.whl")}
    builds: Iterable[str] = sorted(f"{pin.name} {pin.version}" for pin in wheels if _BUILDS.fullmatch(pin.name))
    lines = [f"{folder}: {len(wheels)} wheels, each as it was recorded"]
    lines += [f"In no lock file, so compare its digest with its publisher's: {build}" for build in builds]
    return "\n".join([*lines, f"SHA-256 of {MANIFEST}: {_digest(folder / MANIFEST)}"])


if __name__ == "__main__":
    sys.exit(main())
