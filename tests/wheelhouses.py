"""A small wheelhouse with lock files of its own, and the module that records and verifies it."""

import base64
import hashlib
import importlib.util
import sys
import zipfile
from pathlib import Path
from types import ModuleType

from tests.readme import ROOT

LOCKED = {"agent": "models", "supernode": "models", "extras": "trees", "sbom": "describer", "coordinator": "pages"}
"""The one package that each lock file names, in version 1.0."""
PLACES = {"sbom": "tools", "coordinator": "coordinator"}
"""Where in a wheelhouse the wheels of a lock file are, if not at its top."""


def load_script(name: str) -> ModuleType:
    """A script of docker/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docker" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def write_wheel(
    folder: Path, package: str, version: str = "1.0", *, tag: str = "", code: str = "HONEST = True"
) -> Path:
    """A wheel with one module of the package's name, installable by pip."""
    info = f"{package}-{version}.dist-info"
    files = {
        f"{package}.py": f"{code}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {name: hashlib.sha256(text.encode()).digest() for name, text in files.items()}
    coded = {name: base64.urlsafe_b64encode(digest).rstrip(b"=").decode() for name, digest in digests.items()}
    record = "".join(f"{name},sha256={digest},\n" for name, digest in coded.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{package}-{version}{tag}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            # Always of the same time, so that the same wheel has the same digest.
            archive.writestr(zipfile.ZipInfo(name), text)
    return path


def write_wheelhouse(folder: Path, locks: Path) -> None:
    """The wheels that the lock files name, the project's own, and a package of Debian."""
    locks.mkdir(parents=True)
    for name, package in LOCKED.items():
        path = write_wheel(folder / PLACES.get(name, "."), package)
        (locks / f"{name}.txt").write_text(f"{package}==1.0 \\\n    --hash=sha256:{sha256(path)}\n")
    write_wheel(folder / "project", "fedct_flwr", "0.1.0")
    (folder / "nginx").mkdir()
    (folder / "nginx" / "nginx_1.22_all.deb").write_text("a package of Debian")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
