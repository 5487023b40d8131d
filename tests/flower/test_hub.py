"""The folder of ``make hub``: Flower's own ``flwr app publish`` uploads it, and what it uploads is an app that runs."""

import importlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import IO

import pytest
from flwr.cli.auth_plugin.oidc_cli_plugin import OidcCliPlugin
from flwr.cli.build import build_fab_from_files
from requests import Response

from tests.patience import PATIENCE
from tests.wheelhouses import load_script

# The package has a function of the same name.
FLOWER = importlib.import_module("flwr.cli.app_cmd.publish")
APPS = ("client_app/main.py", "server_app/main.py", "fedct_flwr/__init__.py")
LOADED = "import client_app.main as a, server_app.main as b, fedct_flwr as c; print(a.__file__, b.__file__, c.__file__)"


class _Account(OidcCliPlugin):
    def load_tokens(self) -> None:
        self.access_token = "token"


# Flower's, when it looks for files.
@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
def test_flower_uploads_all_of_it_and_its_apps_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub, uploaded = tmp_path / "hub", dict[str, bytes]()

    def post(form: list[tuple[str, tuple[str, IO[bytes], str]]], _: str) -> Response:
        uploaded.update({name: file.read() for _, (name, file, _) in form})
        done = Response()
        done.status_code = 200
        return done

    monkeypatch.setattr(FLOWER, "load_cli_auth_plugin_from_connection", _Account)
    monkeypatch.setattr(FLOWER, "_post_files", post)
    load_script("hub").write(hub, "an-account")
    FLOWER.publish(hub)
    assert {hub / name for name in uploaded} == {path for path in hub.rglob("*") if path.is_file()}
    assert 'publisher = "an-account"' in uploaded["pyproject.toml"].decode()
    # As the Hub does with what it gets.
    bundle, about = build_fab_from_files(uploaded)
    assert about.fab_format_version == 1
    assert set(zipfile.ZipFile(io.BytesIO(bundle)).namelist()) == {*uploaded, ".info/CONTENT"}
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=tmp_path, env={"PYTHONPATH": str(hub)},
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.stdout.split() == [str(hub / name) for name in APPS], done.stderr
