"""Who has gained and who has lost."""

import numpy as np
import pytest
from scipy.stats import binomtest

from fedct_flwr.scoring.intervals import verdict


def models(better: int, worse: int, same: int, label: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions on records of one class: alone, together, and what is right."""
    alone = np.int16([1 - label] * better + [label] * worse + [label] * same)
    together = np.int16([label] * better + [1 - label] * worse + [label] * same)
    return alone, together, np.full(better + worse + same, label, dtype=np.int16)


@pytest.mark.parametrize(("better", "worse"), [(5, 0), (6, 0), (1, 9), (20, 8), (3, 3)])
def test_with_one_class_it_is_the_sign_test(better: int, worse: int):
    found = verdict(*models(better, worse, 10))
    assert found is not None
    assert found.p == pytest.approx(binomtest(better, better + worse).pvalue)
    assert (found.better, found.worse) == (better, worse)
    assert found.gain == pytest.approx((better - worse) / (better + worse + 10))


def test_words():
    assert verdict(*models(5, 0, 10)).word == ""  # type: ignore[union-attr]
    assert verdict(*models(6, 0, 10)).word == "gained"  # type: ignore[union-attr]
    assert verdict(*models(0, 6, 10)).word == "lost"  # type: ignore[union-attr]


def test_to_call_everybody_healthy_is_no_gain():
    """Nine of ten are healthy; the second model finds fewer of the ill, and errs less often."""
    y = np.int16([0] * 90 + [1] * 10)
    alone, together = y.copy(), np.zeros(100, dtype=np.int16)
    alone[:20] = 1
    found = verdict(alone, together, y)
    assert found is not None
    assert (found.better, found.worse) == (20, 10)
    assert found.gain == pytest.approx(20 / 180 - 0.5)
    assert found.word == "lost"


def test_by_chance_one_in_twenty_at_most():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(400):
        y = (rng.random(40) < 0.3).astype(np.int16)
        alone, together = (np.where(rng.random(40) < 0.75, y, 1 - y).astype(np.int16) for _ in range(2))
        found = verdict(alone, together, y)
        hits += bool(found and found.word)
    assert hits <= 400 * 0.08
