"""The gate: what answers an approved question leaves once, within the limits, on record; everything else stays."""

import contextlib
import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import RecordDict

from fedct_flwr.hospital import egress_log
from fedct_flwr.hospital.approval import approve, revoke
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.gate import Gate, Held
from fedct_flwr.hospital.log_entry import LOG_FILE, Event, LogEntry, Used, read_entries
from fedct_flwr.hospital.opening import open_gate
from fedct_flwr.types import Refusal
from fedct_flwr.wire.codec import encode_instruction, encode_refusal, encode_reply, longest_reply
from fedct_flwr.wire.content import Reply, Scores
from fedct_flwr.wire.messages import from_record, to_record
from tests.hospital.gates import CODE, KEY, RUN, Silo, open_silo, outcome

SCORES = Scores(0.5, 0.5, 0.5, 0.5)


@pytest.fixture
def silo(tmp_path: Path) -> Silo:
    return open_silo(tmp_path)


@pytest.fixture
def gate(silo: Silo) -> Iterator[Gate]:
    with silo.gate() as gate:
        yield gate


def held(gate: Gate, content: RecordDict, run_id: int = RUN) -> Refusal:
    """Why a request is refused; what goes back says the same and nothing else."""
    with pytest.raises(Held) as refused:
        gate.admit(content, run_id, CODE)
    assert refused.value.record is not None
    assert from_record(refused.value.record) == encode_refusal("cleveland", refused.value.reason)
    return refused.value.reason


def release(gate: Gate, silo: Silo, content: RecordDict, number: int = 1, run_id: int = RUN) -> Refusal | bytes:
    """What comes of an answer to a question that was asked."""
    with contextlib.suppress(Held):
        gate.admit(to_record(silo.request(number)), run_id, CODE)
    return let_out(gate, content, silo.request(number), run_id)


def let_out(gate: Gate, content: Any, request: bytes, run_id: int = RUN) -> Refusal | bytes:
    """The same without asking first."""
    left = gate.release(content, request, run_id, CODE)
    assert left is not None
    return outcome(from_record(left))


def last(silo: Silo) -> LogEntry:
    return list(read_entries(silo.state))[-1]


def test_a_legal_answer_leaves_and_is_on_record(gate: Gate, silo: Silo) -> None:
    assert gate.admit(to_record(silo.request()), RUN, CODE) == silo.request()
    content = to_record(silo.reply())
    left = gate.release(content, silo.request(), RUN, CODE)
    assert left is not None
    assert from_record(left) == silo.reply()
    assert left is not content
    entry = last(silo)
    assert (entry.event, entry.run, entry.round, entry.kind, entry.queries) == (Event.RELEASED, RUN, 1, "hard", 5)
    assert (entry.bytes, entry.code, entry.reason) == (len(silo.reply()), CODE, "")
    assert gate.spent() == Used(1, 5, len(silo.reply()))
    assert silo.verify().intact


def test_the_line_is_on_disk_before_the_labels_leave(gate: Gate, silo: Silo, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Event] = []

    def wrapped(payload: bytes) -> RecordDict:
        seen.append(last(silo).event)
        return to_record(payload)

    monkeypatch.setattr("fedct_flwr.hospital.gate.to_record", wrapped)
    assert release(gate, silo, to_record(silo.reply())) == silo.reply()
    assert seen[-1] is Event.RELEASED


def test_an_older_round_is_refused_and_another_run_is_its_own(gate: Gate, silo: Silo) -> None:
    silo.ask(gate, 3)
    assert held(gate, to_record(silo.request(2))) is Refusal.ROUND
    assert release(gate, silo, to_record(silo.reply(2)), 2) is Refusal.ROUND
    assert gate.admit(to_record(silo.request(1)), RUN + 1, CODE)
    assert release(gate, silo, to_record(silo.reply(1)), 1, RUN + 1) == silo.reply(1)


def test_what_is_no_message_of_the_study_passes_in_neither_direction(gate: Gate, silo: Silo) -> None:
    for content in (RecordDict(), to_record(b"\xff" * 40)):
        assert held(gate, content) is Refusal.MALFORMED
        assert release(gate, silo, content) is Refusal.MALFORMED
    forged = replace(silo.terms, public_fingerprint=bytes(32))
    assert held(gate, to_record(encode_instruction(silo.instruction(), forged))) is Refusal.FINGERPRINT
    reply = encode_reply(Reply(1, "cleveland", np.ones(5, dtype=np.int16)), forged)
    assert release(gate, silo, to_record(reply)) is Refusal.FINGERPRINT
    assert gate.answers() == 0


def test_a_reply_must_answer_the_very_question(gate: Gate, silo: Silo) -> None:
    assert release(gate, silo, to_record(silo.reply(2))) is Refusal.ROUND
    assert release(gate, silo, to_record(silo.reply(1, size=6))) is Refusal.LENGTH
    assert release(gate, silo, to_record(silo.reply(silo="budapest"))) is Refusal.SILO
    assert release(gate, silo, to_record(silo.reply() + b"\x00")) is Refusal.MALFORMED
    # Nor is what was not admitted answered.
    assert let_out(gate, to_record(silo.reply()), b"\xff") is Refusal.MALFORMED
    assert let_out(gate, to_record(silo.reply(2)), silo.request(2)) is Refusal.ROUND
    assert gate.answers() == 0


def test_a_refusal_passes_as_one_and_names_its_own_silo_alone(gate: Gate, silo: Silo) -> None:
    for reason in Refusal:
        assert release(gate, silo, to_record(encode_refusal("cleveland", reason))) is reason
        assert (last(silo).event, last(silo).reason) == (Event.REFUSED, reason.name)
    assert release(gate, silo, to_record(encode_refusal("patient 7", Refusal.NO_DATA))) is Refusal.SILO
    assert gate.answers() == 0


def test_nothing_leaves_before_this_very_policy_is_approved(tmp_path: Path) -> None:
    silo = open_silo(tmp_path, approved=False)
    with silo.gate() as gate:
        assert held(gate, to_record(silo.request())) is Refusal.NOT_APPROVED
        assert release(gate, silo, to_record(silo.reply())) is Refusal.NOT_APPROVED
    other = silo.config.model_copy(update={"policy": silo.config.policy.model_copy(update={"metrics": True})})
    with EgressLog.open(silo.state, "cleveland", KEY) as log:
        approve(log, other, silo.study)
    with silo.gate() as gate:
        assert held(gate, to_record(silo.request())) is Refusal.NOT_APPROVED


def test_files_that_changed_shut_the_gate_also_during_training(gate: Gate, silo: Silo) -> None:
    payload = gate.admit(to_record(silo.request()), RUN, CODE)
    silo.unchanged = False
    left = gate.release(to_record(silo.reply()), payload, RUN, CODE)
    assert outcome(from_record(left)) is Refusal.NOT_APPROVED
    assert held(gate, to_record(silo.request())) is Refusal.NOT_APPROVED


def test_what_is_revoked_while_the_gate_is_open_stays(silo: Silo) -> None:
    with EgressLog.open(silo.state, "cleveland", KEY) as log:
        gate = open_gate(silo.config, silo.study, log, lambda: True)
        gate.admit(to_record(silo.request()), RUN, CODE)
        revoke(log)
        assert release(gate, silo, to_record(silo.reply())) is Refusal.NOT_APPROVED
        approve(log, silo.config, silo.study)
        assert release(gate, silo, to_record(silo.reply())) == silo.reply()


Message = Callable[[Silo], bytes]
VOTES: tuple[Message, Message] = lambda silo: silo.request(votes=2), lambda silo: silo.counts(votes=2)
PROBABILITIES: tuple[Message, Message] = Silo.soft_request, Silo.probabilities
WITH_SCORES: tuple[Message, Message] = Silo.request, lambda silo: silo.reply(scores=SCORES)


@pytest.mark.parametrize(
    ("policy", "messages", "told"),
    [
        ({"kinds": ["hard"]}, VOTES, None),
        ({"kinds": ["hard", "counts"]}, VOTES, ("counts", 10)),
        ({"kinds": ["hard", "counts"]}, PROBABILITIES, None),
        # A number for each class.
        ({"kinds": ["soft"], "max_queries": 9}, PROBABILITIES, None),
        ({"kinds": ["soft"], "max_queries": 10}, PROBABILITIES, ("soft", 10)),
        ({"metrics": False}, WITH_SCORES, None),
        ({"metrics": True}, WITH_SCORES, ("hard", 5)),
    ],
)
def test_each_kind_leaves_only_if_the_policy_says_so_and_the_log_says_what_left(
    policy: dict[str, Any], messages: tuple[Message, Message], told: tuple[str, int] | None, tmp_path: Path
) -> None:
    silo = open_silo(tmp_path, **policy)
    request, reply = (message(silo) for message in messages)
    with silo.gate() as gate:
        if told or "metrics" in policy:
            gate.admit(to_record(request), RUN, CODE)
        else:
            assert held(gate, to_record(request)) is (Refusal.LIMIT if "max_queries" in policy else Refusal.POLICY)
        left = let_out(gate, to_record(reply), request)
        assert left == reply if told else isinstance(left, Refusal)
    assert (last(silo).kind, last(silo).queries) == (told or ("", 0))


@pytest.mark.parametrize(
    ("policy", "weight", "passes"),
    [
        ({}, 1.0, True),
        ({}, 1.01, False),
        ({"max_consensus_weight": 50.0}, 50.0, True),
        # In turn with the records, in as many steps.
        ({"max_consensus_weight": 0.99}, 0.0, False),
    ],
)
def test_a_question_that_asks_too_much_of_the_silo_is_refused_before_it_trains(
    policy: dict[str, Any], weight: float, passes: bool, tmp_path: Path
) -> None:
    silo = open_silo(tmp_path, kinds=["soft"], **policy)
    request = silo.soft_request(weight=weight)
    with silo.gate() as gate:
        if passes:
            assert gate.admit(to_record(request), RUN, CODE) == request
        else:
            assert held(gate, to_record(request)) is Refusal.LIMIT
        # Nor does an answer leave to what was never admitted.
        left = gate.release(to_record(silo.probabilities()), request, RUN, CODE)
        assert outcome(from_record(left)) == (silo.probabilities() if passes else Refusal.LIMIT)


def test_limits_hold_before_training_over_runs_and_approvals_to_the_last_label(tmp_path: Path) -> None:
    silo = open_silo(tmp_path, max_rounds=2, max_queries=12)
    with silo.gate() as gate:
        silo.ask(gate, 1, 5)
        assert held(gate, to_record(silo.request(2, 8))) is Refusal.LIMIT
        assert silo.ask(gate, 2, 7) == silo.reply(2, 7)
        # What left already may leave again, and no other labels in its place.
        assert silo.ask(gate, 2, 7) == silo.reply(2, 7)
        assert last(silo).event is Event.REPEATED
        assert silo.ask(gate, 2, 7, first=0) is Refusal.ROUND
        spent = gate.spent()
    for most, reason in ((2, Refusal.LIMIT), (3, Refusal.LIMIT), (3, None)):
        # To approve again gives nothing back, and a higher limit of rounds gives no labels.
        changes = {"max_rounds": most, **({} if reason else {"max_queries": 13})}
        silo.config = silo.config.model_copy(update={"policy": silo.config.policy.model_copy(update=changes)})
        with EgressLog.open(silo.state, "cleveland", KEY) as log:
            approve(log, silo.config, silo.study)
        with silo.gate() as gate:
            assert gate.spent()[:2] == spent[:2] == (2, 12)
            assert gate.spent().bytes >= spent.bytes > 3 * len(silo.reply())
            if reason:
                assert held(gate, to_record(silo.request(3, 1))) is reason
                assert held(gate, to_record(silo.request(1, 1)), RUN + 1) is reason
                assert let_out(gate, to_record(silo.reply(3, 1)), silo.request(3, 1)) is Refusal.ROUND
            else:
                assert silo.ask(gate, 3, 1) == silo.reply(3, 1)


def test_the_limit_of_bytes_holds_for_the_longest_reply_and_for_repeats(tmp_path: Path) -> None:
    silo = open_silo(tmp_path / "a")
    size, longest = len(silo.reply()), longest_reply(silo.instruction(), "cleveland", silo.terms, scores=False)
    assert size <= longest
    silo = open_silo(tmp_path / "b", max_bytes=2 * size + longest - 1)
    with silo.gate() as gate:
        silo.ask(gate)
        silo.ask(gate)
        assert held(gate, to_record(silo.request())) is Refusal.LIMIT
        assert held(gate, to_record(silo.request(2))) is Refusal.LIMIT
        assert gate.spent().bytes <= silo.config.policy.max_bytes


def test_what_cannot_be_logged_does_not_leave(gate: Gate, silo: Silo, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(egress_log.os, "write", full)
        assert release(gate, silo, to_record(silo.reply())) is Refusal.NOT_LOGGED
        assert release(gate, silo, to_record(encode_refusal("cleveland", Refusal.NO_DATA))) is Refusal.NOT_LOGGED
        stopping = gate.refuse(Refusal.STOPPING, RUN, CODE)
        assert stopping is not None
        assert outcome(from_record(stopping)) is Refusal.NOT_LOGGED
        with pytest.raises(Held) as refused:
            gate.admit(to_record(b""), RUN, CODE)
        assert refused.value.record is not None
        assert outcome(from_record(refused.value.record)) is Refusal.NOT_LOGGED
        assert held(gate, to_record(silo.request())) is Refusal.NOT_LOGGED
        assert gate.spent() == Used()
    # As soon as there is room, the same labels leave.
    assert release(gate, silo, to_record(silo.reply())) == silo.reply()
    assert silo.verify().intact


def test_anything_unexpected_is_a_refusal(gate: Gate, silo: Silo, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise ZeroDivisionError("patient 7")

    with monkeypatch.context() as patch:
        patch.setattr("fedct_flwr.hospital.gate.decode_reply", fails)
        patch.setattr("fedct_flwr.hospital.gate.decode_instruction", fails)
        assert held(gate, to_record(silo.request())) is Refusal.INTERNAL
        assert release(gate, silo, to_record(silo.reply())) is Refusal.INTERNAL
    for nonsense in (None, 5, "text", {"fedct": 1}):
        assert let_out(gate, nonsense, silo.request()) in (Refusal.INTERNAL, Refusal.MALFORMED)
    # An id that fits into no line: nothing can be logged, and nothing leaves.
    nobody: Any = "7"
    assert let_out(gate, to_record(silo.reply()), silo.request(), nobody) is Refusal.NOT_LOGGED
    assert "patient" not in (silo.state / LOG_FILE).read_text()
    assert gate.answers() == 0
