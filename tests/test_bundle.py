"""The bundle for hospitals without internet. `make test-deploy` makes one of real images and loads it."""

import os
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.readme import ROOT
from tests.test_locks import MORE, versions
from tests.wheelhouses import load_script, sha256

pytestmark = pytest.mark.slow

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
def sbom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


def test_a_bundle_has_images_checksums_sboms_licences_and_what_was_tried(sbom: Path, tmp_path: Path) -> None:
    made, command = tmp_path / "out" / "bundle.tar", ["docker/bundle", sbom, "fedct", "latest"]
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
    (sbom / "images.txt").write_text("sha256:another  fedct/agent:latest\n")
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
