"""A federation in containers, for tests: its own compose project, its own port, gone without a trace afterwards."""

import json
import os
import re
import secrets
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE, eventually

ROOT = Path(__file__).parents[2]
PREFIX = "fedct-test-"
"""Compose projects of tests begin with this and the process's number: `.ci/run` removes what processes that are no
more have left."""
SILOS = ("cleveland", "budapest", "zurich", "long-beach")
COORDINATOR = "/app/coordinator"


class Federation:
    """The containers of one compose project."""

    def __init__(self) -> None:
        self.project = f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._files = ["compose.yaml"]

    def compose(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self._command(*arguments), cwd=ROOT, env=self._environment(), capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=2 * PATIENCE, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done

    def do(self, command: str) -> str:
        """What a command prints that somebody types in the repository's folder."""
        # What the outer make was given is not meant for one within.
        outer = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "ARGS"}
        done = subprocess.run(
            ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL,
            env={name: value for name, value in self._environment().items() if name not in outer} | {"COLUMNS": "80"},
            timeout=2 * PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def start(self, *more_files: str) -> None:
        """All services, healthy; with more compose files, those that differ are started anew."""
        self._files += more_files
        self.compose("up", "--detach", "--wait", "--wait-timeout", str(int(PATIENCE)))

    def remove(self) -> None:
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "3", check=False)

    def execute(self, service: str, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.compose("exec", "--no-TTY", service, *command, check=check)

    def python(self, service: str, code: str, *arguments: str) -> Any:
        """What this code prints in the service, as JSON."""
        return json.loads(self.execute(service, "python", "-c", code, *arguments).stdout)

    def logs(self) -> str:
        states = self.compose("ps", "--all", check=False).stdout
        return states + self.compose("logs", "--no-color", "--tail", "40", check=False).stdout

    def train(self, *arguments: str, during: Callable[[], None] = lambda: None) -> tuple[int, str]:
        """``make run-deployed``: exit code and all that it printed. ``during`` is called once round 2 has ended."""
        command = self._command(
            "exec",
            "--no-TTY",
            "--env",
            "COLUMNS=80",
            "superexec",
            "fedct",
            "coordinator",
            "run",
            COORDINATOR,
            *arguments,
        )
        with subprocess.Popen(
            command, cwd=ROOT, env=self._environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            stdin=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            assert process.stdout
            printed = ""
            for line in process.stdout:
                printed += line
                if line.startswith("round  2"):
                    during()
        return process.returncode, printed

    def container(self, service: str) -> dict[str, Any]:
        """What Docker says about a service's container."""
        number = self.compose("ps", "--all", "--quiet", service).stdout.strip()
        done = subprocess.run(["docker", "inspect", number], capture_output=True, text=True, check=True)
        (facts,) = json.loads(done.stdout)
        return dict(facts)

    def kill(self, service: str) -> None:
        """As the kernel does when memory is short, so Docker starts it again; by hand where that is not allowed."""
        try:
            os.kill(self.container(service)["State"]["Pid"], signal.SIGKILL)
        except (PermissionError, ProcessLookupError):
            self.compose("kill", "--signal", "KILL", service)
            self.compose("start", service)

    def network(self, action: str, service: str, network: str) -> None:
        names = (f"{self.project}_{network}", self.container(service)["Id"])
        subprocess.run(["docker", "network", action, *names], check=True, capture_output=True)

    def services(self) -> list[str]:
        """Those that stay."""
        return sorted(set(self.compose("config", "--services").stdout.split()) - {"demo", "register"})

    def wait_healthy(self) -> None:
        # A SuperNode that was killed ends at every start for up to a minute, as Flower still counts it as there, and
        # Compose gives up waiting as soon as it sees that.
        wait = ("up", "--detach", "--wait", "--wait-timeout", str(int(PATIENCE)))
        eventually(lambda: self.compose(*wait, check=False).returncode == 0)

    def egress(self, silo: str) -> list[dict[str, Any]]:
        """The silo's log of all that left."""
        lines = self.execute(f"agent-{silo}", "cat", "/app/silo/state/egress.jsonl").stdout.splitlines()
        return [json.loads(line) for line in lines]

    def _command(self, *arguments: str) -> list[str]:
        files = [part for file in self._files for part in ("--file", file)]
        return ["docker", "compose", "--ansi", "never", "--progress", "plain", *files, *arguments]

    def _environment(self) -> dict[str, str]:
        own = {"FEDCT_PROJECT": self.project, "FEDCT_PORT": str(self.port), "FEDCT_HEALTH_INTERVAL": "4s"}
        return {**os.environ, **own, "COMPOSE_PROJECT_NAME": self.project}


@contextmanager
def federation() -> Iterator[Federation]:
    """One that is up, and is removed whatever happens."""
    made = Federation()
    try:
        made.start()
        yield made
    except BaseException:
        print(made.logs())
        raise
    finally:
        made.remove()


def rounds_in(printed: str) -> list[int]:
    """How many silos answered, in each round printed."""
    return [int(number) for number in re.findall(r"^round +\d+ +(\d+) silos? sent", printed, re.MULTILINE)]
