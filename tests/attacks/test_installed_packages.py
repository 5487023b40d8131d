"""Somebody changes what will be installed: a wheel of the wheelhouse, its record, or files of an installed package.

pip runs for real, with the options that the Dockerfile gives it.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.readme import ROOT
from tests.wheelhouses import load_script, sha256, write_wheel, write_wheelhouse

pytestmark = pytest.mark.slow

EVIL = "EVIL = True"
DOCKERFILE = re.sub(r" \\\n *", " ", (ROOT / "docker" / "Dockerfile").read_text("utf-8"))
INSTALLS = re.findall(r"--mount=from=(\w+),target=/wheels .*?/pip --python \S+ install (.*)", DOCKERFILE)
"""Where each step of the Dockerfile takes wheels from, and the options that it gives pip."""
FOLDERS = {"dependencies": ".", "project": "project", "tools": "tools", "more": "coordinator"}
WHEELS = {
    "dependencies": "models-1.0",
    "project": "project/fedct_flwr-0.1.0",
    "more": "coordinator/pages-1.0",
    "tools": "tools/describer-1.0",
}


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """docker/wheelhouse.py, with lock files of its own."""
    module = load_script("wheelhouse")
    monkeypatch.setattr(module, "LOCKS", tmp_path / "locks")
    return module


@pytest.fixture
def folder(script: ModuleType, tmp_path: Path) -> Path:
    """A wheelhouse as it was collected."""
    write_wheelhouse(tmp_path / "wheels", tmp_path / "locks")
    assert script.record(tmp_path / "wheels") == []
    return tmp_path / "wheels"


def install(folder: Path, place: str, options: str) -> tuple[int, str, Path]:
    """Do what a step of the Dockerfile does. Returns pip's exit code, what it said, and where it installs."""
    target = folder.parent / "installed"
    shutil.rmtree(target, ignore_errors=True)
    # As the step's mount has it: wheels and lists in one folder.
    mount = folder.parent / "mount"
    shutil.rmtree(mount, ignore_errors=True)
    shutil.copytree(folder / FOLDERS[place], mount)
    for name in ("extras.txt", "project.txt"):
        shutil.copy(folder / name, mount)
    options = options.replace("/wheels", str(mount)).replace("/locks", str(folder.parent / "locks"))
    options = options.replace(f"{mount}/*.whl", " ".join(map(str, mount.glob("*.whl"))))
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--target", str(target), *options.split()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr, target


@pytest.mark.parametrize(("place", "options"), INSTALLS)
def test_what_was_collected_installs_and_a_changed_wheel_does_not(place: str, options: str, folder: Path) -> None:
    code, said, target = install(folder, place, options)
    assert code == 0, said
    assert list(target.glob("*.py"))
    name = WHEELS[place]
    package, _, version = name.rpartition("/")[2].partition("-")
    write_wheel((folder / name).parent, package, version, code=EVIL)
    code, said, target = install(folder, place, options)
    assert code != 0
    assert "DO NOT MATCH THE HASHES" in said
    assert not any(EVIL in path.read_text("utf-8") for path in target.rglob("*.py"))


def change_wheel(folder: Path) -> None:
    write_wheel(folder, "models", code=EVIL)


def change_wheel_and_record(folder: Path) -> None:
    before = sha256(folder / "models-1.0-py3-none-any.whl")
    change_wheel(folder)
    after = sha256(folder / "models-1.0-py3-none-any.whl")
    path = folder / "SHA256SUMS"
    path.write_text(path.read_text("utf-8").replace(before, after), "utf-8")


def add_wheel(folder: Path) -> None:
    write_wheel(folder, "evil", code=EVIL)


def add_hidden_wheel(folder: Path) -> None:
    add_wheel(folder)
    (folder / "evil-1.0-py3-none-any.whl").rename(folder / ".evil-1.0-py3-none-any.whl")


def drop_line(folder: Path) -> None:
    path = folder / "SHA256SUMS"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "nginx" not in line), "utf-8")
    (folder / "nginx" / "nginx_1.22_all.deb").write_text(EVIL)


def drop_wheel(folder: Path) -> None:
    (folder / "trees-1.0-py3-none-any.whl").unlink()


def link_wheel(folder: Path) -> None:
    path = folder / "trees-1.0-py3-none-any.whl"
    path.rename(folder.parent / path.name)
    path.symlink_to(folder.parent / path.name)


def change_list(folder: Path) -> None:
    (folder / "extras.txt").write_text(f"evil==1.0 --hash=sha256:{'0' * 64}\n")


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        (change_wheel, "is not the file that was recorded"),
        (change_wheel_and_record, "is not a file that docker/locks names for models"),
        (add_wheel, "is not in SHA256SUMS"),
        (add_hidden_wheel, "is not in SHA256SUMS"),
        (drop_line, "is not in SHA256SUMS"),
        (drop_wheel, "is missing"),
        (link_wheel, "is a link"),
        (change_list, "does not list the wheels that are there"),
    ],
)
def test_a_changed_wheelhouse_is_refused(
    attack: Callable[[Path], None], said: str, folder: Path, script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(["verify", str(folder)]) == 0
    capsys.readouterr()
    attack(folder)
    assert script.main(["verify", str(folder)]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("attack", [change_wheel, add_wheel, link_wheel])
def test_a_changed_wheelhouse_is_not_recorded(attack: Callable[[Path], None], folder: Path, script: ModuleType) -> None:
    before = (folder / "SHA256SUMS").read_bytes()
    attack(folder)
    assert script.main(["record", str(folder)]) == 1
    assert (folder / "SHA256SUMS").read_bytes() == before


def test_changed_files_of_installed_packages_are_found(folder: Path, script: ModuleType) -> None:
    # What the Dockerfile installs for the agent.
    target = folder.parent / "site-packages"
    for step, options in INSTALLS[1:3]:
        code, said, installed = install(folder, step, options)
        assert code == 0, said
        shutil.copytree(installed, target, dirs_exist_ok=True)
    assert script.main(["installed", str(folder), str(target)]) == 0
    for name, text, wrong in (
        ("models.py", EVIL, "models.py is not the file of its wheel"),
        ("evil.py", EVIL, f"evil.py is in no wheel of {folder}"),
        ("evil.pth", "import evil", f"evil.pth is in no wheel of {folder}"),
        ("evil-1.0.dist-info/METADATA", "", f"evil 1.0 comes from no wheel of {folder}"),
        ("fedct_flwr.py", None, "fedct_flwr.py is missing"),
    ):
        changed = folder.parent / f"with {name.replace('/', ' ')}"
        path = changed / name
        shutil.copytree(target, changed)
        path.parent.mkdir(exist_ok=True)
        path.unlink() if text is None else path.write_text(text)
        assert any(wrong in line for line in script.installed(folder, changed)), name
        assert script.main(["installed", str(folder), str(changed)]) == 1
