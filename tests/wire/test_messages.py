"""One ConfigRecord with one bytes field, and nothing beside it."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr.types import Refusal, Refused
from fedct_flwr.wire.messages import from_record, to_record

PAYLOAD = b"\x08\x01"


@given(st.binary())
def test_round_trip(payload: bytes):
    assert from_record(to_record(payload)) == payload


def test_nothing_but_the_payload_is_sent():
    content = to_record(PAYLOAD)
    assert {name: dict(record) for name, record in content.items()} == {"fedct": {"payload": PAYLOAD}}


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"fedct": ConfigRecord()}),
        RecordDict({"other": ConfigRecord({"payload": PAYLOAD})}),
        RecordDict({"fedct": ConfigRecord({"other": PAYLOAD})}),
        RecordDict({"fedct": ConfigRecord({"payload": PAYLOAD, "note": "patient 12"})}),
        RecordDict({"fedct": ConfigRecord({"payload": PAYLOAD}), "model": ArrayRecord([np.zeros(2)])}),
        RecordDict({"fedct": ConfigRecord({"payload": PAYLOAD}), "metrics": MetricRecord({"loss": 0.5})}),
        RecordDict({"fedct": ConfigRecord({"payload": PAYLOAD}), "more": ConfigRecord()}),
        RecordDict({"fedct": ConfigRecord({"payload": "text"})}),
        RecordDict({"fedct": ConfigRecord({"payload": [PAYLOAD]})}),
        RecordDict({"fedct": ConfigRecord({"payload": 1})}),
        RecordDict({"fedct": MetricRecord({"payload": 1})}),
        RecordDict({"fedct": ArrayRecord({"payload": Array(np.zeros(2))})}),
    ],
    ids=["empty", "no-field", "other-record", "other-field", "second-field", "arrays-too", "metrics-too",
         "second-record", "text", "list", "number", "metrics", "arrays"],
)  # fmt: skip
def test_anything_else_is_refused(content: RecordDict):
    with pytest.raises(Refused) as refused:
        from_record(content)
    assert refused.value.reason is Refusal.MALFORMED
