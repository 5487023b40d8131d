"""The wire: golden bytes, one encoding per message, and a reason for everything that is refused."""

import math
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedct_flwr.types import ABSTAIN, Refusal, Refused
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.codec import decode_instruction, decode_reply, encode_instruction, encode_reply
from fedct_flwr.wire.content import Histograms, Instruction, Query, Reply, Scores, Soft, SoftTargets, Terms
from fedct_flwr.wire.kinds import packed_size

TERMS = Terms(study="heart", public_fingerprint=bytes(range(32)), num_public=5, classes=("no", "mild", "severe"))
TARGETS = np.int16([0, ABSTAIN, 2, 1, 0])
VOTES = np.int16([2, 0, 1])
INSTRUCTION = Instruction(round=3, query=Query(seed=2**63 + 1, size=3), targets=TARGETS)
REPLY = Reply(round=3, silo="oslo", outcome=VOTES)
SCORES = Scores(*[0.5] * len(Scores._fields))
VOTED = np.int32([[1, 0, 1], [0, 2, 0], [0, 0, 2]])
ASKS_VOTES = Instruction(round=3, query=Query(seed=7, size=3), targets=TARGETS, votes=2)
LEARNED = SoftTargets(Query(seed=1, size=2), np.float32([[1, 0, 0], [0, 0.2, 0.8]]), weight=0.5)
NOTHING = np.full(5, ABSTAIN, dtype=np.int16)
WARMS_UP = Instruction(round=3, query=Query(seed=7, size=3), targets=NOTHING, soft=Soft())
ASKS_PROBABILITIES = replace(WARMS_UP, soft=Soft(targets=LEARNED))
IN_TURN = replace(ASKS_PROBABILITIES, soft=Soft(targets=LEARNED._replace(weight=0.0)))
ASKS_COUNTS = replace(WARMS_UP, soft=None, histograms=Histograms(b"digest", 300))
LIKELY = np.float32([[1, 0, 0], [0, 0, 1], [0.2, 0.6, 0.2]])
REPLIES = {
    "votes": REPLY,
    "abstentions": replace(REPLY, outcome=np.int16([2, ABSTAIN, 1])),
    "scores": replace(REPLY, scores=SCORES),
    "refusal": Reply(round=0, silo="oslo", outcome=Refusal.TRAINING_FAILED),
}

TERMS_BYTES = (
    "0a3d 0801"  # terms, 61 bytes: version 1
    "1205 6865617274"  # study "heart"
    "1a20 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    "2202 6e6f 2204 6d696c64 2206 736576657265"  # classes
)
INSTRUCTION_BYTES = bytes.fromhex(
    TERMS_BYTES + "1003"  # round 3
    "1a0d 0881808080808080808001 1003"  # query: seed, size 3
    "2208 0805 1001 1a02 b101"  # targets: 5 labels, some abstain; codes 1, 0, 3, 2, 1
)
REPLY_BYTES = bytes.fromhex(
    TERMS_BYTES + "1003"  # round 3
    "1a04 6f736c6f"  # silo "oslo"
    "2205 0803 1a01 12"  # 3 votes: codes 2, 0, 1
)
REFUSAL_BYTES = bytes.fromhex("1a04 6f736c6f 280c")
"""In every version: whichever the other side has, it understands why."""
COUNTS_BYTES = bytes.fromhex(
    TERMS_BYTES + "1003"  # round 3
    "1a04 6f736c6f"  # silo "oslo"
    "3a06 0803 1202 5a01"  # 3 counts of 2 votes: codes 2, 3, 5
)

ASKS_PROBABILITIES_BYTES = bytes.fromhex(
    TERMS_BYTES + "1003"  # round 3
    "1a04 0807 1003"  # query
    "3219 11000000000000e03f"  # soft: weight 0.5
    "1a04 0801 1002"  # targeted: seed, size 2
    "2208 0802 1204 ff00 0033"  # 2 targets: 255, 0 and 0, 51
)
PROBABILITIES_BYTES = bytes.fromhex(
    TERMS_BYTES + "1003"  # round 3
    "1a04 6f736c6f"  # silo "oslo"
    "420a 0803 1206 ff00 0000 3399"  # 3 rows: 255, 0; 0, 0; 51, 153
)


@contextmanager
def refused(reason: Refusal) -> Iterator[None]:
    with pytest.raises(Refused) as caught:
        yield
    assert caught.value.reason is reason


@contextmanager
def without_memory() -> Iterator[None]:
    """However much a message claims to hold."""
    tracemalloc.start()
    try:
        yield
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 1_000_000


def read_reply(payload: bytes) -> Reply:
    return decode_reply(payload, TERMS, INSTRUCTION)


def content(message: Instruction | Reply) -> tuple[Any, ...]:
    """What can be compared; arrays cannot."""
    labels = message.targets if isinstance(message, Instruction) else message.outcome
    rest = message.query if isinstance(message, Instruction) else (message.silo, message.scores)
    votes = message.votes if isinstance(message, Instruction) else None
    return message.round, rest, votes, labels.tolist() if isinstance(labels, np.ndarray) else labels


@pytest.mark.parametrize(("num_classes", "examples", "size"), [(2, 10_000, 1250), (10, 10_000, 5000)])
def test_a_reply_is_its_labels_and_less_than_a_hundred_bytes(num_classes: int, examples: int, size: int):
    terms = replace(TERMS, num_public=examples, classes=tuple("abcdefghij"[:num_classes]))
    votes = np.resize(np.arange(num_classes, dtype=np.int16), examples)
    assert packed_size(examples, num_classes, abstentions=False) == size
    assert size < len(encode_reply(Reply(1, "oslo", votes), terms)) < size + 100


class TestRoundTrip:
    def test_an_instruction_is_read_once_for_all_silos_of_a_process(self):
        first, second = (decode_instruction(bytes(bytearray(INSTRUCTION_BYTES)), TERMS) for _ in range(2))
        assert second is first
        with pytest.raises(ValueError, match="read-only"):
            first.targets[0] = 0
        with refused(Refusal.STUDY):
            decode_instruction(INSTRUCTION_BYTES, replace(TERMS, study="lungs"))

    @pytest.mark.parametrize("theirs", [Terms("", b"", 0, ()), replace(TERMS, study="lungs")])
    def test_a_refusal_is_understood_whatever_the_silos_terms(self, theirs: Terms):
        payload = encode_reply(REPLIES["refusal"], theirs)
        assert not labels_pb2.Reply.FromString(payload).HasField("terms")
        assert read_reply(payload).outcome is Refusal.TRAINING_FAILED

    def test_scores_that_a_silo_does_not_have(self):
        unknown = Scores(*[math.nan] * len(SCORES))
        assert all(map(math.isnan, read_reply(encode_reply(replace(REPLY, scores=unknown), TERMS)).scores))


def changed(payload: bytes, kind: type, change: Callable[[Any], object]) -> bytes:
    message = kind.FromString(payload)
    change(message)
    return message.SerializeToString(deterministic=True)


OF_A_QUANTITY = replace(TERMS, classes=(), quantity="days")
ASKS_VALUES = replace(WARMS_UP, soft=Soft(targets=SoftTargets(Query(seed=1, size=2), np.float32([[1], [-2.5]]), 0.5)))
SAID = np.float32([[0], [1], [1e30]])
QUANTITY_BYTES = (
    "0a31 0801"  # terms, 49 bytes: version 1
    "1205 6865617274"  # study "heart"
    "1a20 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    "2a04 64617973"  # quantity "days"
)
ASKS_VALUES_BYTES = bytes.fromhex(
    QUANTITY_BYTES + "1003"  # round 3
    "1a04 0807 1003"  # query
    "321d 11000000000000e03f"  # soft: weight 0.5
    "1a04 0801 1002"  # targeted: seed, size 2
    "2a0c 0802 1208 0000803f 000020c0"  # 2 values: 1 and -2.5
)
VALUES_BYTES = bytes.fromhex(
    QUANTITY_BYTES + "1003"  # round 3
    "1a04 6f736c6f"  # silo "oslo"
    "4a10 0803 120c 00000000 0000803f caf24971"  # 3 values: 0, 1 and 1e30
)
FAR_MORE = 2**32 - 1
Changes = dict[str, tuple[Callable[[Any], object], Refusal]]
OF_TERMS: Changes = {
    "version": (lambda message: setattr(message.terms, "version", 2), Refusal.VERSION),
    "no-terms": (lambda message: message.ClearField("terms"), Refusal.VERSION),
    "study": (lambda message: setattr(message.terms, "study", "lungs"), Refusal.STUDY),
    "fingerprint": (lambda message: setattr(message.terms, "public_fingerprint", bytes(32)), Refusal.FINGERPRINT),
    "classes-swapped": (lambda message: message.terms.classes.reverse(), Refusal.CLASSES),
}
OF_QUESTIONS: Changes = {
    "round-0": (lambda message: message.ClearField("round"), Refusal.ROUND),
    "no-query": (lambda message: message.ClearField("query"), Refusal.QUERY),
    "query-for-none": (lambda message: message.query.ClearField("size"), Refusal.QUERY),
    "query-for-far-more": (lambda message: setattr(message.query, "size", FAR_MORE), Refusal.QUERY),
    "fewer-targets": (lambda message: setattr(message.targets, "count", 4), Refusal.LENGTH),
    "more-votes-than-anybody-casts": (lambda message: setattr(message, "votes", FAR_MORE), Refusal.QUERY),
}
OF_SOFT_QUESTIONS: Changes = {
    "weight-of-nothing": (lambda message: message.soft.ClearField("targeted"), Refusal.MALFORMED),
    **{
        f"weight-{weight}": (lambda message, weight=weight: setattr(message.soft, "weight", weight), Refusal.MALFORMED)
        for weight in (-0.0, -1.0, math.nan, math.inf, 2e6)
    },
    "no-targets": (lambda message: message.soft.ClearField("targets"), Refusal.LENGTH),
    "fewer-targets": (lambda message: setattr(message.soft.targets, "count", 1), Refusal.LENGTH),
    "of-none": (lambda message: message.soft.targeted.ClearField("size"), Refusal.QUERY),
    "of-far-more": (lambda message: setattr(message.soft.targeted, "size", FAR_MORE), Refusal.QUERY),
    "votes-too": (lambda message: setattr(message, "votes", 2), Refusal.MALFORMED),
    "labels-too": (lambda message: message.targets.MergeFrom(labels_pb2.Labels(count=5)), Refusal.LENGTH),
}
OF_QUESTIONS_FOR_VALUES: Changes = {
    "no-targets": (lambda message: message.soft.ClearField("values"), Refusal.LENGTH),
    "probabilities-too": (lambda message: setattr(message.soft.targets, "packed", b"\0"), Refusal.MALFORMED),
    "labels": (lambda message: message.ClearField("soft"), Refusal.QUERY),
    "counts": (lambda message: (message.ClearField("soft"), setattr(message, "votes", 2)), Refusal.QUERY),
}
ASKS_COUNTS_BYTES = bytes.fromhex(
    TERMS_BYTES + "1003"  # round 3
    "1a04 0807 1003"  # query
    "5a0b 0a06 646967657374"  # histograms: of the study "digest"
    "10ac02"  # 300 numbers
)
OF_QUESTIONS_FOR_COUNTS: Changes = {
    "of-none": (lambda message: message.histograms.ClearField("numbers"), Refusal.MALFORMED),
    "by-without-condition": (lambda message: setattr(message.histograms, "by", "ward"), Refusal.MALFORMED),
    "scores-without-targets": (lambda message: setattr(message.histograms, "scores", True), Refusal.MALFORMED),
    "long-condition": (lambda message: setattr(message.histograms, "where", "a" * 501), Refusal.MALFORMED),
    "votes-too": (lambda message: setattr(message, "votes", 2), Refusal.MALFORMED),
    "labels-too": (lambda message: message.targets.MergeFrom(labels_pb2.Labels(count=5)), Refusal.LENGTH),
    "a-sum-of-labels-too": (lambda message: setattr(message, "summed", True), Refusal.MALFORMED),
    "a-step-too": (lambda message: setattr(message.joint, "records", 5), Refusal.MALFORMED),
    "probabilities-too": (lambda message: setattr(message.soft, "weight", 1.0), Refusal.MALFORMED),
}
OF_LABELS: Changes = {
    "earlier-round": (lambda message: setattr(message, "round", 2), Refusal.ROUND),
    "needless-flag": (
        lambda message: message.votes.MergeFrom(labels_pb2.Labels(abstentions=True, packed=b"\x16")),
        Refusal.MALFORMED,
    ),
    "no-silo": (lambda message: message.ClearField("silo"), Refusal.SILO),
    "silo-of-many-bytes": (lambda message: setattr(message, "silo", "ø" * 128 + "o"), Refusal.SILO),
}
OF_VALUES: Changes = {
    "another-quantity": (lambda message: setattr(message.terms, "quantity", "weeks"), Refusal.CLASSES),
    "scores-of-classes": (lambda message: setattr(message.scores, "own_accuracy", 0.5), Refusal.MALFORMED),
    "classes-too": (lambda message: message.terms.classes.append("no"), Refusal.CLASSES),
}


OF_REFUSALS: Changes = {
    "terms": (lambda message: setattr(message.terms, "study", "patient 12"), Refusal.MALFORMED),
    "scores": (lambda message: setattr(message.scores, "own_accuracy", 0.5), Refusal.MALFORMED),
    "another-round": (lambda message: setattr(message, "round", 1_234_567_890), Refusal.MALFORMED),
    **{
        f"no-reason-{number}": (lambda message, number=number: setattr(message, "refusal", number), Refusal.MALFORMED)
        for number in (0, 99)
    },
}


def of_answers(field: str) -> Changes:
    """Other numbers of answers than were asked for, no bytes for them, and none at all."""
    return {
        "fewer": (lambda message: setattr(getattr(message, field), "count", 2), Refusal.LENGTH),
        "far-more": (lambda message: setattr(getattr(message, field), "count", FAR_MORE), Refusal.LENGTH),
        "cut-off": (lambda message: getattr(message, field).ClearField("packed"), Refusal.LENGTH),
        "nothing": (lambda message: message.ClearField(field), Refusal.MALFORMED),
    }


# What the bytes of answers must not be, the tests of their packing say.
QUESTIONS: list[tuple[bytes, Terms, Changes]] = [
    (ASKS_COUNTS_BYTES, TERMS, OF_QUESTIONS_FOR_COUNTS),
    (INSTRUCTION_BYTES, TERMS, {**OF_TERMS, **OF_QUESTIONS}),
    (ASKS_PROBABILITIES_BYTES, TERMS, OF_SOFT_QUESTIONS),
    (ASKS_VALUES_BYTES, OF_A_QUANTITY, OF_QUESTIONS_FOR_VALUES),
]
ANSWERS: list[tuple[bytes, Terms, Instruction, Changes]] = [
    (REFUSAL_BYTES, TERMS, INSTRUCTION, OF_REFUSALS),
    (REPLY_BYTES, TERMS, INSTRUCTION, {**OF_LABELS, **of_answers("votes")}),
    (COUNTS_BYTES, TERMS, ASKS_VOTES, of_answers("counts")),
    (PROBABILITIES_BYTES, TERMS, ASKS_PROBABILITIES, of_answers("probabilities")),
    (VALUES_BYTES, OF_A_QUANTITY, ASKS_VALUES, {**OF_VALUES, **of_answers("values")}),
]


GOLDEN: list[tuple[Instruction | Reply, Terms, Instruction | None, bytes]] = [
    (INSTRUCTION, TERMS, None, INSTRUCTION_BYTES),
    (replace(INSTRUCTION, votes=2), TERMS, None, INSTRUCTION_BYTES + bytes.fromhex("2802")),
    (ASKS_COUNTS, TERMS, None, ASKS_COUNTS_BYTES),
    (ASKS_PROBABILITIES, TERMS, None, ASKS_PROBABILITIES_BYTES),
    (IN_TURN, TERMS, None, ASKS_PROBABILITIES_BYTES.replace(bytes.fromhex("3219 11000000000000e03f"), b"2\x10")),
    (ASKS_VALUES, OF_A_QUANTITY, None, ASKS_VALUES_BYTES),
    (REPLY, TERMS, INSTRUCTION, REPLY_BYTES),
    (replace(REPLY, outcome=VOTED), TERMS, ASKS_VOTES, COUNTS_BYTES),
    (replace(REPLY, outcome=LIKELY), TERMS, ASKS_PROBABILITIES, PROBABILITIES_BYTES),
    (replace(REPLY, outcome=SAID), OF_A_QUANTITY, ASKS_VALUES, VALUES_BYTES),
    (REPLIES["refusal"], TERMS, INSTRUCTION, REFUSAL_BYTES),
]


@pytest.mark.parametrize(("message", "terms", "asked", "payload"), GOLDEN, ids=range(len(GOLDEN)))
def test_golden_bytes(message: Instruction | Reply, terms: Terms, asked: Instruction | None, payload: bytes):
    encode = encode_instruction if isinstance(message, Instruction) else encode_reply
    assert encode(message, terms) == payload
    # Numbers are rounded on the way; test_round_trip has them.
    if payload != PROBABILITIES_BYTES:
        read = decode_reply(payload, terms, asked) if asked else decode_instruction(payload, terms)
        assert content(read) == content(message)


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_replies_arrive_as_they_were_sent(reply: Reply):
    assert content(read_reply(encode_reply(reply, TERMS))) == content(reply)


def test_a_round_that_warms_up_has_no_targets():
    assert encode_instruction(WARMS_UP, TERMS).endswith(bytes.fromhex("3200"))
    assert decode_instruction(encode_instruction(IN_TURN, TERMS), TERMS).soft.targets.weight == 0
    assert decode_instruction(ASKS_COUNTS_BYTES, TERMS).histograms == ASKS_COUNTS.histograms
    scores = replace(ASKS_COUNTS, targets=TARGETS, histograms=Histograms(b"digest", 9, scores=True))
    assert decode_instruction(encode_instruction(scores, TERMS), TERMS).histograms == scores.histograms
    patients = replace(ASKS_COUNTS, histograms=Histograms(b"digest", 4, "age > 1", "ward"))
    assert decode_instruction(encode_instruction(patients, TERMS), TERMS).histograms == patients.histograms


@pytest.mark.parametrize(
    ("question", "answer", "terms", "targets", "said", "tolerance"),
    [
        (ASKS_PROBABILITIES_BYTES, PROBABILITIES_BYTES, TERMS, LEARNED, LIKELY, 1 / 255),
        (ASKS_VALUES_BYTES, VALUES_BYTES, OF_A_QUANTITY, ASKS_VALUES.soft.targets, SAID, 0),
    ],
    ids=["probabilities", "values"],
)
def test_round_trip(question: bytes, answer: bytes, terms: Terms, targets: SoftTargets, said: Any, tolerance: float):
    asked = decode_instruction(question, terms)
    assert asked.soft.targets[::2] == targets[::2]
    np.testing.assert_allclose(asked.soft.targets.votes, targets.votes, rtol=0, atol=tolerance)
    outcome = decode_reply(answer, terms, asked).outcome
    assert outcome.dtype == np.float32
    np.testing.assert_allclose(outcome, said, rtol=0, atol=tolerance)


class TestRefused:
    @pytest.mark.parametrize(
        ("payload", "terms", "change", "reason"),
        [(payload, terms, *each) for payload, terms, changes in QUESTIONS for each in changes.values()],
        ids=[name for *_, changes in QUESTIONS for name in changes],
    )
    def test_question_with(self, payload: bytes, terms: Terms, change: Callable[[Any], object], reason: Refusal):
        with refused(reason), without_memory():
            decode_instruction(changed(payload, labels_pb2.Instruction, change), terms)

    @pytest.mark.parametrize(
        ("payload", "terms", "asked", "change", "reason"),
        [(payload, terms, asked, *each) for payload, terms, asked, changes in ANSWERS for each in changes.values()],
        ids=[name for *_, changes in ANSWERS for name in changes],
    )
    def test_answer_with(
        self, payload: bytes, terms: Terms, asked: Instruction, change: Callable[[Any], object], reason: Refusal
    ):
        with refused(reason), without_memory():
            decode_reply(changed(payload, labels_pb2.Reply, change), terms, asked)

    @pytest.mark.parametrize(
        ("payload", "terms", "asked", "reason"),
        [
            (COUNTS_BYTES, TERMS, INSTRUCTION, Refusal.MALFORMED),
            (PROBABILITIES_BYTES, TERMS, INSTRUCTION, Refusal.MALFORMED),
            (PROBABILITIES_BYTES, TERMS, ASKS_VOTES, Refusal.MALFORMED),
            (REPLY_BYTES, TERMS, ASKS_PROBABILITIES, Refusal.MALFORMED),
            (COUNTS_BYTES, TERMS, ASKS_PROBABILITIES, Refusal.MALFORMED),
            (VALUES_BYTES, TERMS, ASKS_PROBABILITIES, Refusal.CLASSES),
            (REPLY_BYTES, OF_A_QUANTITY, ASKS_VALUES, Refusal.CLASSES),
        ],
    )
    def test_an_answer_that_was_not_asked_for(self, payload: bytes, terms: Terms, asked: Instruction, reason: Refusal):
        with refused(reason):
            decode_reply(payload, terms, asked)

    def test_a_question_for_labels_of_a_quantity(self):
        with refused(Refusal.QUERY):
            encode_instruction(INSTRUCTION, OF_A_QUANTITY)

    @pytest.mark.parametrize("score", [-math.ulp(0), 1 + math.ulp(1), math.inf, -math.inf, 5e300])
    def test_a_score_that_is_no_share(self, score: float):
        for position in range(len(SCORES)):
            values = list(SCORES)
            values[position] = score
            with refused(Refusal.MALFORMED):
                read_reply(encode_reply(replace(REPLY, scores=Scores(*values)), TERMS))


class TestNothingBesideTheMessage:
    """Whatever could carry something else out, or be written in two ways, is refused."""

    @pytest.mark.parametrize("bits", [0x7FF8_0000_0000_0001, 0xFFF8_0000_0000_0000, 0x7FF0_0000_DEAD_BEEF])
    def test_a_missing_score_in_another_spelling(self, bits: int):
        payload = encode_reply(replace(REPLY, scores=Scores(*[math.nan] * len(SCORES))), TERMS)
        nan = struct.pack("<d", math.nan)
        assert payload.count(nan) == len(SCORES)
        with refused(Refusal.MALFORMED):
            read_reply(payload.replace(nan, struct.pack("<Q", bits), 1))

    def test_a_score_of_minus_zero(self):
        payload = encode_reply(replace(REPLY, scores=SCORES), TERMS)
        with refused(Refusal.MALFORMED):
            read_reply(payload.replace(struct.pack("<d", 0.5), struct.pack("<d", -0.0), 1))

    UNKNOWN = "ba3f0a70617469656e74203132"  # field 1015: "patient 12"

    def test_unknown_fields(self):
        for payload, decode, _ in messages():
            with refused(Refusal.MALFORMED):
                decode(payload + bytes.fromhex(self.UNKNOWN))

    @pytest.mark.parametrize("field", ["terms", "votes"])
    def test_unknown_fields_inside(self, field: str):
        def smuggle(message: labels_pb2.Reply) -> None:
            getattr(message, field).MergeFromString(bytes.fromhex(self.UNKNOWN))

        with refused(Refusal.MALFORMED):
            read_reply(changed(REPLY_BYTES, labels_pb2.Reply, smuggle))

    def test_any_flipped_bit_or_cut_is_refused_or_another_message(self):
        for payload, decode, encode in messages():
            for damaged in (*bit_flips(payload), *(payload[:size] for size in range(len(payload)))):
                with suppress(Refused):
                    assert encode(decode(damaged), TERMS) == damaged != payload


def messages() -> Iterator[tuple[bytes, Callable[[bytes], Any], Callable[[Any, Terms], bytes]]]:
    for question in (INSTRUCTION_BYTES, ASKS_PROBABILITIES_BYTES, ASKS_COUNTS_BYTES):
        yield question, lambda payload: decode_instruction(payload, TERMS), encode_instruction
    for reply in REPLIES.values():
        yield encode_reply(reply, TERMS), read_reply, encode_reply


def bit_flips(payload: bytes) -> Iterator[bytes]:
    for position in range(8 * len(payload)):
        flipped = bytearray(payload)
        flipped[position // 8] ^= 1 << position % 8
        yield bytes(flipped)


@pytest.mark.parametrize("more", [b"", (bytes.fromhex("ba3f0a") + bytes(10)) * 100_000], ids=["", "long"])
def test_a_newer_version_is_told_from_a_malformed_message(more: bytes):
    """It may have fields that this one does not know, and be longer than any message of this one."""
    with refused(Refusal.VERSION):
        decode_instruction(changed(INSTRUCTION_BYTES, labels_pb2.Instruction, OF_TERMS["version"][0]) + more, TERMS)
    with refused(Refusal.VERSION):
        read_reply(changed(REPLY_BYTES, labels_pb2.Reply, OF_TERMS["version"][0]) + more)


@pytest.mark.parametrize("decode", [read_reply, lambda payload: decode_instruction(payload, TERMS)])
def test_a_huge_payload_costs_nothing(decode: Callable[[bytes], object]):
    payload = labels_pb2.Reply(votes=labels_pb2.Labels(packed=bytes(50_000_000))).SerializeToString()
    began = time.thread_time()
    with refused(Refusal.LENGTH), without_memory():
        decode(payload)
    # Of this thread's own: a busy machine gives it less of each second.
    assert time.thread_time() - began < 0.1
