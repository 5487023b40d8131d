"""A silo with its agent at work, in a thread or as a process, and the real API of its SuperNode."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.agent import run_agent
from fedct_flwr.hospital.agent_status import STATUS_FILE
from fedct_flwr.hospital.approval import approve
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.keys import create_egress_key, load_egress_key, load_public_key, public_key_path
from fedct_flwr.hospital.log_entry import Event, LogEntry, read_entries, verify_log
from fedct_flwr.types import HardLabels, Refusal
from fedct_flwr.wire.codec import decode_reply, encode_instruction
from fedct_flwr.wire.content import Instruction, Query
from fedct_flwr.wire.messages import from_record, to_record
from tests.hospital.runtime_api import RuntimeApi, secret_file
from tests.hospitals import write_silo_folder
from tests.patience import PATIENCE, eventually
from tests.silo.held import held_in


class OnDisk:
    """A silo's folder, as people at the silo look into it."""

    name: str
    config: Any

    def status(self) -> dict[str, Any]:
        path = self.config.state / STATUS_FILE
        return json.loads(path.read_text()) if path.exists() else {}

    def entries(self, run: int | None = None) -> list[LogEntry]:
        """The lines of the egress log, proven."""
        verdict = verify_log(self.config.state, load_public_key(public_key_path(self.config.egress_key)), self.name)
        assert verdict.intact, verdict.sentence
        return [entry for entry in read_entries(self.config.state) if run is None or entry.run == run]

    def of(self, event: Event) -> list[LogEntry]:
        return [entry for entry in self.entries() if entry.event is event]


class InThread:
    """An agent at work in a thread: what it ``said``, and how to ``stop`` it."""

    agent: threading.Thread | None = None

    def start_agent(self, file: Path) -> None:
        self.said, self.stop = list[str](), threading.Event()
        self.agent = threading.Thread(
            target=run_agent, args=(file,), kwargs={"stop": self.stop, "say": self.said.append}
        )
        self.agent.start()
        eventually(lambda: any("ready" in said for said in self.said) or not self.agent.is_alive())

    def end_agent(self) -> None:
        if self.agent:
            self.stop.set()
            self.agent.join()


class SiloOnDisk(OnDisk):
    """A silo's folder, complete, whose training a test can hold up."""

    def __init__(self, folder: Path, name: str = "cleveland", *, approved: bool = True, **tables: Any) -> None:
        self.name, self.folder = name, folder
        self.file = write_silo_folder(folder, name, **{"learner": held_in(folder), **tables})
        self.config = SiloConfig.read_toml(self.file)
        create_egress_key(self.config.egress_key)
        self.study = read_study(self.config.study)
        if approved:
            with EgressLog.open(self.config.state, name, load_egress_key(self.config.egress_key)) as log:
                approve(log, self.config, self.study)

    def hold(self) -> None:
        """Let training take until ``go``."""
        (self.folder / "hold").touch()

    def go(self) -> None:
        (self.folder / "hold").unlink(missing_ok=True)

    def is_training(self) -> bool:
        return (self.folder / "training").exists()


class Silo(SiloOnDisk, InThread):
    """One silo, its SuperNode's API, and its agent, in a thread or as a process."""

    def __init__(self, folder: Path, approved: bool = True, **tables: dict[str, Any]) -> None:
        self.api = RuntimeApi()
        (folder / "connection").mkdir(parents=True)
        secret_file(folder / "connection")
        super().__init__(folder, approved=approved, connection={"supernode": self.api.address}, **tables)
        self.terms = self.study.terms
        self.said: list[str] = []
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.start_agent(self.file)

    def start_process(self) -> subprocess.Popen[str]:
        code = """
import sys
from pathlib import Path
from fedct_flwr.hospital import agent
agent._GRACE_SECONDS = float(sys.argv[2])
agent.start_agent(Path(sys.argv[1]), print)
"""
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", code, str(self.file), str(PATIENCE)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        return self.process

    def end(self) -> None:
        if self.agent:
            self.stop.set()
        self.go()
        self.end_agent()

    def close(self) -> None:
        self.end()
        if self.process:
            self.process.kill()
            self.process.communicate()
        self.api.close()

    def instruction(self, number: int = 1, label: int = -1) -> Instruction:
        targets = np.full(self.terms.num_public, label, dtype=np.int16)
        return Instruction(number, Query(0, self.terms.num_public), targets)

    def ask(self, number: int = 1, run: int = 1, label: int = -1) -> None:
        self.api.ask(to_record(encode_instruction(self.instruction(number, label), self.terms)), run)

    def reply(self) -> bytes:
        return from_record(self.api.reply().content)

    def outcome(self, number: int = 1) -> HardLabels | Refusal:
        return decode_reply(self.reply(), self.terms, self.instruction(number)).outcome

    def training(self) -> None:
        eventually(self.is_training)

    def leftovers(self) -> list[str]:
        return [path.name for path in self.config.state.iterdir() if path.name.startswith(".")]


Make = Callable[..., Silo]


@contextmanager
def silos_in(folder: Path) -> Iterator[Make]:
    """Makes silos in this folder, and ends their agents afterwards."""
    made: list[Silo] = []

    def make(**options: Any) -> Silo:
        made.append(Silo(folder / f"silo-{len(made)}", **options))
        return made[-1]

    try:
        yield make
    finally:
        for silo in made:
            silo.close()
