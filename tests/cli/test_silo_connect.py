"""The SuperNode's command line is Flower's, and needs neither records nor study."""

import sys

from fedct_flwr.cli.silo.connect import supernode_command
from tests.cli.silos import Kit

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
