"""The SuperNode's command line is Flower's, and needs neither records nor study."""

import shlex
import sys

from tests.cli.silos import Fedct, Kit

PROGRAM = ["-P", "-m", "fedct_flwr.hospital.supervisor"]


def options(command: str) -> dict[str, str]:
    words = shlex.split(command)[1 + len(PROGRAM) :]
    assert words.pop().startswith("--status=")
    return dict(zip(words[::2], words[1::2], strict=True))


def test_the_command_is_what_the_settings_say_and_flower_takes_it(fedct: Fedct, kit: Kit) -> None:
    from flwr.supernode.cli.flower_supernode import _parse_args_run_supernode

    (kit.folder / "connection" / "client.crt").touch()
    outcome = fedct("silo", "connect", kit.folder, "--print")
    assert shlex.split(outcome.out)[: 1 + len(PROGRAM)] == [sys.executable, *PROGRAM]
    assert options(outcome.out) == {
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
    # The client's certificate and the last option are our own.
    parsed = _parse_args_run_supernode().parse_args(shlex.split(outcome.out)[5 + len(PROGRAM) : -1])
    assert (parsed.isolation, parsed.port) == ("process", 9094)
