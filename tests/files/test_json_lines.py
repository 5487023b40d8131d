"""Files that grow by lines, read as they grow."""

from pathlib import Path

import pytest

from fedct_flwr.files.json_lines import JsonLines
from fedct_flwr.types import RunError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rounds.jsonl"


def add(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def test_each_line_is_read_once_and_only_when_it_is_whole(path: Path) -> None:
    log = JsonLines(path)
    assert log.records() == []
    add(path, '{"round": 1, "who": "é"}\n{"round": 2')
    assert log.records() == [{"round": 1, "who": "é"}]
    assert log.records() == []
    add(path, "}\n")
    assert log.records() == [{"round": 2}]


def test_a_file_that_is_written_anew_is_read_anew(path: Path) -> None:
    log = JsonLines(path)
    add(path, '{"round": 1}\n{"round": 2}\n')
    assert (len(log.news().lines), log.news()) == (2, ([], False))
    (path.parent / "other").write_text('{"round": 1}\n{"round": 2}\n{"round": 3}\n')
    (path.parent / "other").replace(path)
    lines, anew = log.news()
    assert (len(lines), anew) == (3, True)
    path.write_text('{"round": 1}\n')
    assert log.news() == ([b'{"round": 1}'], True)
    path.unlink()
    assert log.news() == ([], True)


@pytest.mark.parametrize(
    "line",
    ["no json", "[1]", "3", '{"number": 1}', '{"round": "x"}', '{"round": Infinity}', '{"round": 1e30}', "[" * 100_000],
)
def test_a_damaged_file_is_said_again_and_again(path: Path, line: str) -> None:
    add(path, f'{{"round": 1}}\n{line}\n')
    log = JsonLines(path, "write it by hand")
    for _ in range(2):
        with pytest.raises(RunError, match=r"rounds\.jsonl is damaged: write it by hand$"):
            log.records()


def test_bytes_that_are_no_text_are_damage(path: Path) -> None:
    path.write_bytes(b'{"round": 1, "who": "\xff"}\n')
    with pytest.raises(RunError, match="is damaged"):
        JsonLines(path).records()


def test_what_cannot_be_read_is_said(path: Path) -> None:
    path.mkdir()
    with pytest.raises(RunError, match=r"cannot read .*rounds\.jsonl: Is a directory"):
        JsonLines(path).records()
