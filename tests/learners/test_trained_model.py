"""What a learner answers is a class, probabilities or a value, or it raises: nothing is cast into what it is not."""

from typing import Any, Self

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from fedct_flwr.learners.sklearn import SklearnLearner, prepare
from fedct_flwr.learners.soft import soft_labels
from fedct_flwr.learners.trained_model import places_of, probabilities_of, values_of
from fedct_flwr.types import TrainingError

NUMBER = 4
X = np.array([[0.0], [1.0], [2.0], [3.0]])
Y = np.array([0, 1, 0, 1], dtype=np.int16)
CODES = np.array([0, 1, 0, 1])

RIGHT: dict[str, Any] = {
    "int64": CODES,
    "uint8": CODES.astype(np.uint8),
    "whole floats": CODES.astype(np.float32),
    "truth values": CODES == 1,
    "a column": CODES[:, np.newaxis],
    "a list": CODES.tolist(),
    "objects that are numbers": CODES.astype(object),
}
WRONG: dict[str, tuple[Any, str]] = {
    "-1 and 1": (2 * CODES - 1, "from -1 to 1"),
    "1 to 2": (CODES + 1, "from 1 to 2"),
    "what wraps around to a class": (CODES + (1 << 16), "from 65,536 to 65,537"),
    "probabilities": (np.array([0.1, 0.9, 0.2, 0.8]), "from 0.1 to 0.9"),
    "probabilities of each class": (np.full((NUMBER, 2), 0.5), r"shape \(4, 2\)"),
    "too few": (CODES[:3], r"shape \(3,\)"),
    "NaN": (np.array([0, 1, np.nan, 1]), "1 of 4 are not finite"),
    "infinity": (np.array([0, 1, np.inf, 1]), "1 of 4 are not finite"),
    "text": (CODES.astype(str), "<U"),
    "complex numbers": (CODES.astype(complex), "complex"),
    "masked": (np.ma.masked_equal(CODES, 1), "mask"),
    "dates": (np.array(["2020-01-01"] * 4, dtype="datetime64[D]"), "datetime64"),
}


class Answering(ClassifierMixin, BaseEstimator):
    """Answers what it is given, whatever it was taught."""

    def __init__(self, answer: Any = None, shares: Any = None, classes: Any = (0, 1)) -> None:
        self.answer, self.shares, self.classes = answer, shares, classes

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        self.classes_ = self.classes
        return self

    def predict(self, X: Any) -> Any:
        return self.answer

    def predict_proba(self, X: Any) -> Any:
        return self.shares


def learner(**answers: Any) -> SklearnLearner:
    return SklearnLearner(prepare(Answering(**answers), "own", 0), num_classes=2).fit(X, Y)


class TestClasses:
    @pytest.mark.parametrize("answer", RIGHT.values(), ids=RIGHT)
    def test_whole_numbers_of_classes_are_taken_whatever_their_type(self, answer: Any) -> None:
        found = learner(answer=answer).predict(X)
        assert found.dtype == np.int16
        assert found.tolist() == CODES.tolist()

    @pytest.mark.parametrize(("answer", "told"), WRONG.values(), ids=WRONG)
    def test_anything_else_is_refused_in_one_sentence(self, answer: Any, told: str) -> None:
        with pytest.raises(TrainingError, match=told) as refused:
            learner(answer=answer).predict(X)
        said = str(refused.value)
        assert said.startswith("Answering answered ")
        assert "0 to 1" in said
        assert "\n" not in said

    @pytest.mark.parametrize("answer", [2 * CODES - 1, CODES + 4, np.full((NUMBER, 2), 0.5)])
    def test_a_gap_in_the_classes_hides_nothing(self, answer: Any) -> None:
        """As an index -1 would be the last class, and truth values would be a mask."""
        trained = SklearnLearner(Answering(answer=answer), num_classes=5).fit(X, np.int16([1, 4, 1, 4]))
        with pytest.raises(TrainingError, match="Answering answered"):
            trained.predict(X)

    def test_a_loaded_model_is_held_to_the_same(self, tmp_path: Any) -> None:
        before = SklearnLearner(prepare(Answering(answer=[-1, 1, -1, 1]), "own", 0), packages=["tests"]).fit(X, Y)
        before.save(tmp_path / "model")
        again = SklearnLearner(Answering(), packages=["tests"], num_classes=2).load(tmp_path / "model")
        with pytest.raises(TrainingError, match="from -1 to 1"):
            again.predict(X)


EVEN = np.full((NUMBER, 2), 0.5)
NO_PROBABILITIES: dict[str, tuple[Any, str]] = {
    "NaN": (np.where(np.eye(4, 2) > 0, np.nan, EVEN), "2 of 8 are not finite"),
    "negative": (EVEN - np.array([[0.6, -0.6]]), "from -0.1 to 1.1"),
    "above 1": (EVEN * 2, "sum to between 2 and 2"),
    "log-probabilities": (np.log(EVEN), "from -0.6931"),
    "one column": (EVEN[:, :1], r"shape \(4, 1\)"),
    "too few rows": (EVEN[:3], r"shape \(3, 2\)"),
    "a list of arrays": ([EVEN, EVEN], r"shape \(2, 4, 2\)"),
    "text": (EVEN.astype(str), "<U"),
}


class TestProbabilities:
    @pytest.mark.parametrize(("shares", "told"), NO_PROBABILITIES.values(), ids=NO_PROBABILITIES)
    def test_what_are_none_is_refused(self, shares: Any, told: str) -> None:
        trained = learner(answer=CODES, shares=shares)
        for asked in (lambda: trained.probabilities(X, 2), lambda: soft_labels(trained, X, 2)):
            with pytest.raises(TrainingError, match=told):
                asked()

    @pytest.mark.parametrize(
        ("classes", "told"),
        [
            ([-1, 1], "from -1 to 1"),
            ([0, 5], "from 0 to 5"),
            (["a", "b"], "<U"),
        ],
    )
    def test_columns_of_no_class_are_refused(self, classes: Any, told: str) -> None:
        """-1 would be the last column."""
        with pytest.raises(TrainingError, match=told):
            learner(shares=EVEN, classes=classes).probabilities(X, 2)

    def test_columns_go_to_their_classes(self) -> None:
        found = probabilities_of([[0.25, 0.75]], np.array([2, 0]), 1, 3)
        assert found.tolist() == [[0.75, 0, 0.25]]

    def test_what_rounding_leaves_below_zero_is_zero(self) -> None:
        assert probabilities_of([[-1e-17, 1.0]], [0, 1], 1, 2).tolist() == [[0, 1]]

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_rows_need_not_sum_to_1_more_exactly_than_their_type_can(self, dtype: Any) -> None:
        shares = np.random.default_rng(0).dirichlet(np.ones(10), size=500).astype(dtype)
        assert probabilities_of(shares, np.arange(10), 500, 10).shape == (500, 10)


def test_an_answer_that_is_no_label_and_a_value_that_is_no_number_are_refused() -> None:
    with pytest.raises(TrainingError, match="not all of them labels"):
        places_of(["no", "maybe"], np.array(["no", "yes"]), 2)
    with pytest.raises(TrainingError, match="one finite number"):
        values_of([1.0, np.inf], 2)
