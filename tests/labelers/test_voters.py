"""What a record changes in a vote."""

import numpy as np
import pytest

from fedct_flwr.labelers.transfer import trained_on, votes_of
from fedct_flwr.types import Examples
from tests.labelers.sensitive import learner

PUBLIC = np.arange(40.0).reshape(-1, 1)


@pytest.mark.parametrize("record", range(0, 100, 9))
def test_a_record_more_changes_one_teachers_votes_only(record: int) -> None:
    rng = np.random.default_rng(record)
    private = Examples(rng.integers(0, 14, (100, 1)).astype(float), rng.integers(0, 5, 100).astype(np.int16))
    parts = rng.integers(0, 40, 100)
    keep = np.arange(100) != record
    one = votes_of(trained_on(parts, private, 40, learner), PUBLIC, 5)
    other = votes_of(trained_on(parts[keep], Examples(private.X[keep], private.y[keep]), 40, learner), PUBLIC, 5)
    assert (one.sum(axis=1) <= 40).all()
    gone = np.minimum(other - one, 0).sum(axis=1)
    come = np.maximum(other - one, 0).sum(axis=1)
    assert gone.min() >= -1
    assert come.max() <= 1


def test_a_split_into_equal_parts_would_change_many() -> None:
    """The planted mistake, with the same learners."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(14, 1000, (100, 1)).astype(float), np.zeros(100, np.int16)

    def cut(count: int) -> np.ndarray:
        return np.arange(count) * 20 // count

    one = trained_on(cut(100), Examples(X, y), 20, learner)
    other = trained_on(cut(99), Examples(X[1:], y[1:]), 20, learner)
    changed = [(a.predict(PUBLIC) != b.predict(PUBLIC)).any() for a, b in zip(one, other, strict=True)]
    assert sum(changed) > 10


def test_a_teacher_without_records_or_success_casts_no_vote() -> None:
    private = Examples(np.float64([[1], [13], [2]]), np.zeros(3, np.int16))
    assert (votes_of(trained_on(np.array([0, 4, 4]), private, 6, learner), PUBLIC, 5).sum(axis=1) == 1).all()
    assert not votes_of(trained_on(np.array([4, 4, 4]), private, 6, learner), PUBLIC, 5).any()
