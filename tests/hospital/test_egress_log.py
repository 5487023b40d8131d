"""The egress log: whatever is done to its files without the key is noticed, and a crash is not taken for tampering."""

import errno
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.hospital import egress_log
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.log_entry import (
    HEAD_FILE,
    LOG_FILE,
    MAX_LINE_BYTES,
    Event,
    LogEntry,
    LogVerdict,
    read_entries,
    verify_log,
)
from fedct_flwr.types import RunError
from tests.sentences import sentence

SILO = "cleveland"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
ENTRY = LogEntry(Event.RELEASED, "heart", "ab" * 32, 7, 1, "hard", 5, 90, "cd" * 32, "ef" * 32)


def write(folder: Path, lines: int = 3, key: Ed25519PrivateKey = KEY, silo: str = SILO) -> list[bytes]:
    with EgressLog.open(folder, silo, key) as log:
        for _ in range(lines):
            log.append(ENTRY)
    return (folder / LOG_FILE).read_bytes().splitlines(keepends=True)


def put(folder: Path, lines: list[bytes]) -> None:
    (folder / LOG_FILE).write_bytes(b"".join(lines))


def verify(folder: Path) -> LogVerdict:
    return verify_log(folder, KEY.public_key(), SILO)


def assert_refused(folder: Path) -> LogVerdict:
    """Verified as not intact, and no agent starts with it, which changes nothing."""
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    verdict = verify(folder)
    assert not verdict.intact
    assert "\n" not in verdict.sentence
    with pytest.raises(RunError, match="fedct silo verify"):
        EgressLog.open(folder, SILO, KEY)
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert {name: after[name] for name in before} == before
    return verdict


def test_a_log_keeps_what_it_was_given(tmp_path: Path) -> None:
    write(tmp_path, 2)
    with EgressLog.open(tmp_path, SILO, KEY) as log:
        third = log.append(LogEntry(Event.APPROVED, details={"policy": {"kinds": ["hard"]}, "name": "Zürich"}))
        entries = list(log.entries())
    assert [entry.number for entry in entries] == [1, 2, 3]
    assert entries[2] == third
    assert (entries[0].study, entries[0].run, entries[0].bytes) == ("heart", 7, 90)
    assert all(entry.time.endswith("+00:00") for entry in entries)
    assert list(read_entries(tmp_path)) == entries
    verdict = verify(tmp_path)
    assert (verdict.intact, verdict.chain.number) == (True, 3)
    assert verdict.sentence.startswith("3 lines")
    put(tmp_path, [b"[1]\n", b"[1]\n"])
    with pytest.raises(RunError, match="line 1 of"):
        list(read_entries(tmp_path))
    # A silo that never ran.
    assert verify(tmp_path / "nowhere").intact
    assert list(read_entries(tmp_path / "nowhere")) == []
    write(tmp_path / "new", 0)
    assert (verify(tmp_path / "new").intact, verify(tmp_path / "new").chain.number) == (True, 0)


def test_only_the_owner_may_read_the_log(tmp_path: Path) -> None:
    write(tmp_path / "state")
    for path in (tmp_path / "state" / LOG_FILE, tmp_path / "state" / HEAD_FILE):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


CHANGES: dict[str, tuple[Callable[[list[bytes]], list[bytes]], int]] = {
    "removed from the middle": (lambda lines: [*lines[:1], *lines[2:]], 2),
    "swapped": (lambda lines: [lines[0], lines[2], lines[1], lines[3]], 2),
    "cut at the end": (lambda lines: lines[:-1], 4),
    "cut in the last line": (lambda lines: [*lines[:-1], lines[-1][:50]], 4),
    "empty line": (lambda lines: [*lines[:2], b"\n", *lines[2:]], 3),
    # Noise is excused as the last line, beyond the head, and nowhere else.
    "noise for a line": (lambda lines: [*lines[:-1], b"\x00" * 700 + b"\n"], 4),
    "noise twice": (lambda lines: [*lines, b"[1]\n", b"[1]\n"], 5),
    "noise and a cut line": (lambda lines: [*lines, b"[1]\n", b"{"], 5),
    "noise before a line": (lambda lines: [*lines, b"[1]\n", lines[2]], 5),
    "a space more": (lambda lines: [lines[0].replace(b",", b", ", 1), *lines[1:]], 1),
    "a key twice": (lambda lines: [lines[0].replace(b"{", b'{"bytes":0,', 1), *lines[1:]], 1),
    "deep enough": (lambda lines: [*lines, b'{"hash":"","signature":"","a":' + b"[" * 900 + b"]" * 900 + b"}\n"], 5),
    "huge": (lambda lines: [*lines, b"x" * (10 * MAX_LINE_BYTES)], 5),
}


@pytest.mark.parametrize(("change", "line"), CHANGES.values(), ids=CHANGES)
def test_whatever_is_done_to_the_lines_is_named(
    change: Callable[[list[bytes]], list[bytes]], line: int, tmp_path: Path
) -> None:
    put(tmp_path, change(write(tmp_path, 4)))
    assert assert_refused(tmp_path).bad_line == line


def test_a_line_of_another_silo_or_another_key_is_named(tmp_path: Path) -> None:
    mine = write(tmp_path / "mine", 1)
    for number, (key, silo, why) in enumerate([(OTHER, SILO, "not signed"), (KEY, "budapest", "another silo")]):
        folder = tmp_path / str(number)
        theirs = write(folder, 2, key, silo)
        assert why in assert_refused(folder).sentence
        put(tmp_path / "mine", [mine[0], theirs[1]])
        verdict = assert_refused(tmp_path / "mine")
        assert verdict.bad_line == 2
        assert why in verdict.sentence


def test_a_missing_head_or_log_is_not_intact(tmp_path: Path) -> None:
    lines = write(tmp_path, 3)
    head = (tmp_path / HEAD_FILE).read_bytes()
    (tmp_path / HEAD_FILE).unlink()
    assert "egress.head is missing" in assert_refused(tmp_path).sentence
    # Nor does it help to leave a single line, as if it were the first, which a crash had cut off from its head.
    put(tmp_path, lines[:1])
    assert_refused(tmp_path)
    (tmp_path / LOG_FILE).unlink()
    (tmp_path / HEAD_FILE).write_bytes(head)
    assert "egress.jsonl is missing" in assert_refused(tmp_path).sentence


def test_an_older_head_does_not_hide_lines_and_a_forged_one_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, 1)
    old = (tmp_path / HEAD_FILE).read_bytes()
    lines = write(tmp_path, 2)
    new = (tmp_path / HEAD_FILE).read_bytes()
    (tmp_path / HEAD_FILE).write_bytes(old)
    assert "older than the log" in assert_refused(tmp_path).sentence
    put(tmp_path, lines[:1])
    # Both files of an earlier day together: nobody can tell, but who wrote down the last hash.
    assert verify(tmp_path).intact
    put(tmp_path, lines)
    forgeries: list[bytes] = [b"", b"\xff\x00", b"[]", b"{}", b"{" * 5000, new.replace(b'"count":3', b'"count":2')]
    for forged in [*forgeries, new.replace(b"cleveland", b"budapest"), b"x" * 10**6]:
        (tmp_path / HEAD_FILE).write_bytes(forged)
        assert "egress.head is damaged" in assert_refused(tmp_path).sentence
    # Of another history of this silo, as long as this one or shorter.
    for length in (3, 2):
        write(tmp_path / str(length), length)
        (tmp_path / HEAD_FILE).write_bytes((tmp_path / str(length) / HEAD_FILE).read_bytes())
        assert assert_refused(tmp_path).sentence == "egress.head does not belong to this log"


def test_a_crash_between_line_and_head_is_mended(tmp_path: Path) -> None:
    write(tmp_path, 2)
    old = (tmp_path / HEAD_FILE).read_bytes()
    write(tmp_path, 1)
    (tmp_path / HEAD_FILE).write_bytes(old)
    assert verify(tmp_path).intact
    assert verify(tmp_path).chain.number == 3
    write(tmp_path, 1)
    assert verify(tmp_path).chain.number == 4
    assert b'"count":4' in (tmp_path / HEAD_FILE).read_bytes()


NOISE = {
    "zeros": b"\x00" * 700 + b"\n",
    "empty": b"\n",
    "no object": b"[1]\n",
    "many digits": b'{"hash":' + b"9" * 6000 + b"}\n",
    "deep": b"[" * 30_000 + b"]" * 30_000 + b"\n",
}


@pytest.mark.parametrize("rest", [b"{", b"\x00" * 700, None, b'{"a":1}', *NOISE.values()])
def test_a_last_line_cut_short_by_a_crash_is_no_tampering_and_is_cut_away(rest: bytes | None, tmp_path: Path) -> None:
    lines = write(tmp_path, 2)
    head = (tmp_path / HEAD_FILE).read_bytes()
    whole = write(tmp_path, 1)[2]
    put(tmp_path, [*lines, rest or whole[:-1]])
    (tmp_path / HEAD_FILE).write_bytes(head)
    verdict = verify(tmp_path)
    assert (verdict.intact, verdict.chain.number) == (True, 2)
    assert "cut short by a crash" in verdict.sentence
    assert len(list(read_entries(tmp_path))) == 2
    write(tmp_path, 1)
    assert verify(tmp_path).chain.number == 3
    assert "cut short" not in verify(tmp_path).sentence


@settings(max_examples=300, derandomize=True)
@given(data=st.data())
def test_no_byte_can_be_changed_and_no_garbage_raises(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "changed"
    if not folder.exists():
        write(folder, 3)
        (folder / "copy").write_bytes((folder / LOG_FILE).read_bytes())
        (folder / "head").write_bytes((folder / HEAD_FILE).read_bytes())
    (folder / HEAD_FILE).write_bytes((folder / "head").read_bytes())
    content = bytearray((folder / "copy").read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    changed = data.draw(st.integers(0, 255).filter(lambda value: value != content[position]))
    content[position] = changed
    (folder / LOG_FILE).write_bytes(content)
    verdict = verify(folder)
    assert not verdict.intact
    assert verdict.bad_line == content[:position].count(b"\n") + 1
    (folder / LOG_FILE).write_bytes(data.draw(st.binary(max_size=200)) + bytes(content))
    (folder / HEAD_FILE).write_bytes(data.draw(st.binary(max_size=200)))
    assert not verify(folder).intact


def test_another_process_is_kept_out_too_and_let_in_when_the_first_is_killed(
    tmp_path: Path, wording: SnapshotAssertion
) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\n"
        "from tests.hospital.test_egress_log import *\n"
        "log = EgressLog.open(Path(sys.argv[1]), SILO, KEY)\n"
        "print('open', flush=True)\n"
        "while True: log.append(ENTRY)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"open"
        assert sentence(RunError, EgressLog.open, tmp_path, SILO, KEY) == wording
        # Verified again and again while it grows.
        for _ in range(20):
            verdict = verify(tmp_path)
            assert verdict.intact, verdict.sentence
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert verify(tmp_path).intact
    lines = verify(tmp_path).chain.number
    assert lines > 1
    write(tmp_path, 1)
    assert verify(tmp_path).chain.number == lines + 1


class Disk:
    """A disk that becomes full: after ``room`` more bytes writing to the log fails, and so it does to the head."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room: int | None = None
        self.head_fails = False
        write, atomically = os.write, egress_log.write_atomically

        def limited(file: int, content: bytes) -> int:
            if self.room is None:
                return write(file, content)
            if self.room == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            done = write(file, content[: self.room])
            self.room -= done
            return done

        def head(path: Path, content: bytes) -> None:
            if self.head_fails:
                raise OSError(errno.ENOSPC, "No space left on device")
            atomically(path, content)

        monkeypatch.setattr(egress_log.os, "write", limited)
        monkeypatch.setattr(egress_log, "write_atomically", head)


@pytest.mark.parametrize("fault", ["no room", "little room", "no room for the head"])
def test_a_full_disk_leaves_the_log_as_it_was_and_the_next_line_goes_on(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    followed: list[LogEntry] = []
    with EgressLog.open(tmp_path, SILO, KEY) as log:
        log.append(ENTRY)
        log.follow(followed.append)
        before = (tmp_path / LOG_FILE).read_bytes()
        disk.room = {"no room": 0, "little room": 100, "no room for the head": None}[fault]
        disk.head_fails = fault == "no room for the head"
        for _ in range(3):
            with pytest.raises(OSError, match="No space"):
                log.append(ENTRY)
            assert (tmp_path / LOG_FILE).read_bytes() == before
            assert verify(tmp_path).chain.number == 1
        disk.room, disk.head_fails = None, False
        assert log.append(ENTRY).number == 2
        assert verify(tmp_path).intact
    assert [entry.number for entry in followed] == [1, 2]
    write(tmp_path, 1)
    assert verify(tmp_path).chain.number == 3


def test_a_failure_that_cannot_be_undone_ends_all_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)

    def fails(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with EgressLog.open(tmp_path, SILO, KEY) as log:
        log.append(ENTRY)
        disk.head_fails = True
        with monkeypatch.context() as patch:
            patch.setattr(egress_log.os, "ftruncate", fails)
            with pytest.raises(OSError, match="No space"):
                log.append(ENTRY)
        disk.head_fails = False
        with pytest.raises(OSError, match="start the agent again"):
            log.append(ENTRY)
    assert len(write(tmp_path, 1)) == 3
    assert verify(tmp_path).intact


@pytest.mark.parametrize("what", ["removed", "replaced", "written to", "cut"])
def test_a_log_that_others_touch_while_it_is_open_takes_no_more_lines(what: str, tmp_path: Path) -> None:
    path = tmp_path / LOG_FILE
    with EgressLog.open(tmp_path, SILO, KEY) as log:
        log.append(ENTRY)
        content = path.read_bytes()
        if what in ("removed", "replaced"):
            path.unlink()
        if what != "removed":
            path.write_bytes({"replaced": content, "written to": content + b"x\n", "cut": b""}[what])
        with pytest.raises(OSError, match=r"changed while|No such file"):
            log.append(ENTRY)
