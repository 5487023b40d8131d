"""Mutated messages by the thousand: nothing but an identical copy of a legal reply passes, and nothing is raised.

``FEDCT_FUZZ`` is the number of messages in total (2,000 that are always the same; if it is set, other ones each time).
"""

import itertools
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from flwr.app import RecordDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedct_flwr.hospital.gate import Gate, Held
from fedct_flwr.hospital.log_entry import Event, read_entries
from fedct_flwr.types import Refusal
from fedct_flwr.wire.codec import decode_instruction, encode_instruction
from fedct_flwr.wire.content import Scores
from fedct_flwr.wire.messages import from_record, to_record
from tests.hospital.gates import CODE, RUN, Silo, open_silo, outcome

pytestmark = pytest.mark.slow

MANY = 2**62
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
    logger = logging.getLogger("flwr.fedct")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
            silo = open_silo(Path(folder), max_bytes=MANY, max_queries=MANY, max_rounds=MANY, **policy)
            yield silo
            assert silo.verify().intact
    finally:
        logger.setLevel(level)


def let_out(gate: Gate, content: RecordDict, request: bytes) -> Refusal | bytes:
    left = gate.release(content, request, RUN, CODE)
    assert left is not None
    return outcome(from_record(left))


SCORES = Scores(0.5, 0.25, 1.0, float("nan"))
Message = Callable[[Silo], bytes]
KINDS: dict[str, tuple[dict[str, Any], Message, Message, int]] = {
    "labels": (
        {"metrics": True}, lambda silo: silo.request(2, 40), lambda silo: silo.reply(2, 40, scores=SCORES), 40
    ),
    "counts": (
        {"kinds": ["hard", "counts"]},
        lambda silo: silo.request(2, 40, votes=2), lambda silo: silo.counts(2, 40), 80,
    ),
    "probabilities": (
        {"kinds": ["hard", "soft"]},
        lambda silo: silo.soft_request(2, 40), lambda silo: silo.probabilities(2, 40), 80,
    ),
}  # fmt: skip
"""The policy, the question, its answer, and as how many labels that counts."""


@pytest.fixture(scope="module")
def targets() -> Iterator[dict[str, Target]]:
    """A target for each kind of answer."""
    with ExitStack() as stack:
        made = {}
        for kind, (policy, request, reply, _) in KINDS.items():
            silo = stack.enter_context(silo_in_memory(**policy))
            target = Target(silo, stack.enter_context(silo.gate()), request(silo), reply(silo))
            target.gate.admit(to_record(target.request), RUN, CODE)
            assert let_out(target.gate, to_record(target.reply), target.request) == target.reply
            made[kind] = target
        yield made
        # Nothing but the one answer has left.
        for kind, target in made.items():
            left = [line.queries for line in read_entries(target.silo.state) if line.event is Event.RELEASED]
            assert left == [KINDS[kind][3]]


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
    if outcome(reply) is Refusal.INTERNAL:
        return
    found = let_out(target.gate, to_record(reply), target.request)
    if reply == target.reply:
        assert found == reply
    else:
        assert isinstance(found, Refusal)
        assert found not in (Refusal.INTERNAL, Refusal.NOT_LOGGED)


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
    try:
        # Each in a run of its own: in one that has a question, other contents are refused whatever they are.
        admitted = target.gate.admit(to_record(payload), next(RUNS), CODE)
    except Held as held:
        reason, sent = held.reason, held.record and outcome(from_record(held.record))
    else:
        assert admitted == payload
        assert encode_instruction(decode_instruction(payload, silo.terms), silo.terms) == payload
        return
    assert reason is sent
    assert reason not in (Refusal.INTERNAL, Refusal.NOT_LOGGED)
