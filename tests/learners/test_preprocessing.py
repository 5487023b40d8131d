"""Preprocessing on small tables that can be checked by hand."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.learners import preprocessing
from fedct_flwr.learners.preprocessing import standard
from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.learners.trained_model import apply, transformed
from fedct_flwr.types import DataError, TrainingError

NAN = np.nan
NUMERIC = Schema.numeric(("no", "yes"), ("age", "pressure"))
MIXED = Schema(("no", "yes"), (Column("pain", ("typical", "none")), Column("age")))
"""A category before a number: where numbers are scaled, they come out first."""


class TestNumericColumns:
    def test_are_scaled_to_mean_0_and_deviation_1(self):
        reference = np.float64([[1, 10], [3, 30]])
        assert standard(NUMERIC, reference).transform(reference).tolist() == [[-1, -1], [1, 1]]

    def test_keep_their_units_and_places_where_nothing_is_to_be_scaled(self):
        kept = standard(MIXED, np.float64([[0, 1], [1, 3], [0, NAN]]), scaled=False)
        assert kept.transform(np.float64([[1, 140], [0, NAN]])).tolist() == [[1, 140], [0, 2]]

    def test_take_their_statistics_from_the_reference_alone(self):
        transformer = standard(NUMERIC, np.float64([[1, 10], [3, 30]]))
        alone = transformer.transform(np.float64([[5, 20]]))
        beside_others = transformer.transform(np.float64([[5, 20], [1000, -1000]]))
        assert alone.tolist() == beside_others[:1].tolist() == [[3, 0]]

    def test_that_are_missing_count_as_the_reference_mean(self):
        transformer = standard(NUMERIC, np.float64([[1, 10], [3, 30], [NAN, 20]]))
        assert transformer.transform(np.float64([[NAN, NAN]])).tolist() == [[0, 0]]

    def test_never_measured_in_the_reference_stay_as_zeros(self):
        transformer = standard(NUMERIC, np.float64([[1, NAN], [3, NAN]]))
        assert transformer.transform(np.float64([[3, NAN], [1, NAN]])).tolist() == [[1, 0], [-1, 0]]


class TestCategoricalColumns:
    def test_are_one_hot(self):
        reference = np.float64([[0, 1], [1, 3]])
        assert standard(MIXED, reference).transform(reference).tolist() == [[-1, 1, 0], [1, 0, 1]]

    def test_are_arrays_whatever_scikit_learn_is_set_to(self):
        reference = np.float64([[0, 1], [1, NAN]])
        with config_context(transform_output="pandas"):
            found = apply(standard(MIXED, reference), reference)
        assert found.tolist() == apply(standard(MIXED, reference), reference).tolist()

    def test_of_pipelines_are_arrays_too(self):
        X, y = np.float64([[0, 1], [1, 3]] * 5), np.array([0, 1] * 5)
        learner = SklearnLearner(make_pipeline(StandardScaler(), GaussianNB())).fit(X, y)
        # With other settings scikit-learn would warn of names of columns.
        with config_context(transform_output="pandas"):
            assert learner.predict(X).tolist() == y.tolist()

    def test_that_are_missing_are_a_category_of_their_own(self):
        reference = np.float64([[NAN, 1], [0, 3], [1, 2]])
        encoded = standard(MIXED, reference).transform(reference)[:, 1:]
        assert encoded.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]

    def test_unknown_to_the_public_set_but_known_to_the_silo_are_a_category(self):
        """The silo's data are part of the reference, and its schema code for an unknown value is one past the last."""
        unknown = len(MIXED.columns[0].categories)
        reference = np.float64([[0, 1], [1, 3], [unknown, 2]])
        assert standard(MIXED, reference).transform(reference)[2, 1:].tolist() == [0, 0, 1]

    def test_unknown_to_the_reference_are_no_category(self):
        transformer = standard(MIXED, np.float64([[0, 1], [1, 3]]))
        assert transformer.transform(np.float64([[2, 3], [NAN, 3]]))[:, 1:].tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("shape", [(4, 8, 8), (4, 8, 8, 3), (4,)])
def test_features_that_are_no_table_are_refused(shape: tuple[int, ...]):
    with pytest.raises(DataError, match="is for tables"):
        standard(NUMERIC, np.zeros(shape))


@pytest.mark.parametrize("X", [[[np.inf, 1.0]], [[1.0]], [[1.0, 2.0, 3.0]]], ids=["infinity", "fewer", "more"])
def test_features_that_do_not_fit_are_refused(X: list[list[float]]):
    transformer = standard(NUMERIC, np.float64([[1, 10], [3, 30]]))
    with pytest.raises(TrainingError, match="could not be preprocessed"):
        transformed(transformer, np.array(X))


@pytest.mark.parametrize("column", [0, 1])
def test_infinity_in_the_reference_is_refused(column: int):
    reference = np.float64([[1, 10], [0, 30]])
    reference[0, column] = np.inf
    with pytest.raises(DataError, match="cannot be preprocessed"):
        standard(MIXED, reference)


CODES = Schema(("no", "yes"), (Column("zip", tuple(f"z{number:04}" for number in range(3000))), Column("age")))


class TestVeryManyCategories:
    """Beyond a number of values the rarest categories get no columns."""

    @pytest.fixture(autouse=True)
    def few_values(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(preprocessing, "MOST_VALUES", 40_000)

    def test_take_no_more_memory_than_is_said_and_frequent_ones_stay(self):
        codes = np.concatenate([np.arange(3000), np.repeat([7, 9, NAN], 400)])
        X = np.column_stack([codes, np.ones(len(codes))])
        found = apply(standard(CODES, X[:2000], X[2000:]), X)
        # Age, missing, and two codes: each of all others has one record.
        assert found.shape == (4200, 4)
        assert found[:, 1:].sum(axis=0).tolist() == [400, 401, 401]
        assert not found[0, 1:].any()
