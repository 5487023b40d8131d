import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from fedct_flwr.learners.binning import _BINNING, _SLOW, train
from fedct_flwr.learners.sklearn import SklearnLearner

SIZE = 600
Columns = Callable[[np.random.Generator], np.ndarray]


def ties(rng: np.random.Generator) -> np.ndarray:
    """More values than bins, many of them several times."""
    return rng.normal(size=(SIZE, 3)).round(2)


def gaps(rng: np.random.Generator) -> np.ndarray:
    X = rng.normal(size=(SIZE, 3))
    X[rng.random(X.shape) < 0.3] = np.nan
    return X


def mixed(rng: np.random.Generator) -> np.ndarray:
    """Columns of few values, of one and of many, and infinities."""
    X = np.stack([rng.integers(0, 2, SIZE), np.ones(SIZE), rng.normal(size=SIZE), rng.normal(size=SIZE)], axis=1)
    X[:5, 3], X[5:12, 3] = np.inf, -np.inf
    return X


COLUMNS: list[Columns] = [ties, gaps, mixed, lambda rng: rng.normal(size=(SIZE, 3))]
WEIGHTS: dict[str, Columns] = {
    "ones": lambda rng: np.ones(SIZE),
    "classes": lambda rng: rng.choice([0.55, 5.7], SIZE),
    "any": lambda rng: rng.random(SIZE),
    "zeros": lambda rng: rng.integers(0, 3, SIZE).astype(np.float64),
}


def state(model: Any) -> Any:
    """All that was learned: trees, limits of bins, and what else the object holds, but times."""
    trees = [tree.nodes.tobytes() for step in model._predictors for tree in step]
    limits = [limit.tobytes() for limit in model._bin_mapper.bin_thresholds_]
    return trees, limits, model._bin_mapper.n_bins_non_missing_.tolist(), sorted(vars(model))


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
class TestTrain:
    def test_learns_what_the_library_does_to_the_bit(self, columns: Columns, weights: Columns):
        rng = np.random.default_rng(0)
        X, w = columns(rng), weights(rng)
        y = (np.nan_to_num(X[:, -1], posinf=0, neginf=0) + 0.3 * rng.normal(size=SIZE) > 0).astype(np.int16)
        for kind in (HistGradientBoostingClassifier, HistGradientBoostingRegressor):
            model = kind(max_iter=3, random_state=0)
            ours = state(train(model, X, y, sample_weight=w))
            assert ours == state(kind(max_iter=3, random_state=0).fit(X, y, sample_weight=w))


def test_records_beyond_those_that_the_library_bins_by_are_left_to_it():
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(200_001, 1)), rng.random(200_001)
    y = (X[:, 0] > 0).astype(np.int16)
    ours, theirs = (
        state(fit(HistGradientBoostingClassifier(max_iter=1, random_state=0), X, y, sample_weight=w))
        for fit in (train, HistGradientBoostingClassifier.fit)
    )
    assert ours == theirs


def test_stopping_early_asks_validation_records_in_the_same_bins():
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(SIZE, 3)), rng.random(SIZE)
    y = (X[:, 0] > 0).astype(np.int16)
    ours, theirs = (
        fit(HistGradientBoostingClassifier(early_stopping=True, random_state=0), X, y, sample_weight=w)
        for fit in (train, HistGradientBoostingClassifier.fit)
    )
    assert state(ours) == state(theirs)
    assert (ours.validation_score_ == theirs.validation_score_).all()


def test_the_model_is_left_as_the_library_leaves_it_also_if_it_cannot_learn():
    model = HistGradientBoostingClassifier()
    with pytest.raises(ValueError, match="inconsistent"):
        train(model, np.zeros((3, 1)), np.zeros(2), sample_weight=np.ones(3))
    assert "_bin_data" not in vars(model)


@pytest.mark.skipif(not hasattr(sys.modules[_BINNING], _SLOW), reason="this scikit-learn is fast itself")
class TestWithASlowLibrary:
    @pytest.fixture(autouse=True)
    def slow_path_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def called(*args: Any, **params: Any) -> None:
            raise AssertionError("a percentile was asked for alone")

        monkeypatch.setattr(f"{_BINNING}.{_SLOW}", called)

    @pytest.mark.parametrize("classes", [(0, 1), (1, 3)], ids=["all-classes", "with-a-gap"])
    def test_a_silo_s_boosted_trees_take_the_fast_way(self, classes: tuple[int, int]):
        X = np.random.default_rng(0).normal(size=(SIZE, 2))
        y = np.where(X[:, 0] > 0, *classes).astype(np.int16)
        learner = SklearnLearner(HistGradientBoostingClassifier(max_iter=2), balanced=True, num_classes=4)
        assert (learner.fit(X, y).predict(X) == y).mean() > 0.9

    def test_the_library_itself_is_not_changed(self):
        X = np.random.default_rng(0).normal(size=(SIZE, 1))
        train(HistGradientBoostingClassifier(max_iter=1), X, X[:, 0] > 0, sample_weight=np.ones(SIZE))
        with pytest.raises(AssertionError, match="alone"):
            HistGradientBoostingClassifier(max_iter=1).fit(X, X[:, 0] > 0, sample_weight=np.ones(SIZE))
