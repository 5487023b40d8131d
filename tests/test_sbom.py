"""What an image's SBOM says: CycloneDX's schema, Python packages with their wheels' digests, Debian's packages."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

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
