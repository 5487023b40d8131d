"""Ranked classes: one encoding for each pair, and what the first two ranks decide."""

import itertools
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr.algorithms.borda import Borda
from fedct_flwr.datasets.public_set import Query
from fedct_flwr.kinds.ranked import RANKED
from fedct_flwr.types import ABSTAIN
from fedct_flwr.wire.codec import decode_reply, encode_reply
from fedct_flwr.wire.content import Instruction, Reply, Terms
from fedct_flwr.wire.labels_pb2 import Reply as Message
from fedct_flwr.wire.refusal import Refusal, Refused

TERMS = Terms("heart", bytes(32), 8, ("a", "b", "c"))
PAIRS = np.array(list(itertools.permutations(range(3), 2)), dtype=np.int16)
ASKED = Instruction(1, Query(7, len(PAIRS)), np.full(8, ABSTAIN, dtype=np.int16), answer="ranked")


def test_all_pairs_arrive_and_take_three_bits_each() -> None:
    payload = encode_reply(Reply(1, "oslo", PAIRS), TERMS)
    read = decode_reply(payload, TERMS, ASKED).outcome
    assert isinstance(read, np.ndarray)
    np.testing.assert_array_equal(read, PAIRS)
    assert len(Message.FromString(payload).ranked.packed) == -(-3 * len(PAIRS) // 8)


@pytest.mark.parametrize("pair", [(1, 1), (-1, 0), (0, 3)])
def test_what_are_no_two_classes_is_refused(pair: tuple[int, int]) -> None:
    with pytest.raises(Refused) as caught:
        encode_reply(Reply(1, "oslo", np.array([pair] * len(PAIRS), dtype=np.int16)), TERMS)
    assert caught.value.reason is Refusal.UNKNOWN_CLASS


def test_a_number_of_no_pair_is_refused() -> None:
    message = Message.FromString(encode_reply(Reply(1, "oslo", PAIRS), TERMS))
    message.ranked.packed = b"\x07" + message.ranked.packed[1:]
    with pytest.raises(Refused) as caught:
        decode_reply(message.SerializeToString(deterministic=True), TERMS, ASKED)
    assert caught.value.reason is Refusal.UNKNOWN_CLASS


def test_a_second_rank_outweighs_a_divided_first() -> None:
    # Two silos put 2 first and three put others first: with points 1 leads, which most have among their two.
    ballots = [("a", (2, 1)), ("b", (2, 1)), ("c", (0, 1)), ("d", (0, 1)), ("e", (1, 0))]
    votes = [(name, np.array([pair], dtype=np.int16)) for name, pair in ballots]
    consensus = Borda().consensus(3)
    labels, _ = consensus.apply(iter(votes), np.int16([ABSTAIN]), {}, np.random.default_rng(0))
    assert labels.tolist() == [1]
    assert RANKED.agreed(votes[4][1], labels) == 1.0


@given(
    st.lists(st.lists(st.permutations(range(3)), min_size=4, max_size=4), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
)
def test_the_order_of_silos_changes_nothing_and_unanimity_wins(rankings: list[list[list[int]]], order: Random) -> None:
    votes = [np.array(one, dtype=np.int16)[:, :2] for one in rankings]
    shuffled = list(votes)
    order.shuffle(shuffled)
    assert decided(votes) == decided(shuffled)
    assert decided(votes[:1] * 3) == votes[0][:, 0].tolist()


def decided(votes: list[np.ndarray]) -> list[int]:
    nothing = np.full(len(votes[0]), ABSTAIN, dtype=np.int16)
    labels, _ = Borda().consensus(3).apply(enumerate(votes), nothing, {}, np.random.default_rng(0))  # type: ignore[arg-type]
    return labels.tolist()
