"""The agent as a process of its own: refused in one sentence, and stopped cleanly."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from fedct_flwr.hospital.approval import revoke
from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.types import ConfigError
from tests.cli.silos import Fedct, Kit
from tests.patience import PATIENCE, eventually


def revoke_it(kit: Kit) -> None:
    with kit.log() as log:
        revoke(log)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (revoke_it, "nothing is approved"),
        (lambda kit: kit.edit("max-rounds = 100", "max-rounds = 200"), "have changed"),
        (lambda kit: kit.edit("epsilon = 1.0", "epsilon = 0.1"), "epsilon has no effect"),
    ],
)
def test_what_is_not_approved_does_not_start(
    fedct: Fedct, approved_kit: Kit, spoil: Callable[[Kit], None], said: str
) -> None:
    spoil(approved_kit)
    outcome = fedct("silo", "start", approved_kit.folder)
    assert (outcome.code, said in outcome.sentence) == (ConfigError.exit_code, True)


@contextmanager
def started(kit: Kit) -> Iterator[subprocess.Popen[str]]:
    """``fedct silo start`` in a process of its own; it has said that it is ready."""
    code = "from fedct_flwr.cli.main import run; run()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "silo", "start", str(kit.folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert "silo cleveland is ready" in said, said + process.stdout.read()
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_ends_it_in_order(fedct: Fedct, approved_kit: Kit, number: signal.Signals) -> None:
    kit = approved_kit
    kit.edit("127.0.0.1:9094", "127.0.0.1:1")
    with started(kit) as process:
        eventually(lambda: "process" in fedct("silo", "status", kit.folder).out, "the agent's status", pause=0.1)
        assert "waits for its SuperNode" in fedct("silo", "status", kit.folder).out
        assert fedct("silo", "status", kit.folder, "--healthy").code == 1
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        assert process.stdout is not None
        assert process.stdout.read().rstrip().endswith("stopped")
    assert "not at work" in fedct("silo", "status", kit.folder).out
    assert fedct("silo", "verify", kit.folder).code == 0
    assert kit.events == [Event.APPROVED, Event.OPENED]
