"""The folder of ``make hub``: Flower makes an app of all of it, which loads."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from flwr.cli.build import build_fab_from_files

from tests.patience import PATIENCE
from tests.wheelhouses import load_script

APPS = ("client_app/main.py", "server_app/main.py", "fedct_flwr/__init__.py")
LOADED = "import client_app.main as a, server_app.main as b, fedct_flwr as c; print(a.__file__, b.__file__, c.__file__)"


# Flower's, when it looks for files.
@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
def test_flower_takes_all_of_it_and_its_apps_load(tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    load_script("hub").write(hub, "an-account")
    assert 'publisher = "an-account"' in (hub / "pyproject.toml").read_text("utf-8")
    files = {str(path.relative_to(hub)): path.read_bytes() for path in hub.rglob("*") if path.is_file()}
    bundle, about = build_fab_from_files(files)
    assert about.fab_format_version == 1
    assert set(zipfile.ZipFile(io.BytesIO(bundle)).namelist()) == {*files, ".info/CONTENT"}
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=tmp_path, env={"PYTHONPATH": str(hub)},
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.stdout.split() == [str(hub / name) for name in APPS], done.stderr
