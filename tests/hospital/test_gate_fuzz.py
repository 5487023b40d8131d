"""Mutated messages by the thousand: nothing but an identical copy of a legal reply passes, and nothing is raised.

``FEDCT_FUZZ`` is the number of messages in total (2,000 that are always the same; if it is set, other ones each time).
"""

import itertools
import logging
import os
import shutil
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedct_flwr.hospital.gate import Gate, Held
from fedct_flwr.hospital.log_entry import Event, read_entries
from fedct_flwr.types import Refusal
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.codec import decode_instruction, encode_instruction
from fedct_flwr.wire.content import Scores
from fedct_flwr.wire.messages import from_record, to_record
from tests.hospital.gates import CODE, RUN, Silo, open_silo, outcome

pytestmark = pytest.mark.slow

MANY = 2**62
KINDS = ["labels", "counts", "probabilities"]
EXAMPLES = int(os.environ.get("FEDCT_FUZZ", "2000"))


def share(part: float) -> settings:
    return settings(
        max_examples=max(1, round(EXAMPLES * part)),
        derandomize="FEDCT_FUZZ" not in os.environ,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


class Target(NamedTuple):
    """A gate that has let ``reply`` out as the answer to ``request``."""

    silo: Silo
    gate: Gate
    request: bytes
    reply: bytes


@contextmanager
def silo_in_memory(**policy: Any) -> Iterator[Silo]:
    """A silo without limits, whose egress log is intact in the end."""
    # In memory where there is such a place: every message is a line that is synced to disk.
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
    logger = logging.getLogger("flwr.fedct")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        silo = open_silo(folder, max_bytes=MANY, max_queries=MANY, max_rounds=MANY, **policy)
        yield silo
        assert silo.verify().intact
    finally:
        logger.setLevel(level)
        shutil.rmtree(folder)


def answered(silo: Silo, gate: Gate, request: bytes, reply: bytes) -> Target:
    gate.admit(to_record(request), RUN, CODE)
    assert let_out(gate, to_record(reply), request) == reply
    return Target(silo, gate, request, reply)


def let_out(gate: Gate, content: RecordDict, request: bytes) -> Refusal | bytes:
    left = gate.release(content, request, RUN, CODE)
    assert left is not None
    return outcome(from_record(left))


def check_left(silo: Silo, labels: int) -> None:
    """Nothing but the one answer has left, with so many labels."""
    assert [entry.queries for entry in read_entries(silo.state) if entry.event is Event.RELEASED] == [labels]


@pytest.fixture(scope="module")
def targets() -> Iterator[dict[str, Target]]:
    """A target for each kind of answer."""
    with ExitStack() as stack:

        def target(policy: dict[str, Any], request: Callable[[Silo], bytes], reply: Callable[[Silo], bytes]) -> Target:
            silo = stack.enter_context(silo_in_memory(**policy))
            return answered(silo, stack.enter_context(silo.gate()), request(silo), reply(silo))

        scores = Scores(0.5, 0.25, 1.0, float("nan"))
        made = {
            "labels": target(
                {"metrics": True}, lambda silo: silo.request(2, size=40), lambda silo: silo.reply(2, 40, scores=scores)
            ),
            "counts": target(
                {"kinds": ["hard", "counts"]},
                lambda silo: silo.request(2, size=40, votes=2),
                lambda silo: silo.counts(2, 40, votes=2),
            ),
            "probabilities": target(
                {"kinds": ["hard", "soft"]},
                lambda silo: silo.soft_request(2, size=40),
                lambda silo: silo.probabilities(2, 40),
            ),
        }
        yield made
        for kind, labels in {"labels": 40, "counts": 80, "probabilities": 80}.items():
            check_left(made[kind].silo, labels)


@pytest.fixture
def target(targets: dict[str, Target]) -> Target:
    """The one that answers with labels."""
    return targets["labels"]


def varint(value: int, padding: int = 0) -> bytes:
    """A number as protobuf writes it, or longer than needed."""
    parts = []
    while value > 0x7F or padding:
        parts.append(0x80 | value & 0x7F)
        padding -= value <= 0x7F
        value >>= 7
    return bytes([*parts, value])


def field(number: int, wire_type: int, value: bytes) -> bytes:
    return varint(number << 3 | wire_type) + value


RUNS = itertools.count(RUN + 1)
Draw = Callable[[st.SearchStrategy[Any]], Any]
SMALL_BYTES = st.binary(max_size=12)
NUMBERS = st.sampled_from([0, 1, 2, 3, 40, 127, 128, 2**31, 2**32 - 1, 2**32, 2**60, 2**63, 2**64 - 1])


@st.composite
def mutated(draw: Draw, legal: tuple[bytes, ...]) -> bytes:
    """One of these messages, changed once or a few times."""
    message = draw(st.sampled_from(legal))
    for _ in range(draw(st.integers(1, 3))):
        at, to = sorted((draw(st.integers(0, len(message))), draw(st.integers(0, len(message)))))
        match draw(st.integers(0, 10)):
            case 0 if message:
                bit = draw(st.integers(0, 8 * len(message) - 1))
                changed = bytearray(message)
                changed[bit // 8] ^= 1 << bit % 8
                message = bytes(changed)
            case 1:
                message = message[:at]
            case 2:
                message = message[:at] + draw(SMALL_BYTES) + message[at:]
            case 3:
                message = message[:at] + message[to:]
            case 4:
                message = message[:to] + message[at:to] + message[to:]
            case 5:
                message += field(draw(st.integers(1, 40)), 0, varint(draw(NUMBERS)))
            case 6:
                inner = draw(SMALL_BYTES)
                message += field(draw(st.integers(1, 8)), 2, varint(len(inner)) + inner)
            case 7 if at < len(message) and message[at] < 0x80:
                message = message[:at] + varint(message[at], padding=draw(st.integers(1, 3))) + message[at + 1 :]
            case 8 if at < len(message):
                message = message[:at] + varint(draw(NUMBERS)) + message[at + 1 :]
            case 9:
                other = draw(st.sampled_from(legal))
                message = message[:at] + other[at:]
            case _:
                message = draw(st.binary(max_size=200))
    return message


def check_release(target: Target, content: RecordDict, passes: bool) -> None:
    found = let_out(target.gate, content, target.request)
    if passes:
        assert found == target.reply
    else:
        assert isinstance(found, Refusal)
        assert found not in (Refusal.INTERNAL, Refusal.NOT_LOGGED)


def admit(target: Target, content: RecordDict) -> bytes | Refusal:
    """What was admitted, or why nothing was: for a reason of its own, and the same that is sent back.

    Each in a run of its own: in one that has a question, other contents are refused whatever they are.
    """
    try:
        return target.gate.admit(content, next(RUNS), CODE)
    except Held as held:
        reason, sent = held.reason, held.record and outcome(from_record(held.record))
    assert reason is sent
    assert reason not in (Refusal.INTERNAL, Refusal.NOT_LOGGED)
    return reason


@pytest.mark.parametrize("kind", KINDS)
@share(0.2)
@given(data=st.data())
def test_nothing_but_an_identical_copy_of_a_legal_reply_passes(
    targets: dict[str, Target], kind: str, data: st.DataObject
) -> None:
    """Of mutated legal replies, no other than the target's own passes."""
    target, silo = targets[kind], targets[kind].silo
    legal = {
        "labels": [silo.reply(3, 40), silo.reply(2, 41), silo.reply(2, 40, silo="budapest")],
        "counts": [silo.counts(2, 40, votes=1), silo.counts(2, 41), silo.counts(3, 40)],
        "probabilities": [silo.probabilities(2, 41), silo.probabilities(3, 40)],
    }[kind]
    reply = data.draw(mutated((target.reply, silo.reply(2, 40), *legal)))
    if outcome(reply) is not Refusal.INTERNAL:
        check_release(target, to_record(reply), passes=reply == target.reply)


@pytest.mark.parametrize("kind", KINDS)
@share(0.1)
@given(data=st.data())
def test_what_is_admitted_is_a_legal_request_to_the_byte(
    targets: dict[str, Target], kind: str, data: st.DataObject
) -> None:
    """Of mutated legal requests, none is admitted that could be written in another way."""
    target, silo = targets[kind], targets[kind].silo
    legal = {
        "labels": [silo.request(3, 40, label=1), silo.request(2**32 - 1, 228)],
        "counts": [silo.request(3, 40, label=1, votes=1000), silo.request(2, 40, votes=1)],
        "probabilities": [silo.warm_up_request(3, 40), silo.request(3, 40)],
    }[kind]
    payload = data.draw(mutated((target.request, *legal)))
    admitted = admit(target, to_record(payload))
    if isinstance(admitted, bytes):
        assert admitted == payload
        assert encode_instruction(decode_instruction(payload, silo.terms), silo.terms) == payload


SCALARS = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=5), SMALL_BYTES, st.booleans()
)
NAMES = st.sampled_from(["fedct", "payload", "arrays", "metrics", "", "x"])


@st.composite
def records(draw: Draw, payload: bytes) -> RecordDict:
    """Flower's records of any kind, the legal one among them."""
    content = RecordDict({"fedct": ConfigRecord({"payload": payload})} if draw(st.booleans()) else {})
    for _ in range(draw(st.integers(0, 2))):
        name = draw(NAMES)
        match draw(st.integers(0, 3)):
            case 0:
                content[name] = MetricRecord({draw(NAMES): draw(st.integers(0, 9))})
            case 1:
                content[name] = ArrayRecord({draw(NAMES): Array(np.zeros(draw(st.integers(0, 3))))})
            case 2:
                value = draw(st.one_of(SCALARS, st.lists(SMALL_BYTES, max_size=2), st.just(payload)))
                content[name] = ConfigRecord({draw(NAMES): value})
            case _:
                content[name] = ConfigRecord({"payload": payload, draw(NAMES): draw(SCALARS)})
    return content


@share(0.1)
@given(data=st.data())
def test_no_other_record_passes(target: Target, data: st.DataObject) -> None:
    content = data.draw(records(target.reply))
    legal = dict(content) == {"fedct": ConfigRecord({"payload": target.reply})}
    check_release(target, content, passes=legal)
    content = data.draw(records(target.request))
    legal = dict(content) == {"fedct": ConfigRecord({"payload": target.request})}
    assert (admit(target, content) == target.request) is legal


@pytest.mark.parametrize("count", [2**32 - 1, 2**60])
def test_a_message_that_claims_any_number_of_labels_costs_no_memory(count: int, target: Target) -> None:
    terms = field(1, 2, varint(len(inner := target_terms(target))) + inner)
    labels = field(1, 0, varint(count)) + field(3, 2, varint(5) + b"\xff" * 5)
    claim = varint(len(labels)) + labels
    reply = terms + field(2, 0, varint(2)) + field(3, 2, varint(9) + b"cleveland") + field(4, 2, claim)
    query = field(3, 2, varint(len(asked := field(2, 0, varint(count)))) + asked)
    request = terms + field(2, 0, varint(3)) + query
    targets = terms + field(2, 0, varint(3)) + field(3, 2, varint(2) + field(2, 0, varint(5))) + field(4, 2, claim)
    labels_pb2.Reply.FromString(reply)
    tracemalloc.start()
    try:
        check_release(target, to_record(reply), passes=False)
        for payload in (request, targets):
            with pytest.raises(Held) as held:
                target.gate.admit(to_record(payload), RUN, CODE)
            assert held.value.reason in (Refusal.QUERY, Refusal.LENGTH)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def target_terms(target: Target) -> bytes:
    terms: bytes = labels_pb2.Reply.FromString(target.reply).terms.SerializeToString(deterministic=True)
    return terms
