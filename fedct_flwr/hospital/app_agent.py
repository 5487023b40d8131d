"""The agent of a silo that runs a Flower app of its own people: each message goes to it, and its reply to the gate."""

import contextlib
import copy
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from flwr.app import Context, Error, Message, RecordDict

from fedct_flwr.config.silo import AppSilo
from fedct_flwr.flower.runtime_client import Asker, Task
from fedct_flwr.hospital.agent import Agent, AgentAnswer, Say
from fedct_flwr.hospital.app_code import AppError, files_of, load
from fedct_flwr.hospital.app_gate import AppGate
from fedct_flwr.hospital.approval import approving_digest
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.file_watch import FileWatch
from fedct_flwr.hospital.latest_state import NOT_APPROVED, approval_state
from fedct_flwr.hospital.log_entry import Event, LogEntry, is_revoked
from fedct_flwr.hospital.log_line import about

_RUNS: Final = 8
"""Runs whose state (``context.state``) is kept between messages."""


class AppAgent(Agent):
    """One silo with its app, in this process: a thread runs it, with all rights that the agent has."""

    threads = None
    _gate: AppGate

    def __init__(
        self, files: FileWatch, config: AppSilo, log: EgressLog, supernode: Asker, stop: threading.Event, say: Say
    ) -> None:
        name = config.app.client
        self._app, self._config = load(name), config
        self._states: dict[int, RecordDict] = {}
        digest = approving_digest(config, None)
        self._gate = AppGate(config.app, digest, log, lambda: files.unchanged() and not is_revoked(config.state))
        super().__init__(config, name, files, self._gate, log, supernode, stop, say)
        log.append(LogEntry(Event.OPENED, name))
        approval = approval_state(config, None, list(log.entries()))
        self._say(f"silo {config.silo} is ready: app {name}; {NOT_APPROVED.get(approval, approval)}")

    @classmethod
    def watch(cls, file: Path, content: bytes, config: AppSilo) -> FileWatch:
        """The files that decide what leaves, the app's among them. Raises AppError for an app without code."""
        name = config.app.client

        def decides() -> Iterable[Path]:
            with contextlib.suppress(AppError):
                yield from files_of(name).values()
            yield from (config.egress_key, *config.approvers.values())

        files = FileWatch(file, content, decides)
        # After that: what changes meanwhile shuts the gate.
        load(name)
        return files

    def _answer(self, task: Task, afterwards: list[Callable[[], None]]) -> AgentAnswer:
        gate, run, code = self._gate, task.run_id, task.code_hash
        number = gate.admit(task.message, run, code)
        if isinstance(number, Error):
            return number
        # The reply follows from the message: the app gets one of its own, whatever it writes into it.
        message = copy.copy(task.message)
        message.__dict__["_metadata"] = copy.copy(task.message.metadata)
        state = self._states.setdefault(run, RecordDict())
        if len(self._states) > _RUNS:
            del self._states[next(iter(self._states))]
        context = Context(run, task.node_id, dict(self._config.app.data), state, task.run_config)

        def reply() -> Message:
            found = self._app(message, context)
            self._states[run] = context.state
            return found

        with about(round=number):
            return self._answered(task, number, reply, lambda found: gate.release(found, run, code))
