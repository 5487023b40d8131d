"""Reasons to refuse: one number and one sentence each, the same in Python as on the wire."""

import pickle

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.types import FedctError
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.refusal import Refusal, Refused


def test_covers_every_reason_of_the_protocol():
    on_the_wire = dict(labels_pb2.Refusal.items())
    assert on_the_wire.pop("REFUSAL_UNSPECIFIED") == 0
    assert {f"REFUSAL_{reason.name}": reason.number for reason in Refusal} == on_the_wire


@pytest.mark.parametrize("reason", Refusal)
def test_a_reason_is_found_by_its_number(reason: Refusal):
    assert Refusal.from_number(reason.number) is reason


@pytest.mark.parametrize("number", [labels_pb2.REFUSAL_UNSPECIFIED, 99, -1, 2**31 - 1])
def test_a_number_without_reason_is_malformed(number: int):
    with pytest.raises(Refused) as refused:
        Refusal.from_number(number)
    assert refused.value.reason is Refusal.MALFORMED


def test_every_reason_has_a_sentence_of_its_own():
    assert len({reason.sentence for reason in Refusal}) == len(Refusal)


@pytest.mark.parametrize("reason", Refusal)
def test_a_sentence_is_one_line_that_others_can_go_on_from(reason: Refusal):
    assert reason.sentence
    assert "\n" not in reason.sentence
    assert not reason.sentence.endswith(".")


def test_the_error_says_the_sentence_and_keeps_the_reason(wording: SnapshotAssertion):
    error = Refused(Refusal.STUDY)
    assert isinstance(error, FedctError)
    assert str(error) == wording
    assert error.reason is Refusal.STUDY


def test_a_reason_survives_pickling():
    """Flower's simulation moves objects between processes."""
    assert pickle.loads(pickle.dumps(Refusal.ROUND)) is Refusal.ROUND
