"""Commands start in environments that others have set: warnings as errors, a locale without umlauts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedct_flwr.cli.demo import LABEL
from tests.hospitals import write_silo_folder

FEDCT = Path(sys.executable).with_name("fedct")


def started(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FEDCT, *map(str, words)], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )


def test_warnings_as_errors_are_about_other_code() -> None:
    assert started("--version", PYTHONWARNINGS="error").returncode == 0


@pytest.mark.parametrize("coerced", ["0", "1"])
def test_a_folder_with_an_umlaut_is_read_in_any_locale(tmp_path: Path, coerced: str) -> None:
    silo, folder = write_silo_folder(tmp_path / "silo").parent, tmp_path / "Übung"
    folder.mkdir()
    shutil.copyfile(silo / "test.csv", folder / "a.csv")
    shutil.copyfile(silo / "data.csv", folder / "b.csv")
    public = next((silo / "study").glob("public*"))
    shutil.copyfile(public, folder / public.name)
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": coerced}
    found = started("inspect", folder, "--label", LABEL, **plain)
    assert "cannot read" not in found.stdout + found.stderr
    assert "nothing refused" in found.stdout
