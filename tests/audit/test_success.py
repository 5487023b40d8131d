"""Areas, intervals and guesses."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from fedct_flwr.audit.success import guesses, success


def drawn(effect: float, refits: int = 4, n: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    members = rng.random((refits, n)) < 0.5
    return rng.normal(size=n) + effect * members + rng.normal(size=members.shape), members


def test_the_area_is_scikit_learns() -> None:
    scores, members = drawn(1.0)
    found = success(scores, members)
    assert found.auc.value == pytest.approx(roc_auc_score(members.ravel(), scores.ravel()))
    assert found.auc.low < found.auc.value < found.auc.high
    assert found.members + found.non_members == members.size


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    # Records differ, so that refits of the same records are not independent.
    held = [success(*drawn(0.0, seed=seed)).auc for seed in range(200)]
    assert np.mean([auc.low <= 0.5 <= auc.high for auc in held]) >= 0.91


def test_true_positives_count_where_few_others_are_above() -> None:
    members = np.arange(2000)[None] % 2 == 0
    scores = np.where(members, np.arange(2000) % 10 < 4, 0).astype(float)
    one_percent, one_in_a_thousand = success(scores, members).true_positives
    assert one_percent.value == pytest.approx(scores[members].mean())
    assert one_in_a_thousand.value == one_percent.value
    constant = success(np.zeros((1, 2000)), members)
    assert constant.true_positives[0].value == 0


def test_all_members_or_none_have_no_area() -> None:
    with pytest.raises(ValueError, match="both"):
        success(np.zeros((2, 3)), np.ones((2, 3), dtype=bool))


def test_guesses_are_right_by_half_where_nothing_is_told() -> None:
    rates = []
    for seed in range(20):
        _, members = drawn(0.0, seed=seed)
        noise = np.random.default_rng(seed + 1000).normal(size=(6, *members.shape))
        rates.append(guesses(dict(zip("abcdef", noise, strict=True)), members).right.value)
    assert np.mean(rates) == pytest.approx(0.5, abs=0.012)  # the best of six is chosen, and still no better
