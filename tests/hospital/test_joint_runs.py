"""Whole runs of the joint labeler through the gates of four hospitals, in one process."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from syrupy.assertion import SnapshotAssertion

from client_app.main import app as client_app
from fedct_flwr.flower.loopback import run_loopback
from fedct_flwr.hospital.gate import Held
from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.kinds.joint import STEPS
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.secure_sum.messages import Step
from fedct_flwr.silo.release import DATA_SET
from fedct_flwr.silo.summing import ACTION
from fedct_flwr.silo.workplace import gated
from fedct_flwr.types import RunError
from fedct_flwr.wire.messages import from_record
from fedct_flwr.wire.refusal import Refusal
from server_app.main import app as server_app
from tests.hospital.gates import CODE
from tests.hospital.test_adding import Hospital, opened
from tests.hospital.test_joint import AGREED
from tests.hospitals import STUDY

Fault = Callable[[str, Message], None]


class Federation:
    """A coordinator, and four hospitals with their gates. ``fault`` may raise at any message to a silo."""

    def __init__(self, hospitals: dict[str, Hospital], folder: Path) -> None:
        self.hospitals = hospitals
        self.folder = folder
        self.fault: Fault = lambda silo, message: None
        self.app = ClientApp()
        self.app.train()(self._train)
        self.app.query(ACTION)(self._add)

    def run(self, **more: Any) -> RunFolder:
        study = next(iter(self.hospitals.values())).silo.config.study
        settings = {
            "study": STUDY, "data": "study", "data-dir": str(study), "roster": ",".join(self.hospitals),
            "run-dir": str(self.folder), "roster-deadline": 0.5, "algorithm": "fedct-joint", **more,
        }  # fmt: skip
        nodes = [{"silo-file": str(self._file(hospital))} for hospital in self.hospitals.values()]
        run_loopback(server_app, self.app, settings, nodes)
        return RunFolder(self.folder)

    def of(self, event: Event) -> dict[str, list[str]]:
        """The questions of these lines of each log."""
        return {
            name: [line.request for line in hospital.gate._log.entries() if line.event is event and line.request]
            for name, hospital in self.hospitals.items()
        }

    def charges(self) -> set[int]:
        found = set()
        for hospital in self.hospitals.values():
            with Ledger(hospital.silo.config.state) as ledger:
                spent = ledger.spent(STUDY, DATA_SET)
            assert spent is not None
            assert spent.epsilon.upper <= 1.0
            found.add(spent.charges)
        return found

    @staticmethod
    def _file(hospital: Hospital) -> Path:
        return hospital.silo.config.study.parent / "silo.toml"

    def _at(self, message: Message, context: Context) -> Hospital:
        name = Path(str(context.node_config["silo-file"])).parent.name
        self.fault(name, message)
        return self.hospitals[name]

    def _train(self, message: Message, context: Context) -> Message:
        gate = self._at(message, context).gate
        try:
            payload = gate.admit(message.content, context.run_id, CODE)
        except Held as held:
            if held.record is None:
                raise
            return Message(held.record, reply_to=message)
        with gated() as later:
            answer = client_app(message, context)
        left = gate.release(answer.content, payload, context.run_id, CODE)
        for work in later:
            work()
        assert left is not None
        return Message(left, reply_to=message)

    def _add(self, message: Message, context: Context) -> Message:
        left = self._at(message, context).gate.add(message.content, context.run_id, CODE)
        assert left is not None
        return Message(left, reply_to=message)


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    with ExitStack() as stack:
        yield Federation(opened(tmp_path / "silos", stack, agreed=AGREED, kinds=["joint"]), tmp_path / "run")


def step_of(message: Message) -> Step | None:
    """The step of a sum that a message asks for."""
    is_sum = message.metadata.message_type.startswith("query")
    return Step(from_record(message.content)[4]) if is_sum else None


def test_a_run_opens_fifteen_sums_and_spends_what_was_approved(federation: Federation) -> None:
    folder = federation.run(student="logistic-regression")
    assert folder.read_json("result.json")["status"] == "completed"
    assert [len(line["silos"]) for line in folder.rounds()] == [4] * (STEPS + 1)
    for name, asked in federation.of(Event.ADDED).items():
        assert len(set(asked)) == len(asked) == STEPS
        assert len(federation.of(Event.RELEASED)[name]) == STEPS + 1
    assert federation.charges() == {STEPS}
    card = folder.read_json("models/global.json")["privacy"]
    assert (card["protection"], card["epsilon"]) == ("joint labeler", 1.0)
    # Each silo's own model has learned the labels once its answer had left.
    for hospital in federation.hospitals.values():
        assert list(hospital.silo.config.state.glob(f"model-{STUDY}*"))


def test_sums_that_are_not_opened_end_a_run_that_goes_on_without_adding_twice(
    federation: Federation, wording: SnapshotAssertion
) -> None:
    def never_opened(silo: str, message: Message) -> None:
        if message.metadata.group_id in ("3", "4", "5") and step_of(message) is Step.OPEN:
            raise RuntimeError

    federation.fault = never_opened
    with pytest.raises(RunError) as caught:
        federation.run()
    assert str(caught.value).rpartition("; ")[2] == wording
    folder = federation.run(resume=True)
    assert folder.read_json("result.json")["joint"]["lost"] == 3
    assert [line["round"] for line in folder.rounds()] == list(range(1, STEPS + 2))
    for asked in federation.of(Event.ADDED).values():
        assert len(set(asked)) == len(asked) == STEPS
    assert federation.charges() == {STEPS}


def test_a_coordinator_that_forgets_an_opened_sum_gets_no_second_one(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, sent = RunFolder.save_checkpoint, []

    def fails_once(self: RunFolder, checkpoint: Any) -> None:
        if checkpoint.round == 2 and not sent:
            sent.append(checkpoint)
            raise RunError("the disk is full")
        save(self, checkpoint)

    monkeypatch.setattr(RunFolder, "save_checkpoint", fails_once)
    with pytest.raises(RunError, match="the disk is full"):
        federation.run()
    before = {name: bytes_of(hospital) for name, hospital in federation.hospitals.items()}
    again: dict[str, dict[str, bytes]] = {}

    def look(silo: str, message: Message) -> None:
        if message.metadata.group_id == "3":
            again.setdefault(silo, bytes_of(federation.hospitals[silo]))

    federation.fault = look
    folder = federation.run(resume=True)
    # The same step again: the same bytes, and none of them in another sum.
    assert again == before
    assert folder.read_json("result.json")["joint"]["lost"] == 1
    for asked in federation.of(Event.ADDED).values():
        assert len(set(asked)) == len(asked) == STEPS
    assert federation.charges() == {STEPS}
    # The weights are those of before, and no sum of this step is in them.
    assert np.isfinite(sent[0].state["weights"]).all()


def bytes_of(hospital: Hospital) -> dict[str, bytes]:
    """What the silo keeps for sums, by question."""
    found = hospital.silo.config.state.rglob("sum-*")
    return {path.name: path.read_bytes() for path in found}


def test_a_run_beyond_the_budget_ends_in_one_sentence(federation: Federation) -> None:
    federation.run()
    federation.folder = federation.folder.with_name("second")
    with pytest.raises(RunError, match=Refusal.PRIVACY_BUDGET.sentence):
        federation.run(seed=1)
    assert federation.charges() == {STEPS}
