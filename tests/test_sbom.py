"""What an image's SBOM says, and the bundle for hospitals without internet."""

import json
import os
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.processes.test_counts import MORE
from tests.readme import ROOT
from tests.test_locks import versions
from tests.wheelhouses import load_script, sha256, write_wheel

pytestmark = pytest.mark.slow

sbom = load_script("sbom")
STATUS = """\
Package: nginx
Status: install ok installed
Architecture: amd64
Version: 1:1.22.1-9+deb12u9
Description: a server
 with a second line

Package: removed
Status: deinstall ok config-files
Architecture: all
Version: 1.0
"""
BASE = f"python:3.11 sha256:{'a' * 64}"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of an image with two Python packages."""
    root = tmp_path_factory.mktemp("image")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / "venv"], check=True, timeout=120)
    wheels = [write_wheel(root / "wheels", "ml_models", "1.0"), write_wheel(root / "wheels", "fedct_flwr", "0.1.0")]
    (site_packages,) = (root / "venv" / "lib").glob("python*/site-packages")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--target", site_packages, *wheels]
    subprocess.run(install, check=True, timeout=120)
    (root / "var" / "lib" / "dpkg").mkdir(parents=True)
    (root / "var" / "lib" / "dpkg" / "status").write_text(STATUS)
    return root


@pytest.fixture(scope="module")
def text(image: Path) -> str:
    wheels = image / "wheels"
    sums = [
        f"{sha256(wheels / 'ml_models-1.0-py3-none-any.whl')}  ml_models-1.0-py3-none-any.whl\n",
        f"{sha256(wheels / 'fedct_flwr-0.1.0-py3-none-any.whl')}  project/fedct_flwr-0.1.0-py3-none-any.whl\n",
        f"{'0' * 64}  nginx/nginx_1.22.deb\n",
    ]
    return str(sbom.describe(image, "".join(sums), "agent", BASE))


def components(text: str) -> dict[str, dict[str, Any]]:
    return {component["name"]: component for component in json.loads(text)["components"]}


def test_it_follows_the_schema_of_cyclonedx(text: str) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_it_names_what_is_installed_and_nothing_else(text: str) -> None:
    found = {name: component["version"] for name, component in components(text).items()}
    assert found == {"ml_models": "1.0", "fedct_flwr": "0.1.0", "nginx": "1:1.22.1-9+deb12u9"}


def test_a_python_package_has_the_digest_of_its_wheel(text: str, image: Path) -> None:
    for name, version in ("ml_models", "1.0"), ("fedct_flwr", "0.1.0"):
        digest = sha256(image / "wheels" / f"{name}-{version}-py3-none-any.whl")
        assert components(text)[name]["hashes"] == [{"alg": "SHA-256", "content": digest}]


def test_it_says_which_base_was_used(text: str) -> None:
    component = json.loads(text)["metadata"]["component"]
    assert component["properties"] == [{"name": sbom.BASE, "value": BASE}]


# --- the bundle for hospitals without internet; `make test-deploy` makes one of real images and loads it


licences = load_script("licences")
NAMES = ["fedct/agent:latest", "fedct/supernode:latest"]
ENGINE = f"""\
#!{sys.executable}
import sys, pathlib
match sys.argv[1:]:
    case ["image", "inspect", "--format", "{{{{.Id}}}}", name]:
        print("sha256:" + name)
    case ["save", "--output", path, *names]:
        pathlib.Path(path).write_text(" ".join(names))
"""


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `make images` leaves, and a program in Docker's place that knows these images."""
    folder, programs = tmp_path / "sbom", tmp_path / "bin"
    for made in (folder, programs):
        made.mkdir()
    (programs / "docker").write_text(ENGINE)
    (programs / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    (folder / "images.txt").write_text("".join(f"sha256:{name}  {name}\n" for name in [*NAMES, "fedct/demo:latest"]))
    for image in ("agent", "supernode"):
        for form in ("cdx.json", "licences.txt"):
            (folder / f"{image}.{form}").write_text(f"{image} {form}")
    return folder


def test_a_bundle_has_images_checksums_sboms_licences_and_what_was_tried(left: Path, tmp_path: Path) -> None:
    made, command = tmp_path / "out" / "bundle.tar", ["docker/bundle", left, "fedct", "latest"]
    done = subprocess.run([*command, made], cwd=ROOT, check=True, capture_output=True, text=True)
    assert f"SHA-256 {sha256(made)}:" in done.stdout
    subprocess.run([*command, tmp_path / "again.tar"], cwd=ROOT, check=True, capture_output=True)
    assert made.read_bytes() == (tmp_path / "again.tar").read_bytes()
    subprocess.run(["tar", "--extract", "--file", made], cwd=tmp_path, check=True)
    there = tmp_path / "fedct-bundle"
    assert {path.name for path in there.iterdir()} == {
        "fedct-silo.tar", "images.txt", "agent.cdx.json", "supernode.cdx.json", "agent.licences.txt",
        "supernode.licences.txt", "SUPPORTED.md", "hospital.md", "LICENSE", "SHA256SUMS",
    }  # fmt: skip
    assert (there / "fedct-silo.tar").read_text() == " ".join(NAMES)
    assert (there / "images.txt").read_text() == "".join(f"sha256:{name}  {name}\n" for name in NAMES)
    check = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=there, check=False).returncode == 0
    (there / "agent.cdx.json").write_text("another")
    assert subprocess.run(check, cwd=there, check=False, capture_output=True).returncode == 1
    # All files are in the sums, and only the sums themselves are not.
    assert {path.name for path in there.iterdir()} - {
        line.split()[1] for line in (there / "SHA256SUMS").read_text().splitlines()
    } == {"SHA256SUMS"}
    (left / "images.txt").write_text("sha256:another  fedct/agent:latest\n")
    other = subprocess.run([*command, made], cwd=ROOT, check=False, capture_output=True, text=True)
    assert (other.returncode, "run 'make images' again" in other.stderr, made.exists()) == (1, True, False)


def test_each_package_of_the_images_declares_a_licence() -> None:
    """Those of the lock files, as they are installed here."""
    locked = versions("agent", "supernode", "coordinator")
    assert MORE
    normalized = load_script("wheelhouse")._normalized
    found = [licences.licence_of(one) for one in distributions() if normalized(one.metadata["Name"]) in locked]
    assert len(found) > 50
    assert [one.package for one in found if not one.declared] == []
