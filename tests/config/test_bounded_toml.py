"""TOML that is too large or too deep is refused in one sentence, before it costs time or memory."""

import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr.config import StudyConfig
from fedct_flwr.config.bounded_toml import MOST_BYTES, MOST_PARTS, TooLargeError, most_parts, read_bounded
from fedct_flwr.types import ConfigError


def write(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


DEEP = "a." * MOST_PARTS + "b"


@pytest.mark.parametrize(
    "text",
    [
        f"{DEEP} = 1",
        f"[{DEEP}]",
        f"[[{DEEP}]]",
        f"x = {{y = 1, {DEEP} = 1}}",
        # Nothing before a key hides it from the look that is taken before the parser's.
        f'x = """a\n"""\n{DEEP} = 1',
        f'x = {{y = """a"""", {DEEP} = 1}}',
        f"x = {{y = '''a''''', {DEEP} = 1}}",
        f'x = "a\\"b"\n{DEEP} = 1',
        f"x = '\"'\n{DEEP} = 1",
        f'x = 1 # """\n{DEEP} = 1',
        f"x = 1 # '\r\n{DEEP} = 1",
        '"a b" . ' * MOST_PARTS + "'c.d' = 1",
    ],
)
def test_a_key_of_too_many_parts_is_refused(tmp_path: Path, text: str) -> None:
    tomllib.loads(text)
    with pytest.raises(TooLargeError, match="parts"):
        read_bounded(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", 1),
        ('a.b."c.d" = "e.f.g.h.i" # j.k.l.m.n', 3),
        ('classes = ["A00.1", "B01.2", "C02.3"]\n' * 9, 1),
        ('x = """a.b.c\n.d.e\\"""."""', 1),
        ("numbers = [0.5, 1.5,\n 2.5]", 2),
    ],
)
def test_points_in_texts_comments_and_lists_are_not_between_parts(text: str, parts: int) -> None:
    assert most_parts(text) == parts


def test_what_takes_the_parser_minutes_and_all_memory_takes_no_time(tmp_path: Path) -> None:
    began = time.process_time()
    with pytest.raises(ConfigError) as caught:
        StudyConfig.read_toml(write(tmp_path, f'study = "x"\n{"a." * 100_000}b = 1\n'))
    assert time.process_time() - began < 1
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "study.toml") in str(caught.value)


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


@given(st.text(alphabet="a.=\"'\\#\n[]{}, ", max_size=60))
def test_the_bound_holds_for_whatever_the_parser_takes(text: str) -> None:
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert depth(found) <= most_parts(text) + text.count("[") + text.count("{")


def depth(value: object) -> int:
    """Tables within each other."""
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=-1)
    return max(map(depth, value), default=0) if isinstance(value, list) else 0
