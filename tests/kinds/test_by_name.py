"""Kinds that an instruction asks for by their names, by a planted one."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from fedct_flwr import kinds
from fedct_flwr.consensus.counting import counting, plurality
from fedct_flwr.coordinator.asking import Asking, Learning
from fedct_flwr.datasets.public_set import Query
from fedct_flwr.kinds.hard import Hard
from fedct_flwr.types import ABSTAIN, HardLabels
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.codec import decode_instruction, encode_instruction
from fedct_flwr.wire.content import Instruction, Soft, Terms
from fedct_flwr.wire.refusal import Refusal, Refused

TERMS = Terms("heart", bytes(32), 8, ("a", "b", "c"))
ASKED = Instruction(1, Query(7, 5), np.full(8, ABSTAIN, dtype=np.int16), answer="planted")


class Planted(Hard):
    name: ClassVar[str] = "planted"
    by_name: ClassVar[bool] = True

    def question(self, number: int, query: Query, targets: HardLabels, votes: int, learning: Soft) -> Instruction:
        return replace(super().question(number, query, targets, votes, learning), answer=self.name)


PLANTED = Planted()


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kinds.KINDS, PLANTED.name, PLANTED)


def refusal(payload: bytes) -> Refusal:
    with pytest.raises(Refused) as caught:
        decode_instruction(payload, TERMS)
    return caught.value.reason


@pytest.mark.usefixtures("planted")
def test_a_question_names_the_kind_and_arrives() -> None:
    asking = Asking(TERMS, counting(3, plurality), 5, 0, Learning(), seed=1, answer=PLANTED.name)
    sent = asking.instruction(1, ASKED.targets, {})
    assert (asking.kind, sent.answer) == (PLANTED, "planted")
    read = decode_instruction(encode_instruction(sent, TERMS), TERMS)
    assert kinds.kind_of(read, TERMS) is PLANTED
    assert kinds.kind_of(replace(read, answer=""), TERMS) is kinds.HARD


def test_without_a_name_no_bytes_are_added() -> None:
    plain = labels_pb2.Instruction.FromString(encode_instruction(replace(ASKED, answer=""), TERMS))
    assert "answer" not in {field.name for field, _ in plain.ListFields()}


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize(
    "also",
    [
        {"answer": "nobody"},
        {"answer": "hard"},
        {"votes": 2},
        {"soft": labels_pb2.Soft()},
        {"summed": True},
    ],
    ids=str,
)
def test_a_name_of_no_such_kind_or_with_another_question_is_refused(also: dict[str, object]) -> None:
    message = labels_pb2.Instruction.FromString(encode_instruction(ASKED, TERMS))
    message.MergeFrom(labels_pb2.Instruction(**also))  # type: ignore[arg-type]
    assert refusal(message.SerializeToString(deterministic=True)) in (Refusal.MALFORMED, Refusal.QUERY)
