"""Labels whose votes silos learn the shares of: what travels, what a learner is taught, and a whole run."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.consensus.counting import shares_of_votes
from fedct_flwr.coordinator.questions import Asking, Learning
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.learners.build import untrained
from fedct_flwr.silo.answers import SiloTools, answer
from fedct_flwr.types import ABSTAIN, ConfigError, Examples, Refusal, Refused
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.codec import decode_instruction, decode_reply, encode_instruction, encode_reply
from fedct_flwr.wire.content import Instruction, Query, Reply, Terms
from fedct_flwr.wire.kinds import HARD, SHARES, kind_of

NUM_PUBLIC = 6
TERMS = Terms("heart", bytes(32), NUM_PUBLIC, ("a", "b", "c"))
VOTES = {"oslo": np.int16([0, 0, 1, 2, ABSTAIN, 1]), "bern": np.int16([0, 1, 1, 2, ABSTAIN, 0])}
RULE = shares_of_votes(3)


def asked(server_round: int = 2) -> Instruction:
    table = np.full(NUM_PUBLIC, ABSTAIN, dtype=np.int16)
    state = RULE.init(["oslo", "bern"])
    if server_round > 1:
        table, state = RULE.apply(VOTES.items(), table, state, np.random.default_rng(0))
    asking = Asking(TERMS, RULE, NUM_PUBLIC, 0, Learning(1.0), seed=1, answer=SHARES.name)
    return asking.instruction(server_round, table, state)


def test_silos_are_told_the_shares_of_the_votes_and_not_who_won() -> None:
    sent = asked()
    assert (sent.targets == ABSTAIN).all()
    read = decode_instruction(encode_instruction(sent, TERMS), TERMS)
    assert kind_of(read, TERMS) is SHARES
    assert read.soft is not None
    assert read.soft.targets is not None
    order = read.soft.targets.query.positions(NUM_PUBLIC)
    told = np.empty((NUM_PUBLIC, 3))
    told[order] = read.soft.targets.votes
    assert told[:4].round(2).tolist() == [[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]]
    assert np.ptp(told[4]) == 0
    assert told[5].round(2).tolist() == [0.5, 0.5, 0]


def test_the_answer_is_that_of_labels_and_costs_the_same() -> None:
    question = asked()
    payload = encode_reply(Reply(2, "oslo", VOTES["oslo"]), TERMS)
    labels = replace(question, soft=None, answer="")
    for one in (question, labels):
        read = decode_reply(payload, TERMS, one).outcome
        assert isinstance(read, np.ndarray)
        np.testing.assert_array_equal(read, VOTES["oslo"])
    assert SHARES.cost(question, TERMS) == HARD.cost(labels, TERMS)


@pytest.mark.parametrize("soft", [True, False], ids=["next to shares", "in place of shares"])
def test_labels_to_learn_are_refused(soft: bool) -> None:
    message = labels_pb2.Instruction.FromString(encode_instruction(asked(), TERMS))
    if not soft:
        message.ClearField("soft")
    labeled = Instruction(2, Query(0, 3), np.zeros(TERMS.num_public, np.int16))
    message.targets.CopyFrom(labels_pb2.Instruction.FromString(encode_instruction(labeled, TERMS)).targets)
    with pytest.raises(Refused) as caught:
        decode_instruction(message.SerializeToString(deterministic=True), TERMS)
    assert caught.value.reason is Refusal.MALFORMED


@pytest.mark.parametrize("also", [{"answer": "nobody"}, {"answer": "hard"}, {"votes": 2}, {"summed": True}], ids=str)
def test_a_name_of_no_such_kind_or_with_another_question_is_refused(also: dict[str, Any]) -> None:
    message = labels_pb2.Instruction.FromString(encode_instruction(asked(1), TERMS))
    message.MergeFrom(labels_pb2.Instruction(**also))
    with pytest.raises(Refused) as caught:
        decode_instruction(message.SerializeToString(deterministic=True), TERMS)
    assert caught.value.reason in (Refusal.MALFORMED, Refusal.QUERY)


class Noted:
    """A learner of probabilities that keeps what it is taught."""

    def __init__(self) -> None:
        self.taught: list[tuple[Any, ...]] = []

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Noted":
        self.taught.append((X, y, sample_weight))
        return self

    def predict(self, X: Any) -> Any:
        return np.zeros(len(X), dtype=np.int16)

    def probabilities(self, X: Any, num_classes: int) -> Any:
        return np.tile(np.eye(num_classes)[1], (len(X), 1))

    def check_soft(self) -> None:
        """It can."""


def bench_of(learner: Any, pseudo_weight: float = 1.0) -> SiloTools:
    public = PublicSet(np.arange(NUM_PUBLIC, dtype=np.float64)[:, np.newaxis])
    private = Examples(np.float64([[10], [11]]), np.int16([0, 1]))
    settings = LearnerSettings.read({"name": "logistic-regression", "pseudo-weight": pseudo_weight}, "a test")
    parts = {"learner": learner, "public": public, "private": private, "settings": settings, "terms": TERMS}
    return cast(SiloTools, SimpleNamespace(**parts, safeguard=None, soft_safeguard=None))


def test_a_learner_is_taught_each_share_and_nothing_of_ties_of_all_classes() -> None:
    learner = Noted()
    labels = answer(SHARES, bench_of(learner, pseudo_weight=0.5), asked())
    assert labels.tolist() == [1] * NUM_PUBLIC
    ((X, y, weights),) = learner.taught
    rows = zip(X[2:, 0], y[2:], weights[2:], strict=True)
    shares = {(float(x), int(label)): float(weight) for x, label, weight in rows}
    assert weights[:2].tolist() == [1, 1]
    # Each example counts pseudo-weight in all.
    assert shares == pytest.approx(
        {(0, 0): 0.5, (1, 0): 0.25, (1, 1): 0.25, (2, 1): 0.5, (3, 2): 0.5, (5, 0): 0.25, (5, 1): 0.25}, abs=0.005
    )


def test_a_learner_that_knows_no_probabilities_is_refused() -> None:
    learner = untrained(LearnerSettings(name="svm"), 0, ("a", "b", "c"), np.zeros((2, 1)), None)
    for server_round in (1, 2):
        with pytest.raises(ConfigError):
            answer(SHARES, bench_of(learner), asked(server_round))
