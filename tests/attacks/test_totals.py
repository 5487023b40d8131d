"""The totals of a policy, attacked by a coordinator that asks answered rounds again, with other contents.

Before this was mended, a gate took every message for an answered round of a run as a repetition that costs nothing,
whatever it asked. With 9 rounds and 9 labels, all used, forged targets and other queries told 228 of 228 labels: the
same label went out as "repeated", another one was refused only after training.
"""

import itertools
from pathlib import Path

import numpy as np
import pytest
from flwr.app import RecordDict

from fedct_flwr.hospital.gate import Gate, Held
from fedct_flwr.hospital.log_entry import Event, Used, read_entries
from fedct_flwr.types import ABSTAIN, Refusal
from fedct_flwr.wire.codec import encode_instruction, encode_refusal
from fedct_flwr.wire.content import Instruction, Query
from fedct_flwr.wire.messages import from_record, to_record
from tests.hospital.gates import CODE, Silo, open_silo, outcome

ROUNDS = 9
REFUSAL = len(encode_refusal("cleveland", Refusal.ROUND))


def one_label(silo: Silo, position: int, label: int) -> bytes:
    """A question about one example, with forged targets."""
    targets = np.full(silo.terms.num_public, label, dtype=np.int16)
    return encode_instruction(Instruction(1, Query(position, 1), targets), silo.terms)


def asked(gate: Gate, payload: bytes, run: int) -> Refusal | None:
    """Why a question is refused before training; None if it is let in."""
    try:
        gate.admit(to_record(payload), run, CODE)
    except Held as held:
        return held.reason
    return None


def test_an_answered_round_with_other_contents_is_refused_before_training_in_all_runs_for_ever(tmp_path: Path) -> None:
    silo = open_silo(tmp_path, max_rounds=ROUNDS, max_queries=ROUNDS)
    reply = silo.reply(1, 1)
    with silo.gate() as gate:
        for run in range(ROUNDS):
            assert asked(gate, one_label(silo, run, ABSTAIN), run) is None
            released = gate.release(to_record(reply), one_label(silo, run, ABSTAIN), run, CODE)
            assert released is not None
            assert from_record(released) == reply
    for _ in range(2):
        # Also after a restart: nothing is known but the log.
        with silo.gate() as gate:
            reasons = {
                asked(gate, one_label(silo, position, label), position % ROUNDS)
                for position, label in itertools.product(range(silo.terms.num_public), (0, 1))
            }
            assert reasons == {Refusal.ROUND}
            # Nor does an answer leave that somebody has trained all the same.
            released = gate.release(to_record(reply), one_label(silo, 100, 1), 0, CODE)
            assert released is not None
            assert outcome(from_record(released)) is Refusal.ROUND
            assert asked(gate, one_label(silo, 0, ABSTAIN), 0) is None
    assert [entry.queries for entry in read_entries(silo.state) if entry.event is Event.RELEASED] == [1] * ROUNDS
    assert silo.verify().intact


def test_what_happens_after_a_question_was_let_in_makes_it_no_cheaper(tmp_path: Path) -> None:
    """Whether training fails depends on the records: a refusal for that reason is an answer too."""
    silo = open_silo(tmp_path, max_rounds=2)
    with silo.gate() as gate:
        for number in (1, 2):
            request = gate.admit(to_record(silo.request(number)), 1, CODE)
            failed = to_record(encode_refusal("cleveland", Refusal.TRAINING_FAILED))
            assert gate.release(failed, request, 1, CODE) is not None
        assert gate.spent() == Used(2, 10, 2 * REFUSAL)
        assert asked(gate, silo.request(3), 1) is Refusal.LIMIT
        # The very same question is the same question still.
        assert asked(gate, silo.request(2), 1) is None
        assert gate.spent().rounds == 2


def test_bytes_of_refusals_count_and_then_nothing_is_sent_at_all(tmp_path: Path) -> None:
    silo = open_silo(tmp_path, max_bytes=3 * REFUSAL + 1)
    sent: list[RecordDict | None] = []
    with silo.gate() as gate:
        for _ in range(5):
            with pytest.raises(Held) as held:
                gate.admit(RecordDict(), 1, CODE)
            sent.append(held.value.record)
        assert [record is not None for record in sent] == [True] * 3 + [False] * 2
        assert gate.refuse(Refusal.STOPPING, 1, CODE) is None
        assert gate.spent() == Used(0, 0, 3 * REFUSAL)
    assert [entry.bytes for entry in silo.entries()[1:]] == [REFUSAL] * 3 + [0] * 3
