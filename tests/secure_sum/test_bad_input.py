"""Bad messages, numbers and rosters: one fault each, nothing is opened, and nothing is paid twice."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedct_flwr.secure_sum import messages as m
from fedct_flwr.secure_sum.coordinator import sum_securely
from fedct_flwr.secure_sum.messages import Header, Step
from fedct_flwr.secure_sum.terms import Fault, Shape, SumRefused, SumTerms
from fedct_flwr.types import ConfigError
from tests.secure_sum.silos import BITS, LENGTH, Federation, fault_of, federation, key, names, shape

LARGEST = 5


def asked(made: Federation, about: Shape | None = None) -> dict[str, bytes]:
    return made.coordinator.ask(about or shape())


def paid(made: Federation) -> list[int]:
    return [numbers.paid for numbers in made.numbers.values()]


def flipped(message: bytes, at: int) -> bytes:
    return message[:at] + bytes([message[at] ^ 1]) + message[at + 1 :]


# --- terms


@pytest.mark.parametrize(
    ("silos", "about", "named"),
    [
        (2, {}, "3 to 100 silos"),
        (101, {}, "3 to 100 silos"),
        (4, {"min_summands": 2}, "min-summands"),
        (4, {"min_summands": 5}, "min-summands"),
        (4, {"min_summands": 3, "may_collude": 2}, "may-collude"),
        (4, {"may_collude": -1}, "may-collude"),
    ],
)
def test_terms_that_protect_nobody_are_refused(silos: int, about: dict[str, int], named: str) -> None:
    keys = {f"silo-{number}": number.to_bytes(32, "big") for number in range(silos)}
    with pytest.raises(ConfigError, match=named):
        SumTerms("run", keys, **about)


# --- rosters


def introduced(made: Federation) -> dict[str, bytes]:
    return dict(made.exchange(made.coordinator.invite()))


def rosters(made: Federation) -> list[m.Member]:
    made.coordinator.roster(introduced(made))
    return made.coordinator._members


def said_of(made: Federation, members: list[m.Member], name: str = "silo-00") -> Fault | None:
    header = Header(Step.ROSTER, made.coordinator._session).encode()
    return fault_of(made.say(name, header + m.encode_roster(members, made.coordinator._terms.names)))


ROSTERS: dict[str, tuple[Callable[[list[m.Member]], list[m.Member]], Fault]] = {
    "too few": (lambda members: members[:2], Fault.TOO_FEW),
    "the silo is missing": (lambda members: members[1:], Fault.ROSTER),
    "one silo twice": (lambda members: [*members, members[-1]], Fault.ROSTER),
    "another order": (lambda members: members[::-1], Fault.ROSTER),
    "an unknown key": (
        lambda members: [*members[:3], dataclasses.replace(members[3], public=bytes(range(32)))],
        Fault.SIGNATURE,
    ),
    "a key of another silo": (
        lambda members: [*members[:3], dataclasses.replace(members[2], name="silo-03")],
        Fault.SIGNATURE,
    ),
}


@pytest.mark.parametrize(("change", "fault"), ROSTERS.values(), ids=ROSTERS)
def test_wrong_rosters_are_refused(change: Callable[[list[m.Member]], list[m.Member]], fault: Fault) -> None:
    made = federation(4, begun=False)
    assert said_of(made, change(rosters(made))) is fault


def test_a_key_whose_secret_everybody_knows_is_refused() -> None:
    # The silo itself signed it: X25519 with it gives zero with each other key.
    made = federation(4, begun=False)
    members = rosters(made)
    content = m.introduction(made.coordinator._terms.digest, made.coordinator._session, "silo-03", bytes(32))
    members[3] = m.Member("silo-03", bytes(32), key("silo-03").sign(content))
    assert said_of(made, members) is Fault.ROSTER


def test_two_rosters_of_a_session_are_refused() -> None:
    made = federation(4, begun=False)
    members = rosters(made)
    assert said_of(made, members) is None
    assert said_of(made, members[:3]) is Fault.NUMBER


# --- questions


def test_a_vector_of_another_length_or_out_of_range_leaves_no_silo() -> None:
    made = federation(5)
    made.numbers["silo-00"].vector_ = np.zeros(LENGTH + 1, dtype=np.uint64)
    made.numbers["silo-01"].vector_ = np.full(LENGTH, 1 << BITS, dtype=np.uint64)
    made.numbers["silo-02"].vector_ = np.zeros(LENGTH)  # type: ignore[assignment]
    replies = made.exchange(asked(made))
    faults = [fault_of(reply) for reply in replies.values()]
    assert faults == [Fault.SHAPE, Fault.VALUES, Fault.SHAPE, None, None]
    assert paid(made) == [0, 0, 0, 1, 1]
    with pytest.raises(SumRefused) as caught:
        made.coordinator.answered(replies)
    assert caught.value.fault is Fault.TOO_FEW
    assert set(made.coordinator.faults) == {"silo-00", "silo-01", "silo-02"}


def test_a_sum_that_can_overflow_is_refused_on_both_sides() -> None:
    made = federation(4)
    tight = shape(bits=4, largest=LARGEST)
    with pytest.raises(SumRefused) as caught:
        asked(made, tight)
    assert caught.value.fault is Fault.OVERFLOW
    requests = made.coordinator._ask(tight, made.coordinator._dealers)
    assert {fault_of(reply) for reply in made.exchange(requests).values()} == {Fault.OVERFLOW}
    assert paid(made) == [0] * 4
    with pytest.raises(SumRefused):
        shape(bits=4, largest=1 << 4)


def test_one_subject_is_summed_once_also_in_another_session() -> None:
    made = federation(4)
    sum_securely(made.coordinator, made.exchange, shape(subject=0))
    assert {fault_of(reply) for reply in made.exchange(asked(made, shape(subject=0))).values()} == {Fault.REPEATED}
    made.coordinator.dealt(made.exchange(made.coordinator.roster(introduced(made))))
    assert {fault_of(reply) for reply in made.exchange(asked(made, shape(subject=0))).values()} == {Fault.REPEATED}
    assert paid(made) == [1] * 4


# --- lists of survivors


def test_two_lists_of_survivors_are_refused() -> None:
    made = federation(5)
    made.lost = lambda name, step: name == "silo-04" and step is Step.ASK
    requests = made.coordinator.answered(made.exchange(asked(made)))
    header = Header(Step.SURVIVORS, made.coordinator._session, 1).encode()
    assert fault_of(made.say("silo-00", requests["silo-00"])) is None
    for survivors in ((1, 2, 3, 4), (0, 1, 2, 3, 4)):
        assert fault_of(made.say("silo-00", header + bytes([len(survivors), *survivors]))) is Fault.LISTS
    signed = made.coordinator.signed(made.exchange(requests))
    everybody = m.Open((0, 1, 2, 3, 4), dict.fromkeys([1, 2, 3, 4], bytes(16)), {})
    opening = Header(Step.OPEN, made.coordinator._session, 1).encode()
    assert fault_of(made.say("silo-00", opening + everybody.encode())) is Fault.LISTS
    assert fault_of(made.say("silo-00", signed["silo-00"])) is None


def test_no_list_is_signed_for_a_sum_that_was_opened() -> None:
    made = federation(4)
    sum_securely(made.coordinator, made.exchange, shape())
    opened = Header.of(made.seen[Step.OPEN, "silo-00"][0])
    header = Header(Step.SURVIVORS, opened.session, opened.number).encode()
    assert fault_of(made.say("silo-00", header + bytes([3, 0, 1, 2]))) is Fault.LISTS


@pytest.mark.parametrize(
    ("survivors", "fault"),
    [
        ((0, 1, 2), Fault.TOO_FEW),
        ((0, 1, 2, 9), Fault.LISTS),
        ((0, 1, 1, 2), Fault.LISTS),
        ((3, 2, 1, 0), Fault.LISTS),
    ],
)
def test_wrong_lists_of_survivors_are_refused(survivors: tuple[int, ...], fault: Fault) -> None:
    made = federation(5)
    made.exchange(asked(made))
    header = Header(Step.SURVIVORS, made.coordinator._session, 1).encode()
    assert fault_of(made.say("silo-00", header + bytes([len(survivors), *survivors]))) is fault


def test_a_list_with_too_few_or_wrong_signatures_opens_nothing() -> None:
    made = federation(5)
    made.lost = lambda name, step: name == "silo-04" and step is Step.ASK
    requests = made.coordinator.signed(made.exchange(made.coordinator.answered(made.exchange(asked(made)))))
    signature = requests["silo-00"][-64:]
    for wrong, fault in (
        (requests["silo-00"][:-64] + flipped(signature, 0), Fault.SIGNATURE),
        (requests["silo-00"][: -64 * 4 - 5] + bytes([0]), Fault.UNCONFIRMED),
    ):
        assert fault_of(made.say("silo-00", wrong)) is fault
    assert fault_of(made.say("silo-00", requests["silo-00"])) is None


# --- silos that send garbage


def test_a_silo_that_lies_spoils_a_sum_of_bounded_numbers_and_is_told() -> None:
    made = federation({name: np.full(400, 1, dtype=np.uint64) for name in names(4)})
    liar = made.silos["silo-02"]
    masked = liar._masked

    def lie(*about: object) -> bytes:
        return bytes(len(masked(*about)))  # type: ignore[arg-type]

    liar._masked = lie  # type: ignore[method-assign]
    with pytest.raises(SumRefused) as caught:
        sum_securely(made.coordinator, made.exchange, shape(length=400, largest=1))
    assert caught.value.fault is Fault.SPOILED


def test_wrong_shares_spoil_a_sum_and_are_told() -> None:
    made = federation(4)

    def lie(name: str, step: Step, reply: bytes) -> bytes:
        if (name, step) != ("silo-00", Step.OPEN):
            return reply
        return m.signed(key(name), made.coordinator._roster, flipped(reply[: -m.SIGNATURE_SIZE], 30))

    made.changed = lie
    with pytest.raises(SumRefused) as caught:
        sum_securely(made.coordinator, made.exchange, shape())
    assert caught.value.fault is Fault.SPOILED
    made.changed = lambda name, step, reply: reply
    assert len(sum_securely(made.coordinator, made.exchange, shape()).summands) == 4


def test_a_silo_with_wrong_tags_spoils_one_sum_and_is_left_out_of_the_next() -> None:
    made = federation(5)

    def lie(name: str, step: Step, reply: bytes) -> bytes:
        if (name, step) != ("silo-02", Step.ASK):
            return reply
        first, tags = 25 + -(-LENGTH * BITS // 8), 4 * m.TAG_SIZE
        wrong = reply[:first] + bytes(tags) + reply[first + tags : -m.SIGNATURE_SIZE]
        return m.signed(key(name), made.coordinator._roster, wrong)

    made.changed = lie
    with pytest.raises(SumRefused) as caught:
        sum_securely(made.coordinator, made.exchange, shape())
    assert caught.value.fault is Fault.TOO_FEW
    others = ("silo-00", "silo-01", "silo-03", "silo-04")
    assert {made.coordinator.faults[name] for name in others} == {Fault.UNCONFIRMED}
    assert sum_securely(made.coordinator, made.exchange, shape()).summands == others


# --- mutated messages


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_no_mutated_request_is_answered_with_shares_or_a_vector(data: st.DataObject) -> None:
    made = federation(4)
    made.lost = lambda name, step: name == "silo-03" and step is Step.ASK
    requests = asked(made)
    at = data.draw(st.sampled_from([Step.ASK, Step.SURVIVORS, Step.OPEN]))
    if at is not Step.ASK:
        requests = made.coordinator.answered(made.exchange(requests))
    if at is Step.OPEN:
        requests = made.coordinator.signed(made.exchange(requests))
    request = requests["silo-00"]
    change = data.draw(st.sampled_from(["flip", "cut", "more"]))
    place = data.draw(st.integers(0, len(request) - 1))
    mutated = {"flip": flipped(request, place), "cut": request[:place], "more": request + bytes(place + 1)}[change]
    before = paid(made)
    reply = made.say("silo-00", mutated)
    if fault_of(reply) is None:
        # What a flipped bit may still say: another subject, range or list, which is a question of its own.
        assert change == "flip"
        assert at is not Step.OPEN
    else:
        assert len(reply) == 27
        assert paid(made) == before
        assert fault_of(made.say("silo-00", request)) is None  # a wrong message spoils no right one
