"""A file is the old one or the new one, whatever goes wrong."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fedct_flwr.files import JsonLines, unsynced, write_atomically
from fedct_flwr.types import RunError

WRITE_ON_A_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from fedct_flwr.files import write_atomically

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomically(Path(sys.argv[1]), b"new" * 1000)
except OSError as error:
    print(type(error).__name__)
"""


def test_writes_a_new_file_replaces_an_old_one_and_leaves_nothing_else_behind(tmp_path: Path):
    for content in (b"a longer old content", b"new"):
        write_atomically(tmp_path / "file", content)
        assert (tmp_path / "file").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_only_simulations_do_not_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    synced = list[int]()
    monkeypatch.setattr(os, "fsync", synced.append)
    with unsynced():
        write_atomically(tmp_path / "file", b"in a simulation")
        assert not synced
        other = threading.Thread(target=write_atomically, args=(tmp_path / "file", b"in another thread"))
        other.start()
        other.join()
    assert len(synced) == 2, "the file and its folder"
    write_atomically(tmp_path / "file", b"afterwards")
    assert len(synced) == 4


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"old")
    command = [sys.executable, "-c", WRITE_ON_A_FULL_DISK, str(tmp_path / "file")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "OSError\n"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_target_that_cannot_be_replaced_leaves_nothing_behind(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_atomically(tmp_path / "folder", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_content_that_is_no_bytes_leaves_nothing_behind(tmp_path: Path):
    with pytest.raises(TypeError):
        write_atomically(tmp_path / "file", "text")  # type: ignore[arg-type]
    assert not any(tmp_path.iterdir())


def test_a_missing_folder_is_an_os_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError) as caught:
        write_atomically(tmp_path / "missing" / "file", b"content")
    assert caught.value.filename == str(tmp_path / "missing" / "file"), "the file asked for, no temporary one"
    assert caught.value.filename2 is None


def test_readers_never_see_half_a_file(tmp_path: Path):
    path = tmp_path / "file"
    contents = {bytes([c]) * 300_000 for c in b"ab"}
    write_atomically(path, min(contents))
    writers = [
        threading.Thread(target=lambda c=content: [write_atomically(path, c) for _ in range(10)])
        for content in contents
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert path.read_bytes() in contents
    for writer in writers:
        writer.join()
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


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
    [
        "no json",
        "[1]",
        "3",
        '{"number": 1}',
        '{"round": "x"}',
        '{"round": Infinity}',
        '{"round": 1e30}',
        "[" * 100_000,
        b"\xff",
    ],
)
def test_a_damaged_file_is_said_again_and_again(path: Path, line: str | bytes) -> None:
    path.write_bytes(b'{"round": 1}\n%b\n' % (line if isinstance(line, bytes) else line.encode()))
    log = JsonLines(path, "write it by hand")
    for _ in range(2):
        with pytest.raises(RunError, match=r"rounds\.jsonl is damaged: write it by hand$"):
            log.records()


def test_what_cannot_be_read_is_said(path: Path) -> None:
    path.mkdir()
    with pytest.raises(RunError, match=r"cannot read .*rounds\.jsonl: Is a directory"):
        JsonLines(path).records()
