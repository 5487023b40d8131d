"""What every kind of answer must keep to, over all that are registered."""

import math
from dataclasses import replace
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from fedct_flwr.config.silo import Policy
from fedct_flwr.consensus.counting import shares_of_votes
from fedct_flwr.coordinator.questions import Asking
from fedct_flwr.coordinator.summing import opened
from fedct_flwr.hospital.approval import kinds_let_out
from fedct_flwr.report.kind_words import words_of
from fedct_flwr.secure_sum.terms import shape_of_votes
from fedct_flwr.types import ABSTAIN, Refusal, Refused
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.codec import decode_instruction, decode_reply, encode_instruction, encode_reply, longest_reply
from fedct_flwr.wire.content import Grid, Instruction, Query, Reply, Soft, SoftTargets, Terms
from fedct_flwr.wire.kinds import HARD, Kind, kind_of, kind_of_votes
from fedct_flwr.wire.numbers import KINDS, SHARES, VALUES
from fedct_flwr.wire.sums import SUMS, SUMS_WITH_NOISE, Summed

OF_CLASSES = Terms("heart", bytes(32), 8, ("a", "b", "c"))
OF_A_QUANTITY = Terms("heart", bytes(32), 8, (), "days")
STUDENTS, ASKED = 2, 4

every = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def terms_of(kind: Kind) -> Terms:
    return OF_CLASSES if kind.fits("") else OF_A_QUANTITY


def question_of(kind: Kind) -> Instruction:
    nothing = np.full(8, ABSTAIN, dtype=np.int16)
    students = 0 if getattr(kind, "inner", None) is HARD else STUDENTS
    return kind.question(3, Query(7, ASKED), nothing, students, Soft())


@pytest.mark.parametrize("kind", [*KINDS.values(), *SUMS.values()], ids=lambda kind: kind.name)
def test_a_question_asks_for_this_kind_alone_and_teaches_what_it_learns(kind: Kind) -> None:
    terms, question = terms_of(kind), question_of(kind)
    assert kind_of(question, terms) is kind
    read = decode_instruction(encode_instruction(question, terms), terms)
    assert kind_of(read, terms) is kind
    assert read.query == question.query
    assert not kind.teaches(question)
    assert kind.soft_targets(question) is None
    labeled = replace(question, targets=np.zeros(8, dtype=np.int16))
    targets = SoftTargets(question.query, np.ones((ASKED, terms.width), dtype=np.float32), 1.0)
    told = replace(question, soft=Soft(targets=targets))
    of_numbers = kind.name in ("probabilities", "values", "shares")
    assert (kind.soft_targets(told) is targets) == kind.teaches(told) == of_numbers
    assert kind.teaches(labeled) is not of_numbers
    assert kind.learns_labels == (kind.own_model and not of_numbers)


@every
def test_an_answer_is_told_from_others_and_read_as_it_was_written(kind: Kind) -> None:
    terms, question = terms_of(kind), question_of(kind)
    votes = kind.longest(ASKED, STUDENTS, terms)
    assert kind_of_votes(votes, terms) is (HARD if kind is SHARES else kind)
    payload = encode_reply(Reply(3, "oslo", votes), terms)
    read = decode_reply(payload, terms, question).outcome
    assert isinstance(read, np.ndarray)
    np.testing.assert_array_equal(read, votes)
    assert read.dtype == votes.dtype


@every
def test_no_answer_is_longer_than_the_longest(kind: Kind) -> None:
    terms, question = terms_of(kind), question_of(kind)
    longest = longest_reply(question, "oslo", terms, scores=False)
    rng = np.random.default_rng(0)
    for _ in range(20):
        votes: Any = {
            "hard": rng.integers(-1, 3, ASKED).astype(np.int16),
            "counts": rng.multinomial(STUDENTS, [0.2, 0.3, 0.5], size=ASKED).astype(np.int32),
            "probabilities": rng.dirichlet([1, 1, 1], size=ASKED).astype(np.float32),
            "values": rng.normal(size=(ASKED, 1)).astype(np.float32),
        }["hard" if kind is SHARES else kind.name]
        assert len(encode_reply(Reply(3, "oslo", votes), terms)) <= longest


@every
def test_each_number_that_is_told_counts_as_a_label(kind: Kind) -> None:
    each = {"hard": 1, "shares": 1, "counts": STUDENTS, "probabilities": 3, "values": 1}
    cost = kind.cost(question_of(kind), terms_of(kind))
    assert cost.labels == ASKED * each[kind.name]


@pytest.mark.parametrize("kind", SUMS_WITH_NOISE.values(), ids=SUMS_WITH_NOISE)
def test_a_question_for_a_sum_with_noise_arrives_and_takes_signed_numbers(kind: Summed) -> None:
    question = replace(question_of(kind), noise=4.5)
    read = decode_instruction(encode_instruction(question, OF_CLASSES), OF_CLASSES)
    assert (kind_of(read, OF_CLASSES), read.noise) == (kind, 4.5)
    assert (kind_of(replace(read, noise=0.0), OF_CLASSES)) is SUMS[kind.inner.name]
    total = np.array([5, 2**32 - 7, 0] * ASKED, dtype=np.uint64)
    assert opened(kind, total, read, OF_CLASSES, 3).tolist() == [[5, -7, 0]] * ASKED
    assert all(words_of(kind)[:3])


@pytest.mark.parametrize("noise", [-1.0, 1e-9, 2.0**21, math.inf, math.nan])
@pytest.mark.parametrize("summed", [True, False])
def test_noise_that_no_silo_adds_is_refused(noise: float, summed: bool) -> None:
    question = replace(question_of(HARD), summed=summed, noise=noise)
    with pytest.raises(Refused):
        decode_instruction(encode_instruction(question, OF_CLASSES), OF_CLASSES)


@every
def test_a_policy_knows_its_name_and_people_are_told_what_leaves(kind: Kind) -> None:
    (names,) = {get_args(option) for option in get_args(get_type_hints(Policy)["kinds"]) if get_args(option)}
    assert kind.policy in names
    assert all(words_of(kind)[:3])
    assert kinds_let_out([kind.policy], terms_of(kind)) == [kind]


def test_a_policy_lets_out_what_its_study_can_ask_for_in_the_order_of_its_names() -> None:
    assert [kind.name for kind in kinds_let_out(["soft", "hard"], OF_CLASSES)] == ["probabilities", "hard"]
    assert kinds_let_out(["hard", "soft"], OF_A_QUANTITY) == [VALUES]


# --- sums


@pytest.mark.parametrize("kind", SUMS.values(), ids=list(SUMS))
def test_a_sum_of_a_hundred_silos_has_room(kind: Summed) -> None:
    shape_of_votes(kind, question_of(kind), OF_CLASSES, bytes(32)).check_room(100)


def test_probabilities_and_values_are_in_no_sum() -> None:
    for terms in (OF_CLASSES, replace(OF_A_QUANTITY, grid=Grid(0, 30, 0.5))):
        question = replace(question_of(KINDS["probabilities"]), summed=True)
        with pytest.raises(Refused) as refused:
            kind_of(decode_instruction(encode_instruction(question, terms), terms), terms)
        assert refused.value.reason is Refusal.QUERY


@pytest.mark.parametrize("kind", SUMS.values(), ids=list(SUMS))
def test_a_sum_of_more_votes_than_silos_is_none_of_votes(kind: Summed) -> None:
    question = question_of(kind)
    # Two silos vote, and one abstains on the last example.
    honest = np.uint64([2, 0, 0, 1, 1, 0, 0, 0, 2, 1, 0, 0])
    opened(kind, honest, question, OF_CLASSES, 2)
    # A third one would have all classes win.
    with pytest.raises(Refused) as refused:
        opened(kind, honest + np.uint64(1), question, OF_CLASSES, 3)
    assert refused.value.reason is Refusal.UNKNOWN_CLASS


@pytest.mark.parametrize("noise", [0.5, 10.0, 10_000.0])
@pytest.mark.parametrize("kind", SUMS_WITH_NOISE.values(), ids=list(SUMS_WITH_NOISE))
def test_a_sum_of_random_numbers_is_none_of_votes_with_noise(kind: Summed, noise: float) -> None:
    question = replace(question_of(kind), summed=True, noise=noise)
    rng = np.random.default_rng(0)
    with pytest.raises(Refused) as refused:
        opened(kind, rng.integers(0, 2**32, 12, dtype=np.uint64), question, OF_CLASSES, 4)
    assert refused.value.reason is Refusal.UNKNOWN_CLASS


# --- labels whose votes silos learn the shares of


NUM_PUBLIC = 6
OF_SHARES = Terms("heart", bytes(32), NUM_PUBLIC, ("a", "b", "c"))
SHARED_VOTES = {"oslo": np.int16([0, 0, 1, 2, ABSTAIN, 1]), "bern": np.int16([0, 1, 1, 2, ABSTAIN, 0])}
RULE = shares_of_votes(3)


def asked(server_round: int = 2) -> Instruction:
    table = np.full(NUM_PUBLIC, ABSTAIN, dtype=np.int16)
    state = RULE.init(["oslo", "bern"])
    if server_round > 1:
        table, state = RULE.apply(SHARED_VOTES.items(), table, state, np.random.default_rng(0))
    asking = Asking(OF_SHARES, RULE, NUM_PUBLIC, seed=1, weight=1.0, answer=SHARES.name)
    return asking.instruction(server_round, table, state)


def test_silos_are_told_the_shares_of_the_votes_and_not_who_won() -> None:
    sent = asked()
    assert (sent.targets == ABSTAIN).all()
    read = decode_instruction(encode_instruction(sent, OF_SHARES), OF_SHARES)
    assert kind_of(read, OF_SHARES) is SHARES
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
    message = labels_pb2.Instruction.FromString(encode_instruction(asked(), OF_SHARES))
    if not soft:
        message.ClearField("soft")
    labeled = Instruction(2, Query(0, 3), np.zeros(OF_SHARES.num_public, np.int16))
    message.targets.CopyFrom(labels_pb2.Instruction.FromString(encode_instruction(labeled, OF_SHARES)).targets)
    with pytest.raises(Refused) as caught:
        decode_instruction(message.SerializeToString(deterministic=True), OF_SHARES)
    assert caught.value.reason is Refusal.MALFORMED


@pytest.mark.parametrize("also", [{"answer": "nobody"}, {"answer": "hard"}, {"votes": 2}, {"summed": True}], ids=str)
def test_a_name_of_no_such_kind_or_with_another_question_is_refused(also: dict[str, Any]) -> None:
    message = labels_pb2.Instruction.FromString(encode_instruction(asked(1), OF_SHARES))
    message.MergeFrom(labels_pb2.Instruction(**also))
    with pytest.raises(Refused) as caught:
        decode_instruction(message.SerializeToString(deterministic=True), OF_SHARES)
    assert caught.value.reason in (Refusal.MALFORMED, Refusal.QUERY)
