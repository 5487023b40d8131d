"""A study's folder whose links and pipes choose what is read: one sentence, nothing read, nothing half-written."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from fedct_flwr.cli.demo import LABEL
from fedct_flwr.datasets import study_folder
from fedct_flwr.types import ConfigError
from tests.cli import conftest
from tests.cli.runner import Outcome, files_below
from tests.cli.silos import Fedct, make_kit
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


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


PLANTED: dict[str, Callable[[Path], None]] = {
    "a file of the hospital's": lambda study: (study / "notes.csv").symlink_to("../own/patients.csv"),
    "a folder of the hospital's": lambda study: (study / "notes").symlink_to("../own"),
    "a file of the system's": lambda study: (study / "notes").symlink_to("/etc/hostname"),
    "a device": lambda study: (study / "notes").symlink_to("/dev/zero"),
    "the folder above": lambda study: (study / "notes").symlink_to(".."),
    "the folder itself": lambda study: (study / "notes").symlink_to("."),
    "itself": lambda study: (study / "notes").symlink_to("notes"),
    "nothing": lambda study: (study / "notes").symlink_to("not there"),
    "a file of the study's": lambda study: (study / "notes").symlink_to("study.toml"),
    "in a folder within": lambda study: deep(study).symlink_to("../../../own/patients.csv"),
    "a pipe": lambda study: a_pipe(study / "notes"),
    "a socket": lambda study: a_socket(study / "notes"),
}


def deep(study: Path) -> Path:
    (study / "a" / "b").mkdir(parents=True)
    return study / "a" / "b" / "notes"


@pytest.mark.parametrize("command", [silo_init, coordinator_init])
@pytest.mark.parametrize("planted", PLANTED)
def test_links_pipes_and_sockets_are_refused_and_nothing_is_made(
    fedct: Fedct, here: Path, source: Path, command: Callable[[Fedct, Path], Outcome], planted: str
) -> None:
    PLANTED[planted](source / "study")
    outcome = command(fedct, source)
    assert outcome.code == ConfigError.exit_code
    assert "is a link, or neither a file nor a folder" in outcome.sentence
    assert "notes" in outcome.sentence
    assert files_below(here) == []


@pytest.mark.parametrize("name", ["study.toml", "public.csv"])
@pytest.mark.parametrize("command", [silo_init, coordinator_init])
def test_the_studys_own_files_are_no_links(
    fedct: Fedct, here: Path, source: Path, command: Callable[[Fedct, Path], Outcome], name: str
) -> None:
    (source / "study" / name).rename(source / "own" / name)
    (source / "study" / name).symlink_to(f"../own/{name}")
    assert f"'{name}' in the study" in command(fedct, source).sentence
    assert files_below(here) == []


def test_nothing_is_opened_before_it_is_checked(fedct: Fedct, here: Path, source: Path) -> None:
    """To open a pipe is to wait for who writes into it."""
    (source / "study" / "study.toml").unlink()
    os.mkfifo(source / "study" / "study.toml")
    assert "neither a file nor a folder" in silo_init(fedct, source).sentence
    assert files_below(here) == []


def test_a_link_that_comes_between_check_and_copy_is_refused(
    fedct: Fedct, here: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = shutil.copytree

    def late(*arguments: object, **options: object) -> object:
        PLANTED["a file of the hospital's"](source / "study")
        return original(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(shutil, "copytree", late)
    assert "'notes.csv' in the study" in silo_init(fedct, source).sentence
    assert files_below(here) == []


@pytest.mark.parametrize("command", [silo_init, coordinator_init])
def test_a_folder_without_end_is_one_sentence(
    fedct: Fedct,
    here: Path,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Callable[[Fedct, Path], Outcome],
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
@pytest.mark.parametrize("planted", ["outside", "circle", "pipe"])
def test_what_is_planted_later_is_refused_by_all_who_read(
    fedct: Fedct, tmp_path: Path, name: str, planted: str
) -> None:
    kit = make_kit(fedct, tmp_path)
    path = kit.folder / "study" / name
    path.rename(tmp_path / name)
    if planted == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / name if planted == "outside" else name)
    for command in ("check", "approve"):
        outcome = fedct("silo", command, kit.folder)
        assert outcome.code != 0
        said = " ".join((outcome.out + outcome.err).split())
        assert any(words in said for words in ("leads out of", "neither a file", "no study.toml", "cannot be read")), (
            said
        )
