"""Preprocessing on small tables that can be checked by hand."""

from typing import Any

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.learners import preprocessing
from fedct_flwr.learners.preprocessing import apply, standard, transformed
from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.types import DataError, TrainingError

NAN = np.nan
NUMERIC = Schema.numeric(("no", "yes"), ("age", "pressure"))
MIXED = Schema(("no", "yes"), (Column("pain", ("typical", "none")), Column("age")))
"""A category before a number: columns come out with numbers first."""


class TestNumericColumns:
    def test_are_scaled_to_mean_0_and_deviation_1(self):
        reference = np.float64([[1, 10], [3, 30]])
        assert standard(NUMERIC, reference).transform(reference).tolist() == [[-1, -1], [1, 1]]

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

    def test_without_any_spread_become_zeros(self):
        reference = np.float64([[1, 7], [3, 7]])
        assert standard(NUMERIC, reference).transform(reference)[:, 1].tolist() == [0, 0]

    @pytest.mark.parametrize("dtype", [np.float32, np.int16, np.int64])
    def test_may_be_of_any_numeric_type(self, dtype: type):
        reference = np.array([[1, 10], [3, 30]], dtype)
        assert standard(NUMERIC, reference).transform(reference).tolist() == [[-1, -1], [1, 1]]


class TestCategoricalColumns:
    def test_are_one_hot(self):
        reference = np.float64([[0, 1], [1, 3]])
        assert standard(MIXED, reference).transform(reference).tolist() == [[-1, 1, 0], [1, 0, 1]]

    def test_that_are_missing_are_a_category_of_their_own(self):
        reference = np.float64([[NAN, 1], [0, 3], [1, 2]])
        encoded = standard(MIXED, reference).transform(reference)[:, 1:]
        assert encoded.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]

    def test_all_missing_keep_a_column(self):
        reference = np.float64([[NAN, 1], [NAN, 3]])
        assert standard(MIXED, reference).transform(reference).tolist() == [[-1, 1], [1, 1]]

    def test_unknown_to_the_public_set_but_known_to_the_silo_are_a_category(self):
        """The silo's data are part of the reference, and its schema code for an unknown value is one past the last."""
        unknown = len(MIXED.columns[0].categories)
        reference = np.float64([[0, 1], [1, 3], [unknown, 2]])
        assert standard(MIXED, reference).transform(reference)[2, 1:].tolist() == [0, 0, 1]

    def test_unknown_to_the_reference_are_no_category(self):
        transformer = standard(MIXED, np.float64([[0, 1], [1, 3]]))
        assert transformer.transform(np.float64([[2, 3], [NAN, 3]]))[:, 1:].tolist() == [[0, 0], [0, 0]]


def test_columns_the_schema_does_not_name_are_numeric():
    reference = np.float64([[1], [3]])
    assert standard(Schema(("no", "yes")), reference).transform(reference).tolist() == [[-1], [1]]


@pytest.mark.parametrize("shape", [(4, 8, 8), (4, 8, 8, 3), (4,)])
def test_features_that_are_no_table_are_refused(shape: tuple[int, ...]):
    with pytest.raises(DataError, match="is for tables"):
        standard(NUMERIC, np.zeros(shape))


def scikit_learns(categorical: tuple[int, ...], reference: np.ndarray) -> ColumnTransformer:
    """The same, fitted by scikit-learn alone."""
    numeric = [position for position in range(reference.shape[1]) if position not in categorical]
    scale = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    encode = make_pipeline(
        SimpleImputer(strategy="constant", fill_value=-1, keep_empty_features=True),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    parts = [("numeric", scale, numeric), ("categorical", encode, list(categorical))]
    return ColumnTransformer(parts).fit(reference.astype(np.float64))


def clean(rows: int, categorical: tuple[int, ...], seed: int) -> np.ndarray:
    """The same with nothing missing."""
    X = messy(rows, categorical, seed)
    return np.where(np.isnan(X), np.random.default_rng(seed).integers(0, 7, size=X.shape), X)


def messy(rows: int, categorical: tuple[int, ...], seed: int, most: int = 7) -> np.ndarray:
    """Columns of very different scales, one of them constant, one never measured, with missing values."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6)) * 10.0 ** np.arange(-6, 6, 2)
    X[:, 1] = 4
    X[rng.random(X.shape) < 0.1] = NAN
    X[:, 3] = NAN
    for position in categorical:
        X[:, position] = np.where(rng.random(rows) < 0.1, NAN, rng.integers(0, most, size=rows))
    return X


class TestScikitLearn:
    """Fewer steps than scikit-learn takes, to the same bits, laid out the same: learners sum in memory's order."""

    @pytest.mark.parametrize("records", [messy, clean])
    @pytest.mark.parametrize("order", ["C", "F"])
    @pytest.mark.parametrize("rows", [1, 2, 41, 1500])
    @pytest.mark.parametrize("categorical", [(), (0, 2), (5,), (0, 1, 2, 3, 4, 5)])
    def test_gives_the_same(self, categorical: tuple[int, ...], rows: int, order: str, records: Any):
        columns = tuple(Column(f"c{i}", tuple("abcdefg") if i in categorical else None) for i in range(6))
        reference = np.asarray(records(rows, categorical, 0), order=order)
        expected, found = scikit_learns(categorical, reference), standard(Schema(("no", "yes"), columns), reference)
        for X in (reference, np.asarray(messy(60, categorical, 1, most=9), order=order), reference[:1]):
            wanted, given = expected.transform(X), apply(found, X)
            assert given.tobytes("A") == wanted.tobytes("A")
            assert (given.flags.c_contiguous, given.flags.f_contiguous) == (
                wanted.flags.c_contiguous, wanted.flags.f_contiguous,
            )  # fmt: skip
            # What is in model files is scikit-learn's own, and says the same.
            assert found.transform(X).tobytes("A") == wanted.tobytes("A")

    @pytest.mark.parametrize("categorical", [(), (0, 2), (0, 1, 2, 3, 4, 5)])
    @pytest.mark.parametrize("block", [1 << 22, 500])
    def test_gives_the_same_of_parts(self, categorical: tuple[int, ...], block: int, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(preprocessing, "_BLOCK_VALUES", block)
        columns = tuple(Column(f"c{i}", tuple("abcdefg") if i in categorical else None) for i in range(6))
        parts = [messy(rows, categorical, rows) for rows in (700, 0, 31)]
        for transformer in (standard(Schema(("no", "yes"), columns), *parts), FunctionTransformer(np.negative)):
            wanted, given = apply(transformer, np.concatenate(parts)), apply(transformer, *parts)
            assert given.tobytes("A") == wanted.tobytes("A")
            assert given.flags.f_contiguous == wanted.flags.f_contiguous

    def test_has_categories_that_are_no_small_whole_numbers(self):
        reference = np.float64([[-7, 1], [2.5, 3], [1e9, 2], [NAN, 5]])
        expected = scikit_learns((0,), reference)
        np.testing.assert_array_equal(apply(standard(MIXED, reference), reference), expected.transform(reference))

    def test_does_what_it_did_with_a_transformer_of_somebodys_own(self):
        doubling = FunctionTransformer(lambda X: 2 * X)
        assert apply(doubling, np.float64([[1], [3]])).tolist() == [[2], [6]]

    @pytest.mark.parametrize("X", [[[np.inf, 1.0]], [[1.0]], [[1.0, 2.0, 3.0]]], ids=["infinity", "fewer", "more"])
    def test_objects_to_the_same(self, X: list[list[float]]):
        transformer = standard(NUMERIC, np.float64([[1, 10], [3, 30]]))
        with pytest.raises(TrainingError, match="could not be preprocessed"):
            transformed(transformer, np.array(X))

    @pytest.mark.parametrize("column", [0, 1])
    def test_objects_to_infinity_in_the_reference(self, column: int):
        reference = np.float64([[1, 10], [0, 30]])
        reference[0, column] = np.inf
        with pytest.raises(DataError, match="cannot be preprocessed"):
            standard(MIXED, reference)

    def test_two_silos_share_no_statistics(self):
        """Of silos with the same categories one alone is fitted."""
        one, two = (standard(MIXED, np.float64([[0, first], [1, 3]])) for first in (1, -1))
        assert one.transform(np.float64([[0, 1]])).tolist() == [[-1, 1, 0]]
        assert two.transform(np.float64([[0, 1]])).tolist() == [[0, 1, 0]]


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

    def test_are_all_kept_where_there_is_room(self):
        X = np.column_stack([np.resize(np.arange(100.0), 400), np.ones(400)])
        assert apply(standard(CODES, X), X).shape == (400, 101)

    def test_one_stays_where_all_are_alike(self):
        X = np.column_stack([np.arange(3000.0), np.ones(3000)])
        assert apply(standard(CODES, X), X).shape[1] >= 2
        assert np.array_equal(standard(CODES, X).transform(X), apply(standard(CODES, X), X))

    def test_are_the_same_next_to_columns_of_text(self):
        schema = Schema(CODES.classes, (*CODES.columns, Column("notes", text=True)))
        codes = np.concatenate([np.arange(3000), np.repeat([7, 9, NAN], 400)])
        X = np.column_stack([codes, np.ones(len(codes))])
        notes = np.array(["seen on ward"] * len(X), dtype=np.object_)[:, None]
        with_notes = np.concatenate([X.astype(np.object_), notes], axis=1)
        found = apply(standard(schema, with_notes), with_notes)
        assert np.array_equal(found, apply(standard(CODES, X), X))

    def test_are_predicted_in_parts(self, monkeypatch: pytest.MonkeyPatch):
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.integers(0, 30, 200), rng.normal(size=200)])
        model = SklearnLearner(LogisticRegression(), standard(CODES, X))
        model.fit(X, rng.integers(0, 2, 200))
        whole = model.predict(X)
        monkeypatch.setattr(preprocessing, "_NARROW", 10)
        monkeypatch.setattr(preprocessing, "MOST_VALUES", 30 * 64)
        assert preprocessing.rows_at_a_time(model.parts[0]) == 64
        assert np.array_equal(model.predict(X), whole)

    def test_leave_tables_without_categories_as_they_are(self):
        words = Schema(("no", "yes"), (Column("age"), Column("notes", text=True)))
        X = np.array([[1.0, "seen"], [2.0, "seen again"]], dtype=np.object_)
        assert preprocessing.rows_at_a_time(standard(words, X)) > 10**9
