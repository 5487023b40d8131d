"""One side is older or newer than the other: real messages, and a real gate in the middle of a study.

The other version is this one with another number, and with fields that this one does not know.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from fedct_flwr.hospital import approval
from fedct_flwr.hospital.gate import Held
from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.types import Refusal, Refused
from fedct_flwr.wire import codec, labels_pb2
from fedct_flwr.wire.codec import decode_reply, encode_reply
from fedct_flwr.wire.content import Reply
from fedct_flwr.wire.messages import from_record, to_record
from tests.hospital.gates import CODE, RUN, Silo, open_silo

NEWER = codec.VERSION + 1
UNKNOWN = bytes.fromhex("ba3f0a") + b"0123456789"
"""Field 1015, of ten bytes."""
LONG = UNKNOWN * 100_000
"""More than any message of this version has here."""


def of_version(payload: bytes, kind: type[labels_pb2.Instruction] | type[labels_pb2.Reply], version: int) -> bytes:
    message = kind.FromString(payload)
    message.terms.version = version
    return message.SerializeToString(deterministic=True)


@pytest.fixture
def silo(tmp_path: Path) -> Silo:
    return open_silo(tmp_path, max_rounds=10)


def refusal_of(call: Callable[[], object]) -> Refusal:
    with pytest.raises(Refused) as refused:
        call()
    return refused.value.reason


def test_in_the_middle_of_a_study_the_silo_refuses_and_goes_on_with_its_own_version(silo: Silo) -> None:
    with silo.gate() as gate:
        assert isinstance(silo.ask(gate, 1), bytes)
        before = gate.spent()
        for number in (2, 3):
            question = of_version(silo.request(number), labels_pb2.Instruction, NEWER) + LONG
            with pytest.raises(Held) as held:
                gate.admit(to_record(question), RUN, CODE)
            assert held.value.reason is Refusal.VERSION
            assert held.value.record is not None
            # What a coordinator of any version reads: the name and the number of the reason.
            told = labels_pb2.Reply.FromString(from_record(held.value.record))
            assert (told.silo, told.refusal, told.HasField("terms")) == (
                silo.config.silo,
                Refusal.VERSION.number,
                False,
            )
        # Neither round nor labels are used up.
        assert gate.spent()._replace(bytes=before.bytes) == before
        assert isinstance(silo.ask(gate, 4), bytes)
    refused = [entry for entry in silo.entries() if entry.event is Event.REFUSED]
    assert [entry.reason for entry in refused] == ["VERSION", "VERSION"]
    assert silo.verify().intact


@pytest.mark.parametrize("more", [b"", LONG], ids=["", "long"])
def test_a_newer_silos_answer_is_refused_as_such(silo: Silo, more: bytes) -> None:
    answer = of_version(silo.reply(), labels_pb2.Reply, NEWER) + more
    instruction = silo.instruction()
    assert refusal_of(lambda: decode_reply(answer, silo.terms, instruction)) is Refusal.VERSION


def test_what_every_version_reads_of_every_other_stays() -> None:
    numbers = {
        message.DESCRIPTOR.name: {field.name: field.number for field in message.DESCRIPTOR.fields}
        for message in (labels_pb2.Terms, labels_pb2.Instruction, labels_pb2.Reply)
    }
    assert numbers["Terms"]["version"] == numbers["Instruction"]["terms"] == numbers["Reply"]["terms"] == 1
    assert encode_reply(Reply(0, "oslo", Refusal.VERSION), codec.NO_TERMS) == bytes.fromhex("1a046f736c6f") + bytes(
        [numbers["Reply"]["refusal"] << 3, Refusal.VERSION.number]
    )
    assert (numbers["Reply"]["silo"], numbers["Reply"]["refusal"], Refusal.VERSION.number) == (3, 5, 2)


def test_another_version_of_the_messages_needs_a_new_approval(silo: Silo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approval, "VERSION", NEWER)
    with silo.gate() as gate, pytest.raises(Held) as held:
        gate.admit(to_record(silo.request()), RUN, CODE)
    assert held.value.reason is Refusal.NOT_APPROVED
