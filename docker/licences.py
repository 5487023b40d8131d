"""Write the licences of all that is installed in an image as one text. Standard library alone.

    python licences.py ROOT > IMAGE.licences.txt

ROOT is where the image's files are. For each package of Python, of Debian, and for Python itself: its name, its
version, the licence that it declares, and the whole text of its licence files. A package of Python that brings neither
ends the program.
"""

import re
import sys
from collections.abc import Iterator
from email.parser import Parser
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import NamedTuple

_RULE = "=" * 100
_LICENCE_FILE = re.compile(r"(?:licen[cs]es?|copying|notice|copyright|authors)(?:[-_.].*)?", re.IGNORECASE)
_DECLARED = "License :: "
# One field holds the name in some packages, and the whole text in others.
_LONGEST_NAME = 100
# As dpkg's status file says it.
_INSTALLED = "install ok installed"


class Licence(NamedTuple):
    """The licence that a package declares. ``texts``: the contents of its licence files, by name."""

    package: str
    declared: str
    texts: dict[str, str]


def text_of(root: Path) -> str:
    """All licences of an image. Raises ValueError for packages without any."""
    found = sorted([*_python(root), *_debian(root), *_interpreter(root)], key=lambda one: one.package.lower())
    if without := [one.package for one in found if not one.declared and not one.texts]:
        raise ValueError(f"no licence is known of {', '.join(without)}: ask its authors before you pass the image on")
    index = "".join(f"{one.package}: {one.declared or 'see its text'}\n" for one in found)
    texts = ((one.package, name, text.strip()) for one in found for name, text in one.texts.items())
    return "\n".join([index, *(f"{_RULE}\n{package}: {name}\n{_RULE}\n{text}\n" for package, name, text in texts)])


def licence_of(distribution: Distribution) -> Licence:
    """The metadata of one package of Python."""
    about = distribution.metadata
    declared = about.get("License-Expression") or ""
    if not declared:
        classifiers = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or [] if _DECLARED in line]
        said = (about.get("License") or "").strip()
        names = classifiers or ([said] if said and len(said) <= _LONGEST_NAME and "\n" not in said else [])
        declared = ", ".join(names)
    texts = {}
    for path in distribution.files or ():
        folder, *within = path.parts
        if folder.endswith(".dist-info") and ("licenses" in within[:-1] or _LICENCE_FILE.fullmatch(path.name)):
            texts["/".join(within)] = Path(str(distribution.locate_file(path))).read_text("utf-8", "replace")
    if not texts and len(about.get("License") or "") > _LONGEST_NAME:
        texts["METADATA"] = about.get("License")
    return Licence(f"{about['Name']} {distribution.version}", declared, texts)


def _python(root: Path) -> Iterator[Licence]:
    folders = map(str, (root / "venv" / "lib").glob("python*/site-packages"))
    return (licence_of(one) for one in distributions(path=list(folders)))


def _debian(root: Path) -> Iterator[Licence]:
    status = root / "var" / "lib" / "dpkg" / "status"
    packages = status.read_text("utf-8").strip().split("\n\n") if status.is_file() else []
    for package in map(Parser().parsestr, packages):
        if package["Status"] == _INSTALLED:
            name = f"{package['Package']} {package['Version']} (Debian)"
            path = root / "usr" / "share" / "doc" / package["Package"] / "copyright"
            if path.is_file():
                yield Licence(name, "", {"copyright": path.read_text("utf-8", "replace")})
            else:
                yield Licence(name, "in Debian's package, without its text in this image", {})


def _interpreter(root: Path) -> Iterator[Licence]:
    for path in sorted((root / "usr" / "local" / "lib").glob("python3.*/LICENSE.txt")):
        yield Licence(f"{path.parent.name} (Python itself)", "PSF-2.0", {path.name: path.read_text("utf-8", "replace")})


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.stdout.write(text_of(Path(sys.argv[1])))
