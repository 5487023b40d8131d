"""A federation as plain processes: SuperLink, SuperExec, and for each silo a SuperNode and an agent, on free ports.

TLS, node authentication, a database and process isolation are on. Every process carries a variable in its environment
by which all of them are found and ended, whoever started them. What exits is started again, as an init system would.
Ports are this process's own, so that test files may run at the same time.
"""

import contextlib
import itertools
import os
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import psutil
from typer.testing import CliRunner, Result

from fedct_flwr.cli.certificates import create_authority
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.coordinator.init import prepare
from fedct_flwr.cli.main import app
from fedct_flwr.config.run import STUDY as STUDY_DATA
from fedct_flwr.flower import superlink
from fedct_flwr.flower.command import BIN, SuperLink, environment
from fedct_flwr.hospital.keys import create_node_key
from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import FedctError
from tests.hospital.agents import SiloOnDisk
from tests.hospitals import HOSPITALS, STUDY, write_study_folder
from tests.marks import MARK, end_all
from tests.patience import PATIENCE, eventually
from tests.processes.relay import Relay

ROOT: Final = Path(__file__).parents[2]
_AGAIN_SECONDS: Final = 1.0
_LONGEST_PAUSE: Final = 32.0
_ASK_SECONDS: Final = 20.0
_TAIL: Final = 3000
# Below the ports from which systems choose: a client that looks for a server which is down may be given its very port.
_FIRST_PORT: Final = 20_000
_PORTS: Final = 100
_SLICES: Final = 90

_Found = TypeVar("_Found")


class SiloFolder(SiloOnDisk):
    """One silo with its SuperNode's key: its folder, approved, and what a test wants to know of it."""

    def __init__(self, folder: Path, name: str, superlink: str, ca: Path, **tables: dict[str, Any]) -> None:
        self.port = free_port()
        connection = {"superlink": superlink, "supernode": f"127.0.0.1:{self.port}"}
        super().__init__(folder, name, connection=connection, **tables)
        create_node_key(self.config.connection.node_key)
        self.config.connection.secret.write_text(secrets.token_hex(32))
        shutil.copyfile(ca, self.config.connection.ca_certificate)

    @property
    def node_key(self) -> Path:
        """Public key of the silo's node."""
        key = self.config.connection.node_key
        return key.with_name(f"{key.name}.pub")

    def released(self, run: int) -> dict[int, str]:
        """SHA-256 of the answer to each round; fails if a round has two."""
        answers: dict[int, str] = {}
        for entry in self.entries(run):
            if entry.event in (Event.RELEASED, Event.REPEATED):
                assert answers.setdefault(entry.round, entry.payload) == entry.payload
        return answers

    def refusals(self, run: int) -> list[str]:
        return [entry.reason for entry in self.entries(run) if entry.event is Event.REFUSED]


class Deployment:
    """All of it, in one folder. A context manager.

    ``learner`` is each silo's, in place of one that a test can hold.
    ``bare``: a SuperLink that knows nobody, and the rest is for the test to start. ``relayed``: silos reach it through
    the ``relays`` that are there for each.
    """

    def __init__(
        self,
        folder: Path,
        silos: Sequence[str] = HOSPITALS,
        *,
        learner: dict[str, Any] | None = None,
        bare: bool = False,
        relayed: bool = False,
    ) -> None:
        self.folder = folder
        self._tables = {"learner": learner} if learner else {}
        self._seeds = itertools.count(1)
        self._bare = bare
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        study = write_study_folder(folder / "study")
        self.coordinator: CoordinatorFolder = prepare(
            folder / "coordinator", ["127.0.0.1"], self.address, study, gateway=self.address
        )[0]
        self.relays = {name: Relay(self.port).__enter__() for name in silos} if relayed else {}
        self.silos = {name: self._silo(name, name) for name in silos}
        for name, silo in self.silos.items():
            shutil.copyfile(silo.node_key, self.coordinator.silos / f"{name}.pub")
        self._mark = secrets.token_hex(8)
        self.environment = {
            **environment(folder / "flwr"),
            MARK: self._mark,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "1",
        }
        (folder / "logs").mkdir()
        (folder / "flwr").mkdir()
        self._wanted: dict[str, list[str]] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.RLock()
        self._ask_again = 0.0
        self._due: dict[str, float] = {}
        self._pause: dict[str, float] = {}
        self._over = threading.Event()
        self.outsiders: list[SiloFolder] = []
        self._keeper = threading.Thread(target=self._keep, daemon=True)

    def __enter__(self) -> Self:
        try:
            self._keeper.start()
            self.start_superlink()
            self.superlink = SuperLink(self.address, self.coordinator.ca).__enter__()
            if not self._bare:
                self.start_superexec()
                for name, silo in self.silos.items():
                    self.superlink.register(silo.node_key, name)
                    self.start_silo(silo)
                self._wait_for_agents()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._keeper.join()
        if hasattr(self, "superlink"):
            self.superlink.__exit__()
        end_all(self._mark)
        for process in self._processes.values():
            process.wait()
        for relay in self.relays.values():
            relay.__exit__()

    def stranger(self, name: str, *, authority: bool = False) -> SiloFolder:
        """A silo whose node is not registered, or that trusts another ``authority`` than the coordinator's."""
        silo = self._silo(name, "cleveland")
        if authority:
            create_authority(silo.config.connection.ca_certificate, self.folder / f"{name}.key")
            self.superlink.register(silo.node_key, name)
        return silo

    def start_superlink(self) -> None:
        """Start it, and wait until it listens."""
        coordinator = self.coordinator
        self.start("superlink", [
            *superlink.COMMAND, "--host", "127.0.0.1", "--port", str(self.port), "--isolation", "process",
            "--enable-supernode-auth", "--ssl-ca-certfile", str(coordinator.ca),
            "--ssl-certfile", str(coordinator.server_certificate), "--ssl-keyfile", str(coordinator.server_key),
            "--database", str(coordinator.state / "state.db"), "--superexec-auth-secret-file", str(coordinator.secret),
        ])  # fmt: skip
        self.wait(lambda: listens(self.port), "the SuperLink")

    def start_superexec(self) -> None:
        self.start("superexec", [
            str(BIN / "flower-superexec"), "--runtime-api-address", self.address,
            "--root-certificates", str(self.coordinator.ca),
            "--superexec-auth-secret-file", str(self.coordinator.secret),
        ])  # fmt: skip

    def start_silo(self, silo: SiloFolder) -> None:
        """Start its SuperNode and its agent."""
        self.start_supernode(silo)
        self.start_agent(silo)

    def start_agent(self, silo: SiloFolder) -> None:
        self.start(f"agent {silo.folder.name}", [str(BIN / "fedct"), "silo", "start", str(silo.folder)])

    def start_supernode(self, silo: SiloFolder) -> None:
        self.start(f"supernode {silo.folder.name}", [str(BIN / "fedct"), "silo", "connect", str(silo.folder)])

    def start_silos(self) -> None:
        """Start all, and wait until all agents hear from their SuperNodes."""
        for silo in self.silos.values():
            self.start_silo(silo)
        self._wait_for_agents()

    def coordinate(self, command: str, *arguments: str | Path) -> Result:
        """``fedct coordinator``, in this process."""
        return CliRunner().invoke(app, ["coordinator", command, str(self.coordinator.path), *map(str, arguments)])

    def start(self, name: str, command: list[str]) -> None:
        """Start a process, and start it again whenever it ends."""
        with self._lock:
            self._wanted[name] = command
            self._spawn(name)

    def send(self, name: str, number: int) -> None:
        """Send a signal to a process, and to what it has started if nothing of it shall go on."""
        with self._lock:
            process = self.process(name)
            started = (
                process.children(recursive=True) if number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT) else []
            )
            for one in (process, *started):
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.send_signal(number)

    def kill(self, name: str) -> None:
        """Kill a process, with all that it has started, as a crash would; it is started again."""
        self.send(name, signal.SIGKILL)

    def stop(self, name: str, number: int = signal.SIGTERM) -> int:
        """Send a signal, and do not start the process again. Returns its exit code."""
        with self._lock:
            self._wanted.pop(name)
            process = self._processes[name]
        process.send_signal(number)
        return process.wait(PATIENCE)

    def begin(self, name: str, **settings: Any) -> tuple[int, RunFolder]:
        """Start a run of ``num_server_rounds`` (2) rounds with all silos. Returns Flower's id and the run's folder."""
        path = self.coordinator.runs / name
        given = {
            "study": STUDY, "data": STUDY_DATA, "data-dir": str(self.coordinator.study), "run-dir": str(path),
            "roster": ",".join(self.silos), "num-server-rounds": 2, "stop-at-fixed-point": False,
            "roster-deadline": PATIENCE, "round-deadline": PATIENCE,
            # Questions of its own: a silo answers what it was asked before with the answer that it has.
            "seed": next(self._seeds),
        }  # fmt: skip
        given |= {key.replace("_", "-"): value for key, value in settings.items()}
        return self.superlink.start(given), RunFolder(path)

    def finish(self, run: int, folder: RunFolder) -> dict[str, Any]:
        """Wait for the end of a run. Returns what the run's folder says of it."""
        self._ask_again = time.monotonic() + _ASK_SECONDS
        self.wait(lambda: (folder.path / "result.json").exists() or self._is_over(run), f"the end of run {run}")
        return folder.read_json("result.json")

    def wait(self, condition: Callable[[], _Found], what: str) -> _Found:
        """What ``condition`` returns as soon as it is true; until then its OSErrors and ValueErrors do not count."""
        try:
            return eventually(condition, what, pause=0.1)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.logs()}") from None

    def logs(self) -> str:
        """The end of what each process has said."""
        return "\n".join(
            f"--- {path.stem}\n{path.read_text('utf-8', 'replace')[-_TAIL:]}"
            for path in sorted((self.folder / "logs").iterdir())
        )

    def log(self, name: str) -> str:
        return (self.folder / "logs" / f"{name}.log").read_text("utf-8", "replace")

    def process(self, name: str) -> psutil.Process:
        return psutil.Process(self._processes[name].pid)

    def _silo(self, name: str, hospital: str) -> SiloFolder:
        address = self.relays[name].address if name in self.relays else self.address
        return SiloFolder(self.folder / "silos" / name, hospital, address, self.coordinator.ca, **self._tables)

    def _wait_for_agents(self) -> None:
        for silo in self.silos.values():
            self.wait(lambda silo=silo: silo.status().get("connected"), f"{silo.name}'s agent")  # type: ignore[misc]

    def _is_over(self, run: int) -> bool:
        # Every question is a process of its own, and it is for runs that fail before they have a folder.
        if time.monotonic() < self._ask_again:
            return False
        self._ask_again = time.monotonic() + _ASK_SECONDS
        try:
            return self.superlink.status(run).startswith("finished")
        except FedctError:
            return False

    def _spawn(self, name: str) -> None:
        with (self.folder / "logs" / f"{name}.log").open("ab") as output:
            self._processes[name] = subprocess.Popen(
                self._wanted[name], env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def _keep(self) -> None:
        while not self._over.wait(_AGAIN_SECONDS):
            with self._lock:
                for name in list(self._wanted):
                    if self._processes[name].poll() is None:
                        continue
                    # Ever more rarely: who is turned away every time would otherwise keep the machine busy.
                    due = self._due.setdefault(name, time.monotonic())
                    if time.monotonic() >= due:
                        self._pause[name] = min(2 * self._pause.get(name, _AGAIN_SECONDS), _LONGEST_PAUSE)
                        self._due[name] = time.monotonic() + self._pause[name]
                        self._spawn(name)


_slice = _FIRST_PORT + os.getpid() % _SLICES * _PORTS
_ports = itertools.cycle(range(_slice, _slice + _PORTS))


def free_port() -> int:
    """One that nobody listens at, and that no other test process on this machine is given soon."""
    return next(port for port in itertools.islice(_ports, _PORTS) if is_free(port))


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: connections that have just ended do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
