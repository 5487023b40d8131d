"""A study's folder whose links and pipes choose what is read: one sentence, nothing read, nothing half-written."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from fedct_flwr.cli.demo import LABEL
from fedct_flwr.datasets import study_folder
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.types import ConfigError
from tests.cli import conftest
from tests.cli.runner import Outcome, files_below
from tests.cli.silos import Fedct
from tests.hospitals import write_silo_folder

fedct, here = conftest.fedct, conftest.here
SECRET = "what no study may hold"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A study from the coordinator and, beside it, what is the hospital's own."""
    source = write_silo_folder(tmp_path / "source").parent
    (source / "own").mkdir()
    (source / "own" / "patients.csv").write_text(SECRET)
    return source


def silo_init(fedct: Fedct, source: Path, folder: str | Path = "silo") -> Outcome:
    given = ("--silo", "x", "--study", source / "study", "--data", source / "data.csv", "--label", LABEL)
    return fedct("silo", "init", folder, *given)


def coordinator_init(fedct: Fedct, source: Path) -> Outcome:
    return fedct("coordinator", "init", "coordinator", "--study", source / "study")


def a_link(path: Path, target: str = "../own/patients.csv") -> None:
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def a_pipe(path: Path) -> None:
    """To open it is to wait for who writes into it."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


PLANTED: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a file of the hospital's": ("notes.csv", a_link),
    "a folder of the hospital's": ("notes", lambda path: a_link(path, "../own")),
    "itself": ("notes", lambda path: a_link(path, "notes")),
    "a file of the study's": ("notes", lambda path: a_link(path, "study.toml")),
    "in a folder within": ("a/b/notes", a_link),
    "in place of the settings": ("study.toml", a_link),
    "in place of the public set": ("public.csv", a_link),
    "a pipe": ("notes", a_pipe),
    "a pipe in place of the settings": ("study.toml", a_pipe),
    "a socket": ("notes", a_socket),
}
"""Where, and what."""


@pytest.mark.parametrize("command", [silo_init, coordinator_init])
@pytest.mark.parametrize("planted", PLANTED)
def test_links_pipes_and_sockets_are_refused_and_nothing_is_made(
    fedct: Fedct, here: Path, source: Path, command: Callable[[Fedct, Path], Outcome], planted: str
) -> None:
    name, plant = PLANTED[planted]
    plant(source / "study" / name)
    outcome = command(fedct, source)
    assert outcome.code == ConfigError.exit_code
    assert "is a link, or neither a file nor a folder" in outcome.sentence
    assert name in outcome.sentence
    assert files_below(here) == []


def test_a_link_that_comes_between_check_and_copy_is_refused(
    fedct: Fedct, here: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = shutil.copytree

    def late(*arguments: object, **options: object) -> object:
        a_link(source / "study" / "notes.csv")
        return original(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(shutil, "copytree", late)
    assert "'notes.csv' in the study" in silo_init(fedct, source).sentence
    assert files_below(here) == []


@pytest.mark.parametrize("command", [silo_init, coordinator_init])
def test_a_folder_without_end_is_one_sentence(
    fedct: Fedct, here: Path, source: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[[Fedct, Path], Outcome]
) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(study_folder, "MOST_ENTRIES", 2)
        assert "is too large" in command(fedct, source).sentence
    with (source / "study" / "huge.csv").open("wb") as file:
        file.truncate(study_folder.MOST_BYTES + 1)
    assert "is too large" in command(fedct, source).sentence
    (source / "study" / "huge.csv").unlink()
    (source / "study" / "/".join("a" * (study_folder.DEEPEST + 2))).mkdir(parents=True)
    assert "is too large" in command(fedct, source).sentence
    assert files_below(here) == []


@pytest.mark.parametrize("name", ["study.toml", "public.csv"])
@pytest.mark.parametrize("plant", [a_link, lambda path: a_link(path, path.name), a_pipe], ids=["out", "circle", "pipe"])
def test_what_is_planted_later_is_refused_by_whoever_reads(
    source: Path, name: str, plant: Callable[[Path], None]
) -> None:
    plant(source / "study" / name)
    with pytest.raises(ConfigError, match=r"leads out of|neither a file|no study\.toml|cannot be read"):
        read_study(source / "study")
