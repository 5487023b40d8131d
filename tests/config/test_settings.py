"""What all settings have in common: files, tables within tables, paths, and one sentence for every mistake."""

import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.settings import (
    MOST_BYTES,
    OptionalRelativePath,
    RelativePath,
    Settings,
    most_parts,
    read_bounded,
)
from fedct_flwr.config.study import StudyConfig
from fedct_flwr.types import ConfigError
from tests.sentences import sentence


class Inner(Settings):
    num_rounds: int = Field(default=1, ge=1)
    folder: RelativePath = Path("inner")


class Outer(Settings):
    name: str
    file: OptionalRelativePath = None
    state: RelativePath = Path("state")
    inner_table: Inner = Inner()
    free: dict[str, Any] = Field(default_factory=dict)


def test_relative_paths_start_at_the_files_folder_and_absolute_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('name = "a"\nfile = "data/x.csv"\nstate = "/var/state"\n[inner-table]\nfolder = "there"\n')
    settings = Outer.read_toml(path)
    assert settings.file == tmp_path / "data" / "x.csv"
    assert settings.state == Path("/var/state")
    assert settings.inner_table.folder == tmp_path / "there"


def test_a_missing_file_is_named(tmp_path: Path, wording: SnapshotAssertion) -> None:
    assert sentence(ConfigError, Outer.read_toml, tmp_path / "settings.toml") == wording


# --- TOML that is too large or too deep


def study_file(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_takes_the_parser_minutes_and_all_memory_takes_no_time(tmp_path: Path) -> None:
    began = time.process_time()
    said = sentence(
        ConfigError, lambda: StudyConfig.read_toml(study_file(tmp_path, f'study = "x"\n{"a." * 100_000}b = 1\n'))
    )
    assert time.process_time() - began < 1
    assert str(tmp_path / "study.toml") in said


@pytest.mark.parametrize("text", ['"""\\"""\n', "\"'", "'''\n''\n", '"\\"', '#"""', 'x="""""', '\\\\"""\n'])
def test_no_text_makes_the_look_slow(text: str) -> None:
    began = time.process_time()
    most_parts(text * (MOST_BYTES // len(text)) + "\\")
    assert time.process_time() - began < 3


def test_a_file_that_is_too_long_is_refused_and_not_read_to_its_end(tmp_path: Path) -> None:
    path = study_file(tmp_path, "# a comment\n")
    with path.open("r+b") as file:
        file.truncate(MOST_BYTES)
    with pytest.raises(tomllib.TOMLDecodeError):
        read_bounded(path)
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(ConfigError, match=f"{MOST_BYTES:,} bytes"):
        StudyConfig.read_toml(path)
