"""TOML that is too large or too deep is refused in one sentence, before it costs time or memory."""

import time
import tomllib
from pathlib import Path

import pytest

from fedct_flwr.config.settings import MOST_BYTES, most_parts, read_bounded
from fedct_flwr.config.study import StudyConfig
from fedct_flwr.types import ConfigError
from tests.sentences import sentence


def write(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_takes_the_parser_minutes_and_all_memory_takes_no_time(tmp_path: Path) -> None:
    began = time.process_time()
    said = sentence(
        ConfigError, lambda: StudyConfig.read_toml(write(tmp_path, f'study = "x"\n{"a." * 100_000}b = 1\n'))
    )
    assert time.process_time() - began < 1
    assert str(tmp_path / "study.toml") in said


@pytest.mark.parametrize("text", ['"""\\"""\n', "\"'", "'''\n''\n", '"\\"', '#"""', 'x="""""', '\\\\"""\n'])
def test_no_text_makes_the_look_slow(text: str) -> None:
    began = time.process_time()
    most_parts(text * (MOST_BYTES // len(text)) + "\\")
    assert time.process_time() - began < 3


def test_a_file_that_is_too_long_is_refused_and_not_read_to_its_end(tmp_path: Path) -> None:
    path = write(tmp_path, "# a comment\n")
    with path.open("r+b") as file:
        file.truncate(MOST_BYTES)
    with pytest.raises(tomllib.TOMLDecodeError):
        read_bounded(path)
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(ConfigError, match=f"{MOST_BYTES:,} bytes"):
        StudyConfig.read_toml(path)
