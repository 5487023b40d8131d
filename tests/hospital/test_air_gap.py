"""Questions and answers carried as files, between a SuperNode's real API and a real gate."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fedct_flwr.flower.runtime_client import SuperNode, carried_task
from fedct_flwr.hospital import offline_transport
from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.hospital.offline_transport import Carrier, OfflineAnswer, OfflineQuestion, seal, unseal
from fedct_flwr.hospital.study_agent import answer_file
from fedct_flwr.types import DataError, Refusal
from fedct_flwr.wire.messages import to_record
from tests.hospital.agents import Silo, silos_in
from tests.patience import eventually

QUESTION = OfflineQuestion(1, 7, "train", "0" * 64, {"report-scores": True}, b"asked")
ANSWER = OfflineAnswer("0" * 64, b"told")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("known at both ends\n")
    return path


class Carried:
    """A silo whose SuperNode is served by a carrier, and the folder with the files."""

    def __init__(self, silo: Silo, files: Path) -> None:
        self.silo, self.files, self.said, self._stop = silo, files, list[str](), threading.Event()
        files.mkdir()
        self._supernode = SuperNode(silo.api.address, silo.config.connection.secret)
        work = Carrier(self._supernode, silo.config.connection.secret, files, self.said.append, self._stop)
        self._thread = threading.Thread(target=work.run)
        self._thread.start()

    def question(self) -> Path:
        return Path(eventually(lambda: list(self.files.glob("question-*.fedct")), "a question")[0])

    def answer_of(self, question: Path) -> Path:
        return question.with_name(question.name.replace("question", "answer"))

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._supernode.close()


@pytest.fixture
def carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Carried]:
    monkeypatch.setattr(offline_transport, "_LOOK_SECONDS", 0.02)
    with silos_in(tmp_path) as make:
        both = Carried(make(), tmp_path / "carried")
        yield both
        both.close()


@pytest.mark.filterwarnings("ignore")
def test_a_round_by_hand_is_that_of_an_agent(carried: Carried, tmp_path: Path) -> None:
    silo = carried.silo
    silo.ask()
    question, own = carried.question(), tmp_path / "own"
    # Where the medium cannot be written, no labels are logged as released.
    assert not answer_file(silo.file, question, carried.files / "nowhere" / "answer", silo.said.append)
    assert not silo.of(Event.RELEASED)
    assert [entry.reason for entry in silo.of(Event.REFUSED)] == [Refusal.NOT_AWAITED.name]
    # A link on the medium changes no file here.
    answer = carried.answer_of(question)
    own.write_text("this machine's")
    for name in (answer.name, f".{answer.name}"):
        answer.with_name(name).symlink_to(own)
    assert answer_file(silo.file, question, answer, silo.said.append)
    assert own.read_text() == "this machine's"
    answer.with_name(f".{answer.name}").unlink(missing_ok=True)
    labels = silo.outcome()
    assert isinstance(labels, np.ndarray)
    assert labels.shape == (silo.terms.num_public,)
    (released,) = silo.of(Event.RELEASED)
    assert released.code == silo.api.tasks()[0].fab_hash
    # Nothing is left for the next finder of the medium.
    eventually(lambda: not list(carried.files.iterdir()), seconds=60)


def test_the_carrier_takes_no_other_answer(carried: Carried, secret: Path) -> None:
    silo = carried.silo
    silo.ask()
    question = carried.question()
    answer = carried.answer_of(question)
    own = silo.config.connection.secret
    for number, (content, key) in enumerate(((ANSWER, own), (ANSWER, secret))):
        seal(answer, content, key)
        eventually(lambda number=number: len(carried.said) == number + 2)
        answer.unlink()
    assert not silo.api.state.get_messages_legacy(is_reply=True)
    assert question.exists()


def test_a_messages_name_is_no_path(tmp_path: Path, secret: Path) -> None:
    task = carried_task(3, 7, "train", "0" * 64, {}, to_record(b"asked"))
    task.message.metadata.__dict__["_message_id"] = "/../../x"
    task.lost.set()
    supernode = SimpleNamespace(kept_alive=lambda *_: contextlib.nullcontext())
    said: list[str] = []
    Carrier(supernode, secret, tmp_path, said.append, threading.Event())._carry(task)  # type: ignore[arg-type]
    assert len(said) == 2


def test_no_file_opens_for_another_purpose_silo_or_content(tmp_path: Path, secret: Path) -> None:
    path, other = tmp_path / "question", tmp_path / "other"
    other.write_text("another silo's")
    seal(path, QUESTION, secret)
    assert QUESTION.payload not in path.read_bytes()
    with pytest.raises(DataError):
        unseal(OfflineAnswer, path, secret)
    with pytest.raises(DataError):
        unseal(OfflineQuestion, path, other)
    sealed = path.read_bytes()
    # One letter of 64 would be the same.
    changed = sealed[:40] + (b"B" if sealed[40:41] == b"A" else b"A") + sealed[41:]
    for damaged in (b"", sealed[:-1], changed, b"text"):
        path.write_bytes(damaged)
        with pytest.raises(DataError):
            unseal(OfflineQuestion, path, secret)
    with pytest.raises(DataError):
        unseal(OfflineQuestion, tmp_path / "missing", secret)


def test_a_question_that_could_not_be_logged_gets_no_answer(carried: Carried) -> None:
    """Whoever has the connected machine has the secret. Such a question got a refusal that no line told of."""
    silo, path = carried.silo, carried.files / "question-1.fedct"
    secret = silo.config.connection.secret
    for changes in ({"run": "7"}, {"run": True}, {"code": ["0"]}, {"node": None}, {"run_config": []}):
        seal(path, replace(QUESTION, **changes), secret)
        with pytest.raises(DataError, match="was not sealed for this purpose"):
            answer_file(silo.file, path, carried.answer_of(path), silo.said.append)
    seal(path, replace(QUESTION, message_type="no type"), secret)
    with pytest.raises(DataError, match="of a kind that Flower does not have"):
        answer_file(silo.file, path, carried.answer_of(path), silo.said.append)
    assert not carried.answer_of(path).exists()
