"""Labels whose votes silos learn the shares of: what travels, what a learner is taught, and a whole run."""

from typing import Any

import numpy as np
import pytest

from fedct_flwr.consensus.counting import shares_of_votes
from fedct_flwr.coordinator.questions import Asking, Learning
from fedct_flwr.types import ABSTAIN, Refusal, Refused
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.codec import decode_instruction, encode_instruction
from fedct_flwr.wire.content import Instruction, Query, Terms
from fedct_flwr.wire.kinds import SHARES, kind_of

NUM_PUBLIC = 6
TERMS = Terms("heart", bytes(32), NUM_PUBLIC, ("a", "b", "c"))
VOTES = {"oslo": np.int16([0, 0, 1, 2, ABSTAIN, 1]), "bern": np.int16([0, 1, 1, 2, ABSTAIN, 0])}
RULE = shares_of_votes(3)


def asked(server_round: int = 2) -> Instruction:
    table = np.full(NUM_PUBLIC, ABSTAIN, dtype=np.int16)
    state = RULE.init(["oslo", "bern"])
    if server_round > 1:
        table, state = RULE.apply(VOTES.items(), table, state, np.random.default_rng(0))
    asking = Asking(TERMS, RULE, NUM_PUBLIC, 0, Learning(1.0), seed=1, answer=SHARES.name)
    return asking.instruction(server_round, table, state)


def test_silos_are_told_the_shares_of_the_votes_and_not_who_won() -> None:
    sent = asked()
    assert (sent.targets == ABSTAIN).all()
    read = decode_instruction(encode_instruction(sent, TERMS), TERMS)
    assert kind_of(read, TERMS) is SHARES
    assert read.soft is not None
    assert read.soft.targets is not None
    order = read.soft.targets.query.positions(NUM_PUBLIC)
    told = np.empty((NUM_PUBLIC, 3))
    told[order] = read.soft.targets.votes
    assert told[:4].round(2).tolist() == [[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]]
    assert np.ptp(told[4]) == 0
    assert told[5].round(2).tolist() == [0.5, 0.5, 0]


@pytest.mark.parametrize("soft", [True, False], ids=["next to shares", "in place of shares"])
def test_labels_to_learn_are_refused(soft: bool) -> None:
    message = labels_pb2.Instruction.FromString(encode_instruction(asked(), TERMS))
    if not soft:
        message.ClearField("soft")
    labeled = Instruction(2, Query(0, 3), np.zeros(TERMS.num_public, np.int16))
    message.targets.CopyFrom(labels_pb2.Instruction.FromString(encode_instruction(labeled, TERMS)).targets)
    with pytest.raises(Refused) as caught:
        decode_instruction(message.SerializeToString(deterministic=True), TERMS)
    assert caught.value.reason is Refusal.MALFORMED


@pytest.mark.parametrize("also", [{"answer": "nobody"}, {"answer": "hard"}, {"votes": 2}, {"summed": True}], ids=str)
def test_a_name_of_no_such_kind_or_with_another_question_is_refused(also: dict[str, Any]) -> None:
    message = labels_pb2.Instruction.FromString(encode_instruction(asked(1), TERMS))
    message.MergeFrom(labels_pb2.Instruction(**also))
    with pytest.raises(Refused) as caught:
        decode_instruction(message.SerializeToString(deterministic=True), TERMS)
    assert caught.value.reason in (Refusal.MALFORMED, Refusal.QUERY)
