"""Cells of columns: every value has one, what is drawn from a cell lies in it, and kinds keep their form."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.config.study import StudyDraw
from fedct_flwr.datasets.dictionary import Dictionary
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.drawing.cells import Form, columns_of
from fedct_flwr.drawing.counts import GRID, DrawingPlan, draw
from fedct_flwr.privacy.accounting import epsilon as price
from fedct_flwr.privacy.accounting import fits
from fedct_flwr.types import ConfigError, DataError, Features

COLUMNS: dict[str, Any] = {
    "age": {"kind": "integer", "range": [18, 100]},
    "admitted": {"kind": "date", "range": ["2015-01-01", "2024-12-31"], "missing": 0.2},
    "crp": {"kind": "number", "range": [0, 500]},
    "ward": {"kind": "category", "categories": ["b", "a", "c"]},
    "code": {"kind": "category", "categories": ["1", "5.5", "9"]},
}


def form_of(columns: dict[str, Any] = COLUMNS, schema: tuple[Column, ...] = ()) -> Form:
    dictionary = Dictionary.read({"columns": columns}, "here")
    return Form(dictionary, schema or columns_of(dictionary))


@given(st.integers(0, 2**32 - 1))
def test_a_value_drawn_from_a_cell_lies_in_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    form = form_of()
    for cells in form.cells:
        wanted = np.arange(cells.size)
        found, outside = cells.place(cells.value(wanted, rng))
        assert found.tolist() == wanted.tolist()
        assert outside == 0


def test_uniform_examples_keep_ranges_kinds_and_all_categories() -> None:
    X = form_of().uniform(2000, np.random.default_rng(0))
    age, admitted, crp, ward, code = X.T
    assert (age.min(), age.max()) == (18, 100)
    assert (age == np.rint(age)).all()
    days = admitted[~np.isnan(admitted)]
    assert 0.15 < np.isnan(admitted).mean() < 0.25
    assert (days == np.rint(days)).all()
    assert 0 <= crp.min() < 5
    assert 495 < crp.max() <= 500
    assert np.unique(ward).tolist() == [0, 1, 2]
    assert np.unique(code).tolist() == [1, 5.5, 9]


def test_what_is_outside_is_clipped_and_counted() -> None:
    X = np.array([[17, 0, 501, 3, 2], [101, np.nan, -1, 0, 5.5]])
    cells, outside = form_of().place(X)
    assert outside.startswith(
        "7 values outside of the data dictionary, in 'age' (2), 'admitted' (1), 'crp' (2), 'ward' (1), 'code' (1): they"
    )
    sizes = [cells.size for cells in form_of().cells]
    assert cells[0].tolist() == [0, 0, sizes[2] - 2, sizes[3] - 1, sizes[4] - 1]
    assert cells[1].tolist() == [sizes[0] - 2, sizes[1] - 1, 0, 0, 1]


def test_rules_hold() -> None:
    pressure = {"kind": "integer", "range": [30, 250]}
    form = form_of({"systolic": pressure, "diastolic": {**pressure, "at-most": "systolic"}})
    X = form.uniform(500, np.random.default_rng(0))
    assert (X[:, 1] <= X[:, 0]).all()


def test_a_rule_that_nothing_keeps_is_one_sentence() -> None:
    form = form_of(
        {"low": {"kind": "number", "range": [5, 6], "at-most": "high"}, "high": {"kind": "number", "range": [0, 1]}}
    )
    with pytest.raises(DataError, match=r"hardly any example keeps .* of 'low'"):
        form.uniform(10, np.random.default_rng(0))


def test_a_table_for_files_has_names_whole_numbers_and_dates() -> None:
    form = form_of()
    table = form.table(form.uniform(50, np.random.default_rng(0)))
    kinds = {field.name: field.type for field in table.schema}
    assert kinds == {
        "age": pa.int64(),
        "admitted": pa.date32(),
        "crp": pa.float64(),
        "ward": pa.string(),
        "code": pa.float64(),
    }
    assert table.column("admitted").null_count > 0
    assert set(table.column("ward").to_pylist()) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (Column("other"), "has no column 'other'"),
        (Column("ward"), "has names for 'ward'"),
        (Column("ward", ("a", "b")), "values of 'ward' that no table has: 'c'"),
        (Column("crp", ("low", "high")), "has a number 'crp'"),
    ],
)
def test_a_dictionary_of_other_tables_is_one_sentence(schema: Column, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        form_of(schema=(schema,))


# --- sets drawn from noisy counts


TWINS: dict[str, Any] = {
    "age": {"kind": "integer", "range": [0, 100]},
    "crp": {"kind": "number", "range": [0, 500]},
    "ward": {"kind": "category", "categories": ["a", "b", "c"]},
    "twin": {"kind": "category", "categories": ["a", "b", "c"]},
}


def marginals_form(columns: dict[str, Any] = TWINS) -> Form:
    dictionary = Dictionary.read({"columns": columns}, "here")
    return Form(dictionary, columns_of(dictionary))


def records(n: int, rng: Generator) -> Features:
    """Ages around 60; half of the CRP values zero, the rest below 50; wards of which c is rare, and their twins."""
    crp = np.where(rng.random(n) < 0.5, 0, rng.uniform(0, 50, n))
    ward = rng.choice(3, n, p=[0.7, 0.29, 0.01])
    X = np.stack([np.clip(rng.normal(60, 10, n), 0, 100).round(), crp, ward, ward], axis=1)
    X[rng.random(n) < 0.2, 0] = np.nan
    return X.astype(np.float64)


def drawn(
    X: Features,
    epsilon: float,
    *,
    y: NDArray[np.intp] | None = None,
    seed: int = 0,
    rows: int = 4000,
    columns: dict[str, Any] = TWINS,
) -> tuple[Features, str]:
    rng, form, y = np.random.default_rng(seed), marginals_form(columns), np.zeros(len(X), int) if y is None else y
    plan = DrawingPlan(form, epsilon, 1e-5, classes=int(y.max()) + 1)
    opened = plan.counts(form.place(X)[0], y)
    noise = rng.normal(0, plan.noise.scale, opened.shape)
    return draw(plan, opened + noise.astype(np.int64), rows, rng)


def test_counts_have_one_of_each_record_in_each_column() -> None:
    form, X, y = marginals_form(), records(100, np.random.default_rng(0)), np.arange(100) % 3
    counts = DrawingPlan(form, 1.0, 1e-5, classes=3).counts(form.place(X)[0], y)
    columns = np.split(counts, np.cumsum(3 * np.array(form.sizes))[:-1])
    of_class = [[int(part.sum()) // GRID for part in np.split(column, 3)] for column in columns]
    assert of_class == [[34, 33, 33]] * 4


def test_columns_are_drawn_as_they_are_distributed() -> None:
    X = records(5000, np.random.default_rng(0))
    found, note = drawn(X, 1.0)
    assert note == ""
    assert abs(np.nanmean(found[:, 0]) - 60) < 2
    assert abs(np.isnan(found[:, 0]).mean() - 0.2) < 0.03
    # Zeros keep a cell of their own, and nothing is spread over the empty part of the range.
    assert abs((found[:, 1] == 0).mean() - 0.5) < 0.05
    assert (found[:, 1] > 60).mean() < 0.05
    assert abs((found[:, 2] == 0).mean() - 0.7) < 0.05


def test_rare_values_do_not_vanish() -> None:
    X = records(300, np.random.default_rng(0))
    X[:, 2] = 0
    found, _ = drawn(X, 0.3)
    assert set(np.unique(found[:, 2])) == {0, 1, 2}


def test_columns_keep_what_they_have_in_common_with_the_class() -> None:
    X = records(5000, np.random.default_rng(0))
    y = X[:, 2].astype(np.intp) == 0
    apart, _ = drawn(X, 1.0)
    together, _ = drawn(X, 1.0, y=y.astype(np.intp))
    agree = [(found[:, 2] == found[:, 3]).mean() for found in (apart, together)]
    assert agree[0] < 0.7
    assert agree[1] > 0.95
    assert abs((together[:, 2] == 0).mean() - y.mean()) < 0.05


def test_classes_that_noise_hides_change_nothing() -> None:
    X = records(50, np.random.default_rng(0))
    found, _ = drawn(X, 0.1, y=(X[:, 2] == 0).astype(np.intp))
    assert (found[:, 2] == found[:, 3]).mean() < 0.7


@pytest.mark.parametrize(("records", "classes", "apart"), [(200, 2, 1), (400, 2, 2), (400, 10, 1), (5000, 10, 10)])
def test_classes_count_apart_where_records_are_enough(records: int, classes: int, apart: int) -> None:
    dictionary = Dictionary.read({"columns": TWINS}, "here")
    schema = Schema(tuple(map(str, range(classes))), columns_of(dictionary))
    assert DrawingPlan.of(dictionary, schema, StudyDraw(records=records)).classes == apart


def test_four_records_are_one_sentence() -> None:
    _, note = drawn(records(4, np.random.default_rng(0)), 1.0)
    assert "noise of 7 records hides nearly all of them" in note
    assert "\n" not in note


def test_a_column_of_one_value_is_drawn_nearly_alone() -> None:
    X = records(5000, np.random.default_rng(0))
    X[:, 0] = 42
    found, _ = drawn(X, 1.0)
    assert (found[:, 0] == 42).mean() > 0.9


@pytest.mark.parametrize("classes", [1, 2, 10])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 10.0])
def test_the_noise_costs_what_is_promised(epsilon: float, classes: int) -> None:
    noise = DrawingPlan(marginals_form(), epsilon, 1e-5, classes=classes).noise
    assert fits(noise.event(), epsilon, 1e-5 - noise.slack(epsilon))
    assert price(noise.event(), 1e-5).upper > 0.99 * epsilon


def test_a_record_changes_counts_by_no_more_than_the_noise_is_made_for() -> None:
    plan = DrawingPlan(marginals_form(), 1.0, 1e-5, classes=3)
    cells = plan.form.place(records(30, np.random.default_rng(0)))[0]
    for y in range(3):
        change = plan.counts(cells[:1], np.array([y]))
        assert np.linalg.norm(change.astype(float)) == pytest.approx(plan.noise.sensitivity)


def test_an_epsilon_that_no_noise_keeps_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match="lower it"):
        _ = DrawingPlan(marginals_form(), 1000.0, 1e-5).noise
