"""The reaper of a coordinator's parts: nothing of a part is left, whichever process dies first."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from fedct_flwr.cli.coordinator import reaper

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the reaper is for Linux")

REAPED = [sys.executable, "-I", "-S", str(reaper.__file__)]
LEAVES_ONE = "setsid sleep 600 & echo $!;"
"""Like a bubblewrap that is still starting: its inner process has not asked to die with the outer one."""
STARTS_TWO = """
import sys, time
from pathlib import Path
from fedct_flwr.cli.coordinator.confined import Program, Running

running = [Running(Program(name, ["true"], 49_997), Path(sys.argv[1]), print) for name in ("first", "second")]
time.sleep(600)
"""


def assert_ended(*pids: int) -> None:
    processes = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            processes.append(psutil.Process(pid))
    _, left = psutil.wait_procs(processes, timeout=20)
    assert [one for one in left if one.status() != psutil.STATUS_ZOMBIE] == []


def test_what_a_command_leaves_behind_ends_with_it() -> None:
    with subprocess.Popen(
        [*REAPED, "/bin/sh", "-c", f"{LEAVES_ONE} exit 3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.wait(60) == 3
        assert process.stdout
        assert not psutil.pid_exists(int(process.stdout.read()))


def test_a_command_ends_with_standard_input_and_all_that_it_started() -> None:
    with subprocess.Popen(
        [*REAPED, "/bin/sh", "-c", f"{LEAVES_ONE} wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        pid = int(process.stdout.readline())
        process.stdin.close()
        assert process.wait(60) == 128 + signal.SIGKILL
        assert not psutil.pid_exists(pid)


def test_it_ends_as_well_if_standard_input_has_ended_before() -> None:
    done = subprocess.run([*REAPED, "/bin/sleep", "600"], stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert done.returncode == 128 + signal.SIGKILL


def test_a_signal_ends_the_command_and_not_the_reaper() -> None:
    command = "kill -TERM $PPID; kill -HUP $PPID; kill -INT $PPID; kill -TERM $$"
    with subprocess.Popen([*REAPED, "/bin/sh", "-c", command], stdin=subprocess.PIPE) as process:
        assert process.wait(60) == 128 + signal.SIGTERM


def test_a_killed_coordinator_leaves_nothing_of_a_part_that_was_just_starting(tmp_path: Path) -> None:
    bubblewrap = tmp_path / "bwrap"
    bubblewrap.write_text(f"#!/bin/sh\n{LEAVES_ONE} wait\n", "utf-8")
    bubblewrap.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, "-u", "-c", STARTS_TWO, str(tmp_path)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    ) as process:  # fmt: skip
        assert process.stdout
        said = [process.stdout.readline() for _ in range(2)]
        tree = [one.pid for one in psutil.Process(process.pid).children(recursive=True)]
        process.kill()
        process.wait()
    assert {int(line.split()[1]) for line in said} < {*tree}
    assert_ended(*tree)
