"""Attacks on made-up answers: what they must find, and where there is nothing to find."""

import numpy as np
import pytest

from fedct_flwr.audit import attacks
from fedct_flwr.audit.attacks import Observation, all_scores, lira
from fedct_flwr.audit.success import auc
from fedct_flwr.types import ABSTAIN

Y = np.array([0, 1, 1], dtype=np.int16)


def labels(*rows: list[int]) -> np.ndarray:
    return np.array(rows, dtype=np.int16)


def test_the_gap_attack_reads_the_last_label_that_was_given() -> None:
    said = labels([0, 0, ABSTAIN], [1, ABSTAIN, ABSTAIN])
    assert attacks.gap(said, Y).tolist() == [0.0, 0.0, 0.5]


def test_agreement_is_over_the_rounds_that_asked() -> None:
    said = labels([0, 1, ABSTAIN], [1, ABSTAIN, ABSTAIN])
    assert attacks.agreement(said, Y).tolist() == [0.5, 1.0, 0.5]


def test_confidence_grows_with_the_probability_of_the_true_class() -> None:
    said = np.array([[[0.9, 0.1], [0.5, 0.5], [np.nan, np.nan]]])
    true = attacks.true_probability(said, Y)
    assert true.tolist() == pytest.approx([0.9, 0.5, 0.5])
    assert attacks.confidence(true)[0] > attacks.confidence(true)[1] == pytest.approx(0)


def test_a_summed_gradient_points_along_those_of_its_members() -> None:
    own = np.random.default_rng(0).normal(size=(2, 20, 30, 2))
    opened = own[:, :10].sum(axis=1)
    found = attacks.gradient(opened, own)
    assert found[:10].min() > found[10:].max()


def world(effect: float, refits: int = 6, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    members = rng.random((refits, n)) < 0.5
    level = rng.normal(scale=3, size=n)  # records differ by far more than membership does
    return level + effect * members + rng.normal(size=members.shape), members


def area(scores: np.ndarray, members: np.ndarray) -> float:
    return auc(scores, members).value


def test_shadow_runs_find_what_the_signal_alone_hides() -> None:
    signals, members = world(1.0)
    assert area(lira(signals, members), members) > area(signals, members) + 0.1


def test_no_refit_is_attacked_with_its_own_memberships() -> None:
    signals, members = world(1.0)
    other = members.copy()
    other[2] = ~other[2]
    assert np.array_equal(lira(signals, members)[2], lira(signals, other)[2])
    assert not np.array_equal(lira(signals, members)[3], lira(signals, other)[3])


def test_an_attack_that_one_silo_does_not_allow_is_left_out_for_all() -> None:
    bits = np.array([[True, False, True]] * 2)
    whole = Observation(Y, labels([0, 1, 1]), gradient=np.zeros(3))
    part = Observation(Y, labels([0, 1, 1]))
    found = all_scores([{"a": whole, "b": part}] * 2, {"a": bits, "b": bits})
    assert set(found) == {"gap"}
    assert found["gap"].shape == (2, 6)
