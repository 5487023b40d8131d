"""What is asked of a labeler, asked of every one there is. To add one, enter it in ``LABELERS``."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dp_accounting import NoOpDpEvent
from syrupy.assertion import SnapshotAssertion

from fedct_flwr import datasets
from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.config.privacy import PROTECTIONS, PrivacySettings
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.labelers import labeler as labelers
from fedct_flwr.labelers.dp_linear import DpLinearLabeler
from fedct_flwr.labelers.labeler import Asked, Labeler, RandomizedLabeler, Start, check_installed, labeler_for
from fedct_flwr.labelers.public_features import Kind, PublicFeatures
from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.events import composed, from_json, to_json
from fedct_flwr.privacy.randomness import SecureNoise, SimulatedNoise
from fedct_flwr.types import ABSTAIN, ConfigError, Examples, TrainingError
from tests.sentences import sentence

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


# --- from settings to a labeler


DATA = datasets.load(RunConfig.from_flower({"study": "heart-disease", "data": "heart-disease"}))
LEARNER = LearnerSettings(name="logistic-regression")
NETWORK = LearnerSettings(name="tests.federation.learners.network")
WITH_LABELER = [name for name, entry in PROTECTIONS.items() if entry.labeler]


def privacy(protection: str, **values: Any) -> PrivacySettings:
    return PrivacySettings.read({"protection": protection, **values}, "a test")


def labeler(settings: PrivacySettings, learner: LearnerSettings = LEARNER, num_records: int = 168) -> Labeler:
    return labeler_for(Start(settings, learner, "cleveland", DATA.schema, DATA.public, num_records))


@pytest.mark.parametrize("protection", WITH_LABELER)
def test_each_protection_has_its_labeler(protection: str) -> None:
    made = labeler(privacy(protection), NETWORK if protection == "dp-sgd" else LEARNER)
    made.restore(made.dump())


@pytest.mark.parametrize(
    ("protection", "missing", "extras"),
    [
        ("dp-linear", {"dp_accounting"}, "dp_accounting: pip install -c constraints.txt -e '.[privacy]'"),
        ("dp-sgd", {"torch"}, "torch: pip install -c constraints.txt -e '.[dp-sgd]'"),
        ("dp-sgd", {"torch", "opendp"}, "opendp, torch: pip install -c constraints.txt -e '.[dp-sgd]'"),
    ],
)
def test_a_missing_extra_is_named(
    protection: str, missing: set[str], extras: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labelers, "find_spec", lambda name: None if name in missing else object())
    said = sentence(ConfigError, lambda: check_installed(privacy(protection)))
    assert said == f"protection = '{protection}' needs {extras}"


@pytest.mark.parametrize("protection", ["none", "fedkt-l2"])
def test_what_covers_no_labels_has_no_labeler(protection: str) -> None:
    with pytest.raises(ConfigError, match=f"labels are asked for, which protection = '{protection}' does not cover"):
        labeler(privacy(protection))


def test_dp_sgd_needs_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelers, "check_installed", lambda settings: None)
    with pytest.raises(ConfigError, match="'dp-sgd' trains networks, and learner 'logistic-regression' is not one"):
        labeler(privacy("dp-sgd"), LEARNER)
    labeler(privacy("dp-sgd"), NETWORK)


@pytest.mark.parametrize(
    ("settings", "learner", "records"),
    [
        (privacy("dp-sgd"), LearnerSettings(name="tests.federation.learners.normalized"), 168),
        (privacy("dp-linear", epsilon=1e-9), LEARNER, 168),
    ],
)
def test_what_cannot_be_kept_is_said_before_anything_runs(
    settings: PrivacySettings, learner: LearnerSettings, records: int, wording: SnapshotAssertion
) -> None:
    assert sentence(ConfigError, labeler, settings, learner, records).partition(": ")[0] == wording


SMALL_PUBLIC = PublicSet(np.random.default_rng(0).normal(size=(40, 3)))
SMALL_SCHEMA = Schema.numeric(("ill", "well"), ("a", "b", "c"))


@pytest.mark.parametrize("name", WITH_LABELER)
def test_a_protection_says_how_the_choice_is_covered_or_refuses_it(name: str):
    privacy = PrivacySettings(protection=name, epsilon=5.0)
    try:
        labeler_for(Start(privacy, LearnerSettings(name="auto"), "essen", SMALL_SCHEMA, SMALL_PUBLIC, 100))
    except ConfigError:
        assert not PROTECTIONS[name].of_auto
    else:
        assert PROTECTIONS[name].of_auto
