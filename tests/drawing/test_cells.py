"""Cells of columns: every value has one, what is drawn from a cell lies in it, and kinds keep their form."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr.datasets.dictionary import Dictionary
from fedct_flwr.datasets.schema import Column
from fedct_flwr.drawing.cells import Form, columns_of
from fedct_flwr.types import ConfigError, DataError

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
