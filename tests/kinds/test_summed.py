"""Kinds of sums: each asks as the kind whose answers are added, and its sum says what that kind's answers say."""

from dataclasses import replace

import numpy as np
import pytest

from fedct_flwr.consensus.counting import Total
from fedct_flwr.consensus.prediction import prediction_consensus
from fedct_flwr.consensus.trust import naive
from fedct_flwr.datasets.federated import Query
from fedct_flwr.kinds import NOISY_SUMS, SUMS, kind_of
from fedct_flwr.kinds.summed import NOTHING, Summed
from fedct_flwr.privacy.noise_shares import VoteShares
from fedct_flwr.types import ABSTAIN
from fedct_flwr.wire.codec import decode_instruction, decode_reply, encode_instruction, encode_reply
from fedct_flwr.wire.content import Instruction, Reply, Soft, Terms
from fedct_flwr.wire.packing import Grid, pack_probabilities, unpack_probabilities
from fedct_flwr.wire.refusal import Refusal, Refused

TERMS = Terms("study", bytes(32), 6, ("well", "ill", "unclear"))
OF_A_NUMBER = Terms("study", bytes(32), 6, (), "days", Grid(0, 30, 0.5))
QUERY = Query(5, 4)
NOBODY = np.full(6, ABSTAIN, np.int16)
SURE = SUMS["probabilities"]
every_kind = pytest.mark.parametrize("kind", SUMS.values(), ids=list(SUMS))


def question_of(kind: Summed) -> Instruction:
    return kind.question(3, QUERY, NOBODY, 2 if kind.inner.name == "counts" else 0, Soft())


def grid(seed: int, silos: int, examples: int = 4) -> list[np.ndarray]:
    """Probabilities of so many silos as a coordinator reads them."""
    drawn = np.random.default_rng(seed).dirichlet(np.ones(3), (silos, examples)).astype(np.float32)
    return [unpack_probabilities(pack_probabilities(own), examples, 3) for own in drawn]


@every_kind
def test_a_question_arrives_as_it_was_sent_and_the_reply_says_ready(kind: Summed) -> None:
    question, terms = question_of(kind), TERMS if kind.fits("") else OF_A_NUMBER
    read = decode_instruction(encode_instruction(question, terms), terms)
    assert kind_of(read, terms) is kind
    assert (read.soft is None) == (question.soft is None)
    reply = decode_reply(encode_reply(Reply(3, "a", NOTHING), terms), terms, read)
    assert isinstance(reply.outcome, np.ndarray)
    assert reply.outcome.size == 0


@every_kind
def test_a_sum_of_a_hundred_silos_has_room(kind: Summed) -> None:
    kind.shape(question_of(kind), TERMS, bytes(32)).check_room(100)


@pytest.mark.parametrize("silos", [3, 4, 7, 100])
@pytest.mark.parametrize("seed", range(3))
def test_the_mean_of_a_sum_is_that_of_the_answers_to_the_last_bit(silos: int, seed: int) -> None:
    votes = grid(seed, silos, examples=50)
    names = [f"silo-{number}" for number in range(silos)]
    rule, incumbent = prediction_consensus(3, naive()), np.full(50, ABSTAIN, np.int16)
    assert rule.of_sum
    assert rule.alike
    question = Instruction(1, Query(0, 50), np.full(50, ABSTAIN, np.int16), soft=Soft(), summed=True)
    terms = Terms("study", bytes(32), 50, TERMS.classes)
    total = sum(SURE.summand(own, question, terms) for own in votes)
    opened = SURE.opened(np.asarray(total), question, terms, silos)

    before = rule.init(names)
    plain = rule.apply(zip(names, votes, strict=True), incumbent, before, np.random.default_rng(1))
    summed = rule.of_sum(Total(opened, names), incumbent, before, np.random.default_rng(1))
    np.testing.assert_array_equal(summed[0], plain[0])
    first, second = rule.alike(plain[1]), rule.alike(summed[1])
    assert first is not None
    np.testing.assert_array_equal(second, first)
    # In whatever order the silos are.
    other = rule.apply(zip(names, reversed(votes), strict=True), incumbent, before, np.random.default_rng(1))
    np.testing.assert_array_equal(rule.alike(other[1]), first)


def test_a_sum_of_other_numbers_is_none_of_probabilities() -> None:
    question = question_of(SURE)
    total = np.asarray(sum(SURE.summand(own, question, TERMS) for own in grid(0, 3)))
    SURE.opened(total, question, TERMS, 3)
    for changed in (total + (np.arange(12) == 4), total - (np.arange(12) == total.argmax())):
        with pytest.raises(Refused) as refused:
            SURE.opened(changed.astype(np.uint64), question, TERMS, 3)
        assert refused.value.reason is Refusal.PROBABILITIES
    with pytest.raises(Refused):
        SURE.opened(total, question, TERMS, 4)


@pytest.mark.parametrize("kind", [SUMS["hard"], SUMS["counts"]], ids=lambda kind: kind.name)
def test_a_sum_of_more_votes_than_silos_is_none_of_votes(kind: Summed) -> None:
    question = question_of(kind)
    # Two silos vote, and one abstains on the last example.
    honest = np.uint64([2, 0, 0, 1, 1, 0, 0, 0, 2, 1, 0, 0])
    kind.opened(honest, question, TERMS, 2)
    # A third one would have all classes win.
    with pytest.raises(Refused) as refused:
        kind.opened(honest + np.uint64(1), question, TERMS, 3)
    assert refused.value.reason is Refusal.UNKNOWN_CLASS


@pytest.mark.parametrize("noise", [0.5, 10.0, 10_000.0])
@pytest.mark.parametrize("kind", NOISY_SUMS.values(), ids=list(NOISY_SUMS))
def test_a_sum_of_random_numbers_is_none_of_votes_with_noise(kind: Summed, noise: float) -> None:
    question = replace(question_of(kind), summed=True, noise=noise)
    rng = np.random.default_rng(0)
    with pytest.raises(Refused) as refused:
        kind.opened(rng.integers(0, 2**32, 12, dtype=np.uint64), question, TERMS, 4)
    assert refused.value.reason is Refusal.UNKNOWN_CLASS
    # Of three silos one noise is enough: four deviations of it are still believed, and ten are not.
    shares = VoteShares(noise, 4, 3, 1)

    def far(deviations: int) -> np.ndarray:
        by = round(deviations * shares.share_scale * 3**0.5)
        return np.array([3 * shares.grid + by, -by] + [0] * 10).astype(np.uint64) % 2**32

    kind.opened(far(4), question, TERMS, 3, honest=1)
    with pytest.raises(Refused):
        kind.opened(far(10), question, TERMS, 3, honest=1)


@pytest.mark.parametrize(
    "votes", [np.full((4, 3), np.nan), np.full((4, 3), 0.5), np.full((3, 3), 1 / 3), np.full((4, 2), 0.5)]
)
def test_what_are_no_probabilities_is_not_added(votes: np.ndarray) -> None:
    with pytest.raises(Refused):
        SURE.summand(votes, question_of(SURE), TERMS)
