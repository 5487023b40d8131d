"""Reasons to refuse: one number and one sentence each, the same in Python as on the wire."""

import pytest

from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.refusal import Refusal, Refused


def test_covers_every_reason_of_the_protocol():
    on_the_wire = dict(labels_pb2.Refusal.items())
    assert on_the_wire.pop("REFUSAL_UNSPECIFIED") == 0
    assert {f"REFUSAL_{reason.name}": reason.number for reason in Refusal} == on_the_wire


@pytest.mark.parametrize("number", [labels_pb2.REFUSAL_UNSPECIFIED, 99, -1, 2**31 - 1])
def test_a_number_without_reason_is_malformed(number: int):
    with pytest.raises(Refused) as refused:
        Refusal.from_number(number)
    assert refused.value.reason is Refusal.MALFORMED
