"""What silos are asked: labels of the round before for all, or each its own targets once it has some."""

import numpy as np

from fedct_flwr.consensus.counting import counting, plurality
from fedct_flwr.consensus.prediction import prediction_consensus
from fedct_flwr.consensus.trust import naive
from fedct_flwr.coordinator.questions import Asking, Learning, no_targets
from fedct_flwr.types import ABSTAIN
from fedct_flwr.wire.content import Terms
from fedct_flwr.wire.kinds import kind_of

TERMS = Terms("heart", bytes(32), 6, ("no", "yes"))
HARD = Asking(TERMS, counting(2, plurality), 3, 0, Learning(), seed=1)
SOFT = Asking(TERMS, prediction_consensus(2, naive()), 3, 0, Learning(weight=0.25), seed=1)


def test_labels_of_the_round_before_and_no_older_ones_go_to_all() -> None:
    table = np.int16([0, 1, 0, 1, 0, 1])
    first, second = HARD.instruction(1, no_targets(6), {}), HARD.instruction(2, table, {})
    assert {kind_of(first, TERMS).name, kind_of(second, TERMS).name} == {"hard"}
    assert (first.targets == ABSTAIN).all()
    asked = first.query.positions(6)
    assert second.targets[asked].tolist() == table[asked].tolist()
    assert (np.delete(second.targets, asked) == ABSTAIN).all()
    assert HARD.own(second, {}, "oslo") is None


def test_a_silo_has_targets_from_the_second_round_on_of_the_examples_that_were_asked_about() -> None:
    state = SOFT.consensus.init(["oslo", "bergen"])
    first = SOFT.instruction(1, no_targets(6), state)
    assert kind_of(first, TERMS).name == "probabilities"
    assert first.soft is not None
    assert first.soft.targets is None
    assert SOFT.own(first, state, "oslo") is None
    votes = [("oslo", np.float32([[1, 0]] * 3)), ("bergen", np.float32([[0, 1]] * 3))]
    _, state = SOFT.consensus.apply(votes, no_targets(3), state, np.random.default_rng(0))
    second = SOFT.own(SOFT.instruction(2, no_targets(6), state), state, "oslo")
    assert second is not None
    assert second.soft is not None
    assert second.soft.targets is not None
    assert second.soft.targets.weight == 0.25
    assert second.soft.targets.query == first.query
    assert second.soft.targets.votes.tolist() == [[0.5, 0.5]] * 3
    assert (second.targets == ABSTAIN).all()
    # Who comes now begins as all did.
    assert SOFT.own(second, state, "tromso") is None
