"""Areas, intervals and guesses."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from fedct_flwr.audit.success import auc, guesses


def drawn(effect: float, refits: int = 4, n: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    members = rng.random((refits, n)) < 0.5
    return rng.normal(size=n) + effect * members + rng.normal(size=members.shape), members


def test_the_area_is_scikit_learns() -> None:
    scores, members = drawn(1.0)
    found = auc(scores, members)
    assert found.value == pytest.approx(roc_auc_score(members.ravel(), scores.ravel()))
    assert found.low < found.value < found.high


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    # Records differ, so that refits of the same records are not independent.
    held = [auc(*drawn(0.0, seed=seed)) for seed in range(200)]
    assert np.mean([area.low <= 0.5 <= area.high for area in held]) >= 0.91


def test_all_members_or_none_have_no_area() -> None:
    with pytest.raises(ValueError, match="both"):
        auc(np.zeros((2, 3)), np.ones((2, 3), dtype=bool))


def test_guesses_are_right_by_half_where_nothing_is_told() -> None:
    rates = []
    for seed in range(20):
        _, members = drawn(0.0, seed=seed)
        noise = np.random.default_rng(seed + 1000).normal(size=(6, *members.shape))
        guessed = guesses(dict(zip("abcdef", noise, strict=True)), members)
        rates.append(auc(guessed.astype(float), members).value)
    assert np.mean(rates) == pytest.approx(0.5, abs=0.012)  # the best of six is chosen, and still no better


def test_the_area_of_guesses_is_the_mean_of_the_shares_guessed_right() -> None:
    scores, members = drawn(1.0)
    guessed = guesses({"a": scores}, members)
    shares = guessed[members].mean(), (~guessed[~members]).mean()
    assert auc(guessed.astype(float), members).value == pytest.approx(np.mean(shares))
