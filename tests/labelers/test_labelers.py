"""What is asked of a labeler, asked of every one there is. To add one, enter it in ``LABELERS``."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from dp_accounting import NoOpDpEvent

from fedct_flwr.datasets.schema import Schema
from fedct_flwr.labelers.dp_linear import DpLinearLabeler
from fedct_flwr.labelers.labeler import Asked, Labeler
from fedct_flwr.labelers.public_features import Kind, PublicFeatures
from fedct_flwr.labelers.randomized import RandomizedLabeler
from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.events import composed, from_json, to_json
from fedct_flwr.privacy.randomness import SecureNoise, SimulatedNoise
from fedct_flwr.types import ABSTAIN, Examples, TrainingError

DELTA = 1e-5
ROUNDS = 3
QUERY = 20
SCHEMA = Schema.numeric(("a", "b", "c"), ("x0", "x1", "x2", "x3"))


def examples(count: int, seed: int) -> Examples:
    rng = np.random.default_rng(seed)
    y = (np.arange(count) % 3).astype(np.int16)
    return Examples(rng.normal(size=(count, 4), scale=0.3) + np.eye(3, 4)[y] * 3, y)


PRIVATE = examples(600, 1)
PUBLIC = examples(ROUNDS * QUERY, 2)


def dp_linear(target: float, kind: Kind = "kernel") -> Labeler:
    features = PublicFeatures(PUBLIC.X, SCHEMA, kind=kind, seed=0)
    return DpLinearLabeler(features, 3, num_units=PRIVATE.size, epsilon=target, delta=DELTA, steps=20)


LABELERS: dict[str, Callable[[float], Labeler]] = {
    "dp-linear": dp_linear,
    "dp-linear, linear features": lambda target: dp_linear(target, "linear"),
    "randomized-response": lambda target: RandomizedLabeler(3, num_queries=ROUNDS * QUERY, epsilon=target, delta=DELTA),
}
"""Each made for a total epsilon at DELTA, over ROUNDS rounds of QUERY examples."""

EVERY_ANSWER_COSTS = {"randomized-response"}

every_labeler = pytest.mark.parametrize("name", LABELERS)


def asked(number: int, private: Examples = PRIVATE) -> Asked:
    """The question of a round: each asks about other examples."""
    positions = np.arange(number * QUERY, (number + 1) * QUERY)
    targets = np.full(PUBLIC.size, ABSTAIN, np.int16)
    return Asked(private, PUBLIC.X, targets, PUBLIC.y[positions], positions)


def noise(seed: int = 0) -> SimulatedNoise:
    return SimulatedNoise(np.random.default_rng(seed))


@every_labeler
@pytest.mark.parametrize("target", [0.3, 1.0, 8.0])
def test_a_whole_study_costs_what_was_configured_and_hardly_less(name: str, target: float) -> None:
    labeler = LABELERS[name](target)
    events = []
    for number in range(ROUNDS):
        events.append(labeler.event(asked(number)))
        labeler.answer(asked(number), noise())
    assert 0.9 * target < epsilon(composed(*events), DELTA).upper <= target * (1 + 1e-9)


@every_labeler
def test_the_price_can_be_written_down_and_asking_for_it_changes_nothing(name: str) -> None:
    labeler = LABELERS[name](1.0)
    before = labeler.dump()
    event = labeler.event(asked(0))
    assert from_json(to_json(event)) == event == labeler.event(asked(0))
    assert labeler.dump() == before


@every_labeler
def test_the_price_depends_on_no_private_record(name: str) -> None:
    other = Examples(PRIVATE.X[::-1] * 7 + 1, np.zeros_like(PRIVATE.y))
    question = asked(0, other)._replace(votes=np.zeros(QUERY, np.int16))
    labeler = LABELERS[name](1.0)
    assert labeler.event(question) == labeler.event(asked(0))


@every_labeler
def test_a_second_answer_is_the_same_for_nothing_or_has_its_price(name: str) -> None:
    labeler = LABELERS[name](1.0)
    first = labeler.answer(asked(0), noise(1))
    again = labeler.event(asked(0))
    if name in EVERY_ANSWER_COSTS:
        assert epsilon(again, DELTA).upper > 0
        return
    assert again == NoOpDpEvent()
    np.testing.assert_array_equal(labeler.answer(asked(0), noise(2)), first)


@every_labeler
def test_goes_on_from_a_dump(name: str) -> None:
    labeler, other = LABELERS[name](1.0), LABELERS[name](1.0)
    first = labeler.answer(asked(0), noise(1))
    other.restore(labeler.dump())
    assert other.dump() == labeler.dump()
    assert other.event(asked(0)) == labeler.event(asked(0))
    assert other.event(asked(1)) == labeler.event(asked(1))
    if name not in EVERY_ANSWER_COSTS:
        np.testing.assert_array_equal(other.answer(asked(0), noise(2)), first)


@every_labeler
def test_goes_back_to_the_beginning(name: str) -> None:
    labeler, fresh = LABELERS[name](1.0), LABELERS[name](1.0)
    labeler.answer(asked(0), noise())
    labeler.reset()
    assert labeler.dump() == fresh.dump()
    assert labeler.event(asked(0)) == fresh.event(asked(0))
    np.testing.assert_array_equal(labeler.answer(asked(0), noise(3)), fresh.answer(asked(0), noise(3)))


@every_labeler
@pytest.mark.parametrize("state", [b"x", b"cos\nsystem\n(S'false'\ntR.", b"dplinear", b"dplinear" + bytes(200)])
def test_foreign_state_is_refused(name: str, state: bytes) -> None:
    with pytest.raises(TrainingError):
        LABELERS[name](1.0).restore(state)


def of_votes(votes: list[int]) -> Asked:
    nothing = Examples(np.empty((0, 1)), np.empty(0, np.int16))
    return Asked(nothing, np.zeros((len(votes), 1)), np.zeros(0, np.int16), np.int16(votes), np.arange(len(votes)))


def test_without_delta_each_label_has_its_share_of_epsilon() -> None:
    found = RandomizedLabeler(3, num_queries=10, epsilon=5.0, delta=0.0)
    assert found.mechanism.epsilon == pytest.approx(0.5, rel=2e-3)
    assert epsilon(found.event(of_votes([0] * 10)), 0).upper <= 5 * (1 + 1e-9)


def test_labels_are_kept_as_often_as_their_epsilon_allows() -> None:
    found = RandomizedLabeler(4, num_queries=10, epsilon=10.0, delta=0.0)
    labels = found.answer(of_votes([2] * 40_000), SecureNoise())
    kept = math.exp(found.mechanism.epsilon) / (math.exp(found.mechanism.epsilon) + 3)
    assert (labels == 2).mean() == pytest.approx(kept, abs=0.015)
