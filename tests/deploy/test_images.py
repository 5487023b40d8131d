"""What is in the images: what their SBOMs say, the files of the wheelhouse's wheels, and nothing that was changed."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.federation import ROOT
from tests.readme import shown
from tests.wheelhouses import load_script, sha256, write_wheel

pytestmark = pytest.mark.deploy

IMAGES = os.environ.get("FEDCT_IMAGES", "fedct")
TAG = os.environ.get("FEDCT_TAG", "latest")
SBOM = ROOT / "build" / "sbom"
WHEELHOUSE = ROOT / "build" / "wheelhouse"
LOCKS = {
    "superlink": ("agent", "extras", "coordinator"),
    "supernode": ("supernode",),
    "agent": ("agent", "extras"),
    "demo": ("agent", "extras"),
}
wheelhouse = load_script("wheelhouse")


def docker(*arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=600, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done


def sbom(image: str) -> dict[str, Any]:
    return dict(json.loads((SBOM / f"{image}.cdx.json").read_text("utf-8")))


@pytest.fixture(scope="module", params=sorted(LOCKS))
def image(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def site_packages(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What is installed in an image, taken out of it without running anything of it."""
    installed = tmp_path_factory.mktemp(image) / "installed"
    container = docker("create", f"{IMAGES}/{image}:{TAG}").stdout.strip()
    try:
        docker("cp", f"{container}:/venv/lib/python3.11/site-packages", installed)
    finally:
        docker("rm", container)
    yield installed
    shutil.rmtree(installed)


def test_an_image_has_the_files_of_the_wheels_and_no_others(site_packages: Path) -> None:
    assert wheelhouse.installed(WHEELHOUSE, site_packages) == []


def test_an_sbom_names_what_is_installed_with_digests_of_the_lock_file(image: str, site_packages: Path) -> None:
    described = {
        wheelhouse.Pin(re.sub(r"[-_.]+", "-", component["name"]).lower(), component["version"]): component["hashes"]
        for component in sbom(image)["components"]
        if not component["bom-ref"].startswith("pkg:deb/")
    }
    assert described.keys() == {wheelhouse.pin_of(path) for path in site_packages.glob("*.dist-info")}
    locked = wheelhouse.locked(*LOCKS[image])
    for pin, hashes in described.items():
        (digest,) = (one["content"] for one in hashes)
        assert pin.name == "fedct-flwr" or digest in locked[pin], pin


def test_the_pages_commands_look_into_an_image_and_its_sbom(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "verify_installation.md").read_text("utf-8")
    for name in ("build", "docker"):
        (tmp_path / name).symlink_to(ROOT / name)
    name = f"looked-at-{os.getpid()}"
    look = shown("<!-- look into an image -->", "sh", page).replace("looked-at", name)
    done = run(look.replace("fedct/agent", f"{IMAGES}/agent:{TAG}"), tmp_path)
    assert done.returncode == 0, done.stderr
    compared = run(shown("<!-- compare an SBOM with the lock file -->", "sh", page), tmp_path)
    (digest,) = compared.stdout.split()
    assert digest in (WHEELHOUSE / "project.txt").read_text("utf-8")


def run(commands: str, here: Path) -> subprocess.CompletedProcess[str]:
    bash = ["bash", "-e", "-c", commands]
    return subprocess.run(bash, cwd=here, capture_output=True, text=True, timeout=600, check=False)


def test_the_digests_of_base_and_images_are_recorded() -> None:
    recorded = dict(reversed(line.split()) for line in (SBOM / "images.txt").read_text("utf-8").splitlines())
    for name, identity in recorded.items():
        assert docker("image", "inspect", "--format", "{{.Id}}", name).stdout.strip() == identity
        (base,) = sbom(name.partition(":")[0].rpartition("/")[2])["metadata"]["component"]["properties"]
        assert re.search(r" \S*sha256:[0-9a-f]{64}$", base["value"])
    assert len(recorded) == 5
    for line in (SBOM / "SHA256SUMS").read_text("utf-8").splitlines():
        digest, name = line.split()
        assert sha256(SBOM / name) == digest


def test_no_image_is_built_from_a_changed_wheel(tmp_path: Path) -> None:
    for name in (".dockerignore", "docker"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    # Links to files cost no time; the changed wheel is a file of its own.
    shutil.copytree(WHEELHOUSE, tmp_path / "build" / "wheelhouse", copy_function=os.link)
    (changed,) = (tmp_path / "build" / "wheelhouse").glob("flwr-*.whl")
    changed.unlink()
    write_wheel(changed.parent, "flwr", wheelhouse.pin_of(changed).version)
    done = docker(
        "build", "--network", "none", "--file", tmp_path / "docker" / "Dockerfile", "--target", "supernode",
        "--progress", "plain", tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stdout + done.stderr


def test_a_bundle_loads_the_images_that_it_describes(tmp_path: Path) -> None:
    subprocess.run(["docker/bundle", SBOM, IMAGES, TAG, tmp_path / "fedct-bundle.tar"], cwd=ROOT, check=True)
    page = (ROOT / "docs" / "verify_installation.md").read_text("utf-8")
    done = run(shown("<!-- load a bundle -->", "sh", page), tmp_path)
    assert done.returncode == 0, done.stderr
    there = tmp_path / "fedct-bundle"
    for line in (there / "images.txt").read_text("utf-8").splitlines():
        identity, name = line.split()
        assert f"Loaded image: {name}" in done.stdout
        assert docker("image", "inspect", "--format", "{{.Id}}", name).stdout.strip() == identity
    for image in ("agent", "supernode"):
        text = (there / f"{image}.licences.txt").read_text("utf-8")
        assert re.search(r"^flwr \S+: Apache-2.0$", text, re.MULTILINE)
