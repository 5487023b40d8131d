"""The gate lets ranked classes out where the policy says so, and counts two labels for each example."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from fedct_flwr.wire.codec import encode_instruction, encode_reply
from fedct_flwr.wire.content import Reply
from fedct_flwr.wire.messages import from_record, to_record
from fedct_flwr.wire.refusal import Refusal
from tests.hospital.gates import open_silo
from tests.hospital.test_gate import CODE, RUN, held


def test_ranked_classes_leave_where_the_policy_says_so(tmp_path: Path) -> None:
    silo = open_silo(tmp_path, kinds=["ranked"], max_queries=10)
    request = encode_instruction(replace(silo.instruction(1, 5), answer="ranked"), silo.terms)
    answer = encode_reply(Reply(1, "cleveland", np.int16([[0, 1], [1, 0], [1, 0], [0, 1], [0, 1]])), silo.terms)
    with silo.gate() as gate:
        assert held(gate, to_record(silo.request())) is Refusal.POLICY
        assert gate.admit(to_record(request), RUN, CODE) == request
        assert gate.spent().queries == 10
        left = gate.release(to_record(answer), request, RUN, CODE)
        assert left is not None
        assert from_record(left) == answer
