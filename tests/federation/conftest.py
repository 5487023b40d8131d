"""A federation in one process, with silos that can be made to fail."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.common.serde import message_to_proto

from client_app.main import app as client_app
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.learners.meeting import Train
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.wire.messages import ACTION
from server_app.main import app as server_app
from tests.patience import PATIENCE

DEADLINE = 4.0
"""Seconds for a round in which somebody hangs: the others need a hundredth of it, and it has to pass."""

Behave = Callable[[Message, Context], Message]


class Federation:
    """Runs the two apps on the heart-disease silos; ``behave[i]`` replaces what silo ``i`` does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.behave: dict[int, Behave] = {}
        self.sent: list[bytes] = []
        self.release = threading.Event()
        self.app = ClientApp()
        self.app.train()(self._train)
        self.app.query(ACTION)(self._add)
        self.behave_in_sums: dict[int, Behave] = {}

    def _train(self, message: Message, context: Context) -> Message:
        return self._answered(self.behave, message, context)

    def _add(self, message: Message, context: Context) -> Message:
        return self._answered(self.behave_in_sums, message, context)

    def _answered(self, behave: dict[int, Behave], message: Message, context: Context) -> Message:
        reply = behave.get(context.node_config["partition-id"], client_app)(message, context)
        self.sent.append(message_to_proto(reply).SerializeToString())
        return reply

    def hang(self, message: Message, context: Context) -> Message:
        """Hang until the test is over."""
        self.release.wait(PATIENCE)
        return client_app(message, context)

    @staticmethod
    def away(number: int) -> Behave:
        """Fail in this round, and answer in all others."""

        def behave(message: Message, context: Context) -> Message:
            if message.metadata.group_id == str(number):
                raise RuntimeError
            return client_app(message, context)

        return behave

    def run(self, *, silos: int = 4, workers: int = 2, train: Train | None = None, **settings: Any) -> RunFolder:
        """Run with these settings (underscores for hyphens) and return the run folder."""
        config = {
            "study": "test",
            "data": "heart-disease",
            "learner": "decision-tree",
            "learner-params": '{"max_depth": 3}',
            "num-server-rounds": 3,
            "save-models": False,
            "roster-deadline": 0.5,
            "run-dir": str(self.path / "run"),
            **{key.replace("_", "-"): value for key, value in settings.items()},
        }
        run_loopback(server_app, self.app, config, simulated_nodes(silos), workers=workers, train=train)
        return RunFolder(Path(config["run-dir"]))


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    """A federation whose hanging silos are let go at the end."""
    federation = Federation(tmp_path)
    yield federation
    federation.release.set()
