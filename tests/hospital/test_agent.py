"""The agent at work: with real hospital records, a real gate, and a SuperNode's real API."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ConfigRecord, RecordDict
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from fedct_flwr.flower import grid
from fedct_flwr.flower.runtime_client import SuperNode
from fedct_flwr.hospital import agent
from fedct_flwr.hospital.agent_status import STATUS_FILE
from fedct_flwr.hospital.approval import withdraw
from fedct_flwr.hospital.latest_state import lost_line
from fedct_flwr.hospital.log_entry import Event, is_revoked
from fedct_flwr.types import Refusal
from fedct_flwr.wire.codec import encode_instruction
from fedct_flwr.wire.messages import to_record
from tests.hospital.agents import Silo, silos_in
from tests.hospital.runtime_api import RuntimeApi, odd_record
from tests.patience import PATIENCE, eventually


@pytest.fixture
def silo(tmp_path: Path) -> Iterator[Silo]:
    with silos_in(tmp_path) as make:
        yield make()


def test_a_question_is_answered_with_labels_and_everything_is_logged(silo: Silo, tmp_path: Path) -> None:
    silo.start()
    silo.ask()
    labels = silo.outcome()
    assert isinstance(labels, np.ndarray)
    assert labels.shape == (silo.terms.num_public,)
    (released,) = silo.of(Event.RELEASED)
    (task,) = silo.api.tasks()
    assert released.code == task.fab_hash
    assert any(task.fab_hash in said and "not executed" in said for said in silo.said)
    assert len(silo.of(Event.OPENED)) == 1
    eventually(lambda: silo.status().get("working") is False and silo.status()["round"] == 1)
    status = silo.status()
    assert status["pid"] == os.getpid()
    assert status["connected"] is True
    assert (silo.config.state / STATUS_FILE).stat().st_mode & 0o777 == 0o600
    # The keys remember the line: an older state folder is not taken for the latest one.
    assert lost_line(silo.config.model_copy(update={"state": tmp_path / "older"})) == released.number
    silo.end()
    assert silo.status()["pid"] == 0
    assert silo.said[-1] == "stopped"


def test_what_nobody_agreed_upon_is_refused_unread_and_the_agent_goes_on(
    silo: Silo, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def inflate(name: str, pieces: dict[str, bytes]) -> object:
        read.append(name)
        return inflate_object_from_contents(name, pieces)

    # Flower takes a minute and gigabytes for the millions of fields that fit into a message.
    monkeypatch.setattr(grid, "inflate_object_from_contents", inflate)
    monkeypatch.setattr(agent, "_MAX_REFUSAL_SECONDS", 0.1)
    silo.start()
    legal = to_record(encode_instruction(silo.instruction(), silo.terms))
    many, two = ConfigRecord({str(number): 1 for number in range(9)}), ConfigRecord({"payload": [1, 2]})
    for content, kind, unread in (
        (RecordDict({"fedct": many}), "train", True),
        (RecordDict({"fedct": two}), "train", True),
        (odd_record(), "train", False),
        (to_record(b"\xff"), "train", False),
        (legal, "train.other", False),
        (legal, "query", False),
    ):
        silo.api.ask(content, message_type=kind)
        assert silo.outcome() is Refusal.MALFORMED
        assert not (unread and read)
    silo.ask()
    assert isinstance(silo.outcome(), np.ndarray)
    assert len(silo.of(Event.REFUSED)) == 6


def test_refusals_in_a_row_are_answered_ever_more_slowly(silo: Silo) -> None:
    silo.start()
    began = time.monotonic()
    for _ in range(5):
        silo.api.ask(odd_record())
        silo.reply()
    # 0, 0.2, 0.4 and 0.8 s between them.
    assert time.monotonic() - began > 1.4


def test_a_file_that_changes_while_the_agent_is_at_work_shuts_the_gate(silo: Silo) -> None:
    """Which files, tests/attacks/test_swapped_files.py tells."""
    silo.start()
    silo.ask(1)
    assert isinstance(silo.outcome(1), np.ndarray)
    path = silo.folder / "study" / "public.csv"
    path.write_bytes(path.read_bytes() + b"\n")
    silo.ask(2)
    assert silo.outcome(2) is Refusal.NOT_APPROVED


@pytest.mark.parametrize("hangs", [False, True], ids=["in training", "with a SuperNode that hangs"])
def test_a_withdrawal_stands_in_the_log_whatever_the_agent_does(
    silo: Silo, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    """Until it does, it is a file that anybody could remove who may write to the folder."""
    answer = threading.Event()

    def hanging(_: SuperNode) -> None:
        answer.wait(PATIENCE)

    if hangs:
        monkeypatch.setattr(SuperNode, "acquire", hanging)
    silo.hold()
    silo.start()
    if not hangs:
        silo.ask()
        silo.training()
        eventually(lambda: silo.status()["working"])
        assert time.time() - 60 < silo.status()["since"] <= time.time()
    withdraw(silo.config.state)
    eventually(lambda: not is_revoked(silo.config.state))
    answer.set()
    assert len(silo.of(Event.REVOKED)) == 1
    if not hangs:
        silo.go()
        assert silo.outcome() is Refusal.NOT_APPROVED
    assert [said for said in silo.said if "withdrawn" in said] == ["the approval is withdrawn: nothing leaves"]


def test_sigterm_in_the_middle_of_training_ends_the_process_cleanly(silo: Silo) -> None:
    process = silo.start_process()
    silo.hold()
    silo.ask()
    silo.training()
    process.send_signal(signal.SIGTERM)
    assert silo.outcome() is Refusal.STOPPING
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert output.splitlines()[-1] == "stopped"
    assert silo.leftovers() == []
    assert silo.of(Event.RELEASED) == []
    # The next one goes on where nothing was lost.
    silo.go()
    silo.start_process()
    silo.ask()
    assert isinstance(silo.outcome(), np.ndarray)


def test_a_supernode_that_goes_away_is_missed_once_and_found_again(silo: Silo) -> None:
    silo.start()
    silo.ask(1)
    silo.reply()
    silo.api.close()
    eventually(lambda: any("no answer" in said for said in silo.said))
    eventually(lambda: silo.status()["connected"] is False)
    silo.api = RuntimeApi(silo.api.port)
    silo.ask(2)
    assert isinstance(silo.outcome(2), np.ndarray)
    assert sum("no answer" in said for said in silo.said) == 1
    assert sum("connected to" in said for said in silo.said) == 2
