"""Describe an image as CycloneDX: its Python packages by cyclonedx-py, and the packages of its Debian.

    python sbom.py ROOT SHA256SUMS NAME BASE > NAME.cdx.json

ROOT is where the image's files are. Each Python package has the SHA-256 of the wheel that it was installed from, as the
wheelhouse's SHA256SUMS says it, so that lock files, wheelhouse and SBOM can be compared. The same image has the same
SBOM: it contains no time and no number of its own.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

BASE = "fedct:base-image"
# As dpkg's status file says it.
_INSTALLED = "install ok installed"


def describe(root: Path, sums: str, name: str, base: str) -> str:
    """The SBOM as JSON. Raises ValueError if it does not follow CycloneDX's schema."""
    bom = _python(root / "venv" / "bin" / "python")
    digests = dict(_wheels(sums))
    components = bom.setdefault("components", [])
    for component in components:
        if digest := digests.get((_normalized(component["name"]), component["version"])):
            component["hashes"] = [{"alg": "SHA-256", "content": digest}]
    status = root / "var" / "lib" / "dpkg" / "status"
    components += _debian(status.read_text("utf-8")) if status.is_file() else []
    bom.setdefault("metadata", {})["component"] = {
        "bom-ref": name,
        "name": name,
        "type": "container",
        "properties": [{"name": BASE, "value": base}],
    }
    text = json.dumps(bom, indent=2)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ValueError(f"the SBOM of {name} does not follow CycloneDX's schema: {error}")
    return text


def _python(interpreter: Path) -> dict[str, Any]:
    """Packages installed for an interpreter; empty without one, as in the gateway."""
    if not interpreter.is_symlink():
        return {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}
    # Validated once, when it is complete.
    options = ["--output-reproducible", "--no-validate", "--spec-version", "1.6"]
    tool = [sys.executable, "-m", "cyclonedx_py", "environment", *options]
    done = subprocess.run([*tool, str(interpreter)], stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))


def _wheels(sums: str) -> Iterator[tuple[tuple[str, str], str]]:
    for line in sums.splitlines():
        if found := re.fullmatch(r"([0-9a-f]{64})  (?:project/|coordinator/)?([^/-]+)-([^/-]+)-[^/]+\.whl", line):
            yield (_normalized(found[2]), found[3]), found[1]


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _debian(status: str) -> Iterator[dict[str, str]]:
    for package in map(Parser().parsestr, status.strip().split("\n\n")):
        if package["Status"] == _INSTALLED:
            name, version = package["Package"], package["Version"]
            where = str(PackageURL("deb", "debian", name, version, {"arch": package["Architecture"]}))
            yield {"bom-ref": where, "name": name, "purl": where, "type": "library", "version": version}


if __name__ == "__main__":
    root, sums, name, base = sys.argv[1:]
    print(describe(Path(root), Path(sums).read_text("utf-8"), name, base))
