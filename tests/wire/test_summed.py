"""Kinds of sums: each asks as the kind whose answers are added, and its sum says what that kind's answers say."""

from dataclasses import replace

import numpy as np
import pytest

from fedct_flwr.privacy.noise_shares import VoteShares
from fedct_flwr.secure_sum.votes import opened, shape_of_votes
from fedct_flwr.types import ABSTAIN, Refusal, Refused
from fedct_flwr.wire.codec import decode_instruction, decode_reply, encode_instruction, encode_reply
from fedct_flwr.wire.content import Instruction, Query, Reply, Soft, Terms
from fedct_flwr.wire.kinds import NOISY_SUMS, NOTHING, SUMS, Summed, kind_of
from fedct_flwr.wire.packing import Grid

TERMS = Terms("study", bytes(32), 6, ("well", "ill", "unclear"))
OF_A_NUMBER = Terms("study", bytes(32), 6, (), "days", Grid(0, 30, 0.5))
QUERY = Query(5, 4)
NOBODY = np.full(6, ABSTAIN, np.int16)
every_kind = pytest.mark.parametrize("kind", SUMS.values(), ids=list(SUMS))


def question_of(kind: Summed) -> Instruction:
    return kind.question(3, QUERY, NOBODY, 2 if kind.inner.name == "counts" else 0, Soft())


@every_kind
def test_a_question_arrives_as_it_was_sent_and_the_reply_says_ready(kind: Summed) -> None:
    question, terms = question_of(kind), TERMS
    read = decode_instruction(encode_instruction(question, terms), terms)
    assert kind_of(read, terms) is kind
    reply = decode_reply(encode_reply(Reply(3, "a", NOTHING), terms), terms, read)
    assert isinstance(reply.outcome, np.ndarray)
    assert reply.outcome.size == 0


@every_kind
def test_a_sum_of_a_hundred_silos_has_room(kind: Summed) -> None:
    shape_of_votes(kind, question_of(kind), TERMS, bytes(32)).check_room(100)


def test_probabilities_and_values_are_in_no_sum() -> None:
    for terms in (TERMS, OF_A_NUMBER):
        question = Instruction(3, QUERY, NOBODY, soft=Soft(), summed=True)
        with pytest.raises(Refused) as refused:
            kind_of(decode_instruction(encode_instruction(question, terms), terms), terms)
        assert refused.value.reason is Refusal.QUERY


@every_kind
def test_a_sum_of_more_votes_than_silos_is_none_of_votes(kind: Summed) -> None:
    question = question_of(kind)
    # Two silos vote, and one abstains on the last example.
    honest = np.uint64([2, 0, 0, 1, 1, 0, 0, 0, 2, 1, 0, 0])
    opened(kind, honest, question, TERMS, 2)
    # A third one would have all classes win.
    with pytest.raises(Refused) as refused:
        opened(kind, honest + np.uint64(1), question, TERMS, 3)
    assert refused.value.reason is Refusal.UNKNOWN_CLASS


@pytest.mark.parametrize("noise", [0.5, 10.0, 10_000.0])
@pytest.mark.parametrize("kind", NOISY_SUMS.values(), ids=list(NOISY_SUMS))
def test_a_sum_of_random_numbers_is_none_of_votes_with_noise(kind: Summed, noise: float) -> None:
    question = replace(question_of(kind), summed=True, noise=noise)
    rng = np.random.default_rng(0)
    with pytest.raises(Refused) as refused:
        opened(kind, rng.integers(0, 2**32, 12, dtype=np.uint64), question, TERMS, 4)
    assert refused.value.reason is Refusal.UNKNOWN_CLASS
    # Of three silos one noise is enough: four deviations of it are still believed, and ten are not.
    shares = VoteShares(noise, 4, 3, 1)

    def far(deviations: int) -> np.ndarray:
        by = round(deviations * shares.share_scale * 3**0.5)
        return np.array([3 * shares.grid + by, -by] + [0] * 10).astype(np.uint64) % 2**32

    opened(kind, far(4), question, TERMS, 3, honest=1)
    with pytest.raises(Refused):
        opened(kind, far(10), question, TERMS, 3, honest=1)
