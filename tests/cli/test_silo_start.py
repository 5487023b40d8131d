"""The agent and the SuperNode as processes: refused in one sentence, stopped cleanly, with Flower's options."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from fedct_flwr.cli.silo.connect import supernode_command
from fedct_flwr.hospital.approval import withdraw
from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.types import ConfigError
from tests.cli.silos import Fedct, Kit
from tests.patience import PATIENCE, eventually


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda kit: withdraw(kit.state), "revoked, so nothing leaves"),
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
        assert "silo cleveland is ready: about 170 records to train on" in said, said + process.stdout.read()
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


# --- its SuperNode

PROGRAM = ["-P", "-m", "fedct_flwr.hospital.supervisor"]


def test_the_command_is_what_the_settings_say_and_flower_takes_it(kit: Kit) -> None:
    from flwr.supernode.cli.flower_supernode import _parse_args_run_supernode

    (kit.folder / "connection" / "client.crt").touch()
    program, options = (command := supernode_command(kit.config.connection))[:4], command[4:]
    assert program == [sys.executable, *PROGRAM]
    assert dict(zip(options[::2], options[1::2], strict=True)) == {
        "--client-certificate": str(kit.folder / "connection" / "client.crt"),
        "--client-key": str(kit.folder / "connection" / "client.key"),
        "--isolation": "process",
        "--superlink": "localhost:1",
        "--root-certificates": str(kit.folder / "connection" / "ca.crt"),
        "--auth-supernode-private-key": str(kit.folder / "connection" / "node.key"),
        "--superexec-auth-secret-file": str(kit.folder / "connection" / "secret"),
        "--host": "127.0.0.1",
        "--port": "9094",
    }
    # The client's certificate is our own.
    parsed = _parse_args_run_supernode().parse_args(options[4:])
    assert (parsed.isolation, parsed.port) == ("process", 9094)
