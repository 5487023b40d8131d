"""A secure sum is the plain one, whoever drops out whenever, or it is refused."""

from itertools import product

import numpy as np
import pytest

from fedct_flwr.secure_sum.coordinator import SecureSum, begin_session, sum_securely
from fedct_flwr.secure_sum.messages import Step
from fedct_flwr.secure_sum.silo import SumClient
from fedct_flwr.secure_sum.terms import Fault, SumRefused, sum_modulo
from tests.secure_sum.silos import BITS, Federation, federation, key, names, shape, terms

LEAVES = {step: at for at, step in enumerate((Step.ASK, Step.SURVIVORS, Step.OPEN))}
STAYS = len(LEAVES)
MOST_THAT_LEAVE = 3


def plain(made: Federation, summands: tuple[str, ...], bits: int = BITS) -> np.ndarray:
    return sum_modulo([made.numbers[name].vector_ for name in summands], bits)


def leave(made: Federation, pattern: tuple[int, ...], replies_lost: bool) -> None:
    """Let each silo be away from its step of the pattern on, until the sum is over."""
    steps = dict(zip(made.silos, pattern, strict=True))
    made.lost = lambda name, step: LEAVES[step] >= steps[name]
    made.replies_lost = replies_lost


def all_deal(made: Federation) -> None:
    made.lost = lambda name, step: False
    made.coordinator.answered(made.exchange(made.coordinator.refresh()))


@pytest.mark.parametrize("replies_lost", [False, True], ids=["requests get lost", "replies get lost"])
@pytest.mark.parametrize(("silos", "may_collude"), [(3, 0), (3, 1), (4, 1), (5, 1), (6, 1)])
def test_every_pattern_of_dropouts_gives_the_plain_sum_or_none(
    silos: int, may_collude: int, replies_lost: bool
) -> None:
    # All patterns of up to three silos that leave, in one session: each silo comes back after each of them.
    made = federation(silos, may_collude)
    quorum, opened = made.coordinator._terms.quorum(silos), 0
    for pattern in product(range(STAYS + 1), repeat=silos):
        if silos - pattern.count(STAYS) > MOST_THAT_LEAVE:
            continue  # fewer stay than any of these quorums
        all_deal(made)
        leave(made, pattern, replies_lost)
        there = [sum(step > at for step in pattern) for at in range(STAYS)]
        signs = there[LEAVES[Step.ASK]] < silos
        enough = there[LEAVES[Step.ASK]] >= max(quorum, 3) and there[LEAVES[Step.OPEN]] >= quorum
        if signs:
            enough = enough and there[LEAVES[Step.SURVIVORS]] >= quorum
        else:  # nobody is asked to sign
            alive = sum(step != LEAVES[Step.OPEN] and step != LEAVES[Step.SURVIVORS] for step in pattern)
            enough = alive >= quorum
        if not enough:
            with pytest.raises(SumRefused) as caught:
                sum_securely(made.coordinator, made.exchange, shape())
            assert caught.value.fault in (Fault.TOO_FEW, Fault.UNCONFIRMED), pattern
            continue
        found = sum_securely(made.coordinator, made.exchange, shape())
        opened += 1
        assert found.summands == tuple(
            name for name, step in zip(made.silos, pattern, strict=True) if step > LEAVES[Step.ASK]
        )
        np.testing.assert_array_equal(found.total, plain(made, found.summands))
    # Of three silos of which one may collude, all have to stay.
    assert opened == 1 if (silos, may_collude) == (3, 1) else opened > silos


@pytest.mark.parametrize("bits", [1, 3, 8, 9, 16, 31, 32, 33, 63, 64])
@pytest.mark.parametrize("length", [1, 7, 64])
def test_sums_are_plain_ones_at_every_width(bits: int, length: int) -> None:
    rng = np.random.default_rng(bits)
    highest = (1 << bits) - 1
    vectors = {name: rng.integers(0, highest, length, dtype=np.uint64, endpoint=True) for name in names(4)}
    vectors["silo-00"][:] = highest
    made = federation(vectors)
    for lost in ("", "silo-02"):
        made.lost = lambda name, step, lost=lost: name == lost and step is Step.ASK
        found = sum_securely(made.coordinator, made.exchange, shape(length, bits))
        np.testing.assert_array_equal(found.total, plain(made, found.summands, bits))


def test_two_exchanges_a_sum_and_a_third_where_a_silo_drops_out() -> None:
    made = federation(5)
    made.exchanges = 0
    sum_securely(made.coordinator, made.exchange, shape())
    assert made.exchanges == 2
    made.lost = lambda name, step: name == "silo-01" and step is Step.ASK
    sum_securely(made.coordinator, made.exchange, shape())
    assert made.exchanges == 2 + 3


def test_a_silo_that_lost_its_memory_takes_part_in_another_session() -> None:
    made = federation(4)
    made.silos["silo-02"] = SumClient("silo-02", key("silo-02"), terms(names(4)))
    found = sum_securely(made.coordinator, made.exchange, shape())
    assert "silo-02" not in found.summands
    assert made.coordinator.faults == {}  # the last step asked the others only
    begin_session(made.coordinator, made.exchange)
    assert "silo-02" in sum_securely(made.coordinator, made.exchange, shape()).summands


def test_the_session_goes_on_after_a_sum_that_failed() -> None:
    made = federation(4)
    made.lost = lambda name, step: name in ("silo-00", "silo-01")
    with pytest.raises(SumRefused) as caught:
        sum_securely(made.coordinator, made.exchange, shape())
    assert caught.value.fault is Fault.TOO_FEW
    made.lost = lambda name, step: False
    assert not made.coordinator.ready
    found = sum_securely(made.coordinator, made.exchange, shape())
    assert isinstance(found, SecureSum)
    assert len(found.summands) == 4
    np.testing.assert_array_equal(found.total, plain(made, found.summands))


def test_a_lost_reply_is_given_again_and_costs_nothing() -> None:
    made = federation(4)
    requests = made.coordinator.ask(shape())
    first, again = (made.exchange(requests) for _ in range(2))
    assert first == again
    assert {numbers.paid for numbers in made.numbers.values()} == {1}
    opening = made.coordinator.answered(again)
    assert made.exchange(opening) == made.exchange(opening)
