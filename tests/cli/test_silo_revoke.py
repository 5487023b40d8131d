"""Revoked is revoked: at once, in the log, and also while the agent holds the log."""

from collections.abc import Callable

import numpy as np
import pytest

from fedct_flwr.datasets.federated import Query
from fedct_flwr.hospital.approval import put_down
from fedct_flwr.hospital.gate import Gate, Held
from fedct_flwr.hospital.log_entry import Event, is_revoked
from fedct_flwr.silo.site import terms_of
from fedct_flwr.wire.codec import encode_instruction
from fedct_flwr.wire.content import Instruction
from fedct_flwr.wire.messages import to_record
from tests.cli.silos import Fedct, Kit


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_it_asks_and_stands_in_the_log(
    fedct: Fedct, approved_kit: Kit, types: Callable[[str], None], answer: str, code: int
) -> None:
    types(answer)
    assert fedct("silo", "revoke", approved_kit.folder).code == code
    assert approved_kit.events == [Event.APPROVED, *([] if code else [Event.REVOKED])]
    assert not is_revoked(approved_kit.state)
    assert fedct("silo", "verify", approved_kit.folder).code == 0


def test_where_nothing_is_approved_there_is_nothing_to_do(fedct: Fedct, kit: Kit) -> None:
    outcome = fedct("silo", "revoke", kit.folder)
    assert (outcome.code, outcome.out) == (0, "Nothing is approved: nothing leaves.\n")
    assert kit.events == []


def test_the_gate_shuts_while_the_agent_is_at_work(fedct: Fedct, approved_kit: Kit) -> None:
    kit = approved_kit
    study, terms = kit.study, terms_of(kit.study)
    instruction = Instruction(1, Query(0, 5), np.full(len(study.public), -1, dtype=np.int16))
    question = to_record(encode_instruction(instruction, terms))
    with kit.log() as log:
        gate = Gate(kit.config, study, log, lambda: not is_revoked(kit.state))
        assert gate.admit(question, 1, "")
        outcome = fedct("silo", "revoke", kit.folder, "--yes")
        assert outcome.code == 0
        assert "nothing leaves from now on" in outcome.out
        with pytest.raises(Held, match="has not approved"):
            gate.admit(question, 1, "")
        assert '"state": "revoked"' in fedct("silo", "status", kit.folder, "--json").out
    with kit.log() as log:
        put_down(log, kit.state)
    assert kit.events == [Event.APPROVED, Event.ADMITTED, Event.REFUSED, Event.REVOKED]
    assert not is_revoked(kit.state)


def test_a_log_that_is_not_intact_keeps_nobody_from_revoking(fedct: Fedct, approved_kit: Kit) -> None:
    path = approved_kit.state / "egress.jsonl"
    path.write_bytes(path.read_bytes().replace(b"approved", b"appr0ved"))
    assert fedct("silo", "revoke", approved_kit.folder, "--yes").code == 0
    assert is_revoked(approved_kit.state)
