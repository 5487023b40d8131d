"""Conditions on columns: what they match, and sentences for texts that are none."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr.config.tables import ColumnForm
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.drawing.cells import Domain
from fedct_flwr.drawing.patients import Condition, PatientCount
from fedct_flwr.types import ConfigError
from tests.sentences import sentence

SCHEMA = Schema(
    ("no", "yes"),
    (
        Column("age"), Column("blood pressure"), Column("ward", ("east", "north", "west")), Column("admitted"),
        Column("notes", text=True),
    ),
)  # fmt: skip
DAY = 19_723  # 2024-01-01
NONE = np.nan
X = np.array(
    [
        [70, 120, 0, DAY, "a"],
        [64, 160, 1, DAY - 1, ""],
        [NONE, 180, NONE, DAY + 1, "b"],
        [80, NONE, 3, NONE, "c"],  # a ward that the public set lacks
    ],
    dtype=object,
)
Y = np.array([1, 0, 1, 0])


@pytest.mark.parametrize(
    ("text", "matching"),
    [
        ("age >= 65", [0, 3]),
        ("age>64 AND 'blood pressure' = 120", [0]),
        ("not age >= 65", [1]),
        ('not (age >= 65 or "blood pressure" > 150)', []),
        ("age < 65 or 'blood pressure' > 150", [1, 2]),
        ("ward == 'east' or ward == 'north' and age > 90", [0]),
        ("ward in ('east', 'north')", [0, 1]),
        ("ward not in ('east')", [1, 3]),
        ("ward != 'east'", [1, 3]),
        ("admitted >= 2024-01-01", [0, 2]),
        ("admitted == '2023-12-31'", [1]),
        ("age in (64, 80.0)", [1, 3]),
        ("label == 'yes'", [0, 2]),
        ("age != 1 and not not age != 1", [0, 1, 3]),
    ],
)
def test_a_condition_matches_what_it_says_and_a_missing_value_nothing(text: str, matching: list[int]) -> None:
    assert np.flatnonzero(Condition.of(text, SCHEMA).holds(X, Y).true).tolist() == matching


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agee > 3", "there is no column 'agee': did you mean 'age'?"),
        ("ward == 'eastt'", "'ward' has no value 'eastt': did you mean 'east'?"),
        ("ward == east", "put it in quotes"),
        ("ward > 'east'", "which have no order"),
        ("notes == 'a'", "holds free text"),
        ("age > 'old'", "is a number or a date, and 'old' is neither"),
        ("age == True", "and truth values with 1 or 0"),
        (lambda table: table["age"] > 3, "is of type function: write it as text"),
        ("age > 2024-13-01", "is neither"),
        ("age > '20240101'", "is neither"),
        ("age >", "is no condition, as it ends too early"),
        ("", "is no condition, as it ends too early"),
        ("age > 3 ward", "is no condition, at 'ward'"),
        ("age > 3; import os", "is no condition, at"),
        ("__import__('os')", "there is no column '__import__'"),
        ("not " * 30 + "age > 1", "nested more than 20 deep"),
        ("(" * 400 + "age > 1" + ")" * 400, "more than 500 bytes"),
        (" and ".join(["age > 1"] * 80), "more than 500 bytes"),
    ],
)
def test_what_is_no_condition_is_one_sentence(text: str, said: str) -> None:
    assert said in sentence(ConfigError, Condition.of, text, SCHEMA)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_number_is_found_in_either_precision(kind: type) -> None:
    cells = np.array([7.4, 7.5, np.nan, -7.4], dtype=kind).astype(np.float64)
    X = np.c_[cells, np.zeros((4, 4))]
    for text, matching in {
        "age == 7.4": [0],
        "age <= 7.4": [0, 3],
        "age > 7.4": [1],
        "age in (-7.4, 7.5)": [1, 3],
    }.items():
        assert np.flatnonzero(Condition.of(text, SCHEMA).holds(X, Y).true).tolist() == matching


@pytest.mark.parametrize("text", ["age >= 65.000000001", "age <= 1735689599", "age == 7.4"])
def test_a_record_decides_for_itself(text: str) -> None:
    """Otherwise one patient more would change a count by many, and its noise is for one."""
    cells = np.array([65, 1735689600, np.float32(7.4)], dtype=np.float64)
    alone, more = (np.c_[each, np.zeros((len(each), 4))] for each in (cells, [*cells, 20.1]))
    found = Condition.of(text, SCHEMA).holds(alone, Y[:3]).true
    assert found.tolist() == Condition.of(text, SCHEMA).holds(more, Y).true[:3].tolist()
    expected = {">=": [False, True, False], "<=": [True, False, True], "==": [False, False, True]}
    assert found.tolist() == expected[text.split()[1]]


def test_a_day_has_all_its_hours() -> None:
    form = {"admitted": ColumnForm(kind="date", range=(DAY - 1, DAY))}
    cells = np.c_[np.zeros((3, 3)), [DAY, DAY + 0.6, DAY + 1], np.zeros(3)]
    for text, number in {
        "admitted <= 2024-01-01": 2,
        "admitted in ('2024-01-01')": 2,
        "admitted > 2024-01-01": 1,
    }.items():
        for known in ({}, form):
            assert PatientCount.of(text, "", SCHEMA, known).counts(cells, Y[:3], None).tolist() == [number]
    by_day = PatientCount.of("age == 0", "admitted", SCHEMA, form)
    assert dict(zip(by_day.cells, by_day.counts(cells, Y[:3], None).tolist(), strict=True))["2024-01-01"] == 2
    assert Domain.of(form["admitted"], SCHEMA.columns[3], 5).place(cells[:, 3])[1] == 1


def test_letters_of_two_characters_are_those_of_one() -> None:
    umlaut = Schema(("no", "yes"), (Column("größe"), Column("ward", ("Süd",))))
    decomposed = unicodedata.normalize("NFD", "größe > 160 and ward = 'Süd'")
    assert Condition.of(decomposed, umlaut).text == "größe > 160 and ward == 'Süd'"


@pytest.mark.parametrize("value", [123456.0625, 3.0009765625, 19723.0625])
def test_a_fraction_is_found_as_it_is_written(value: float) -> None:
    cells = np.c_[[value], np.zeros((1, 4))]
    found = [
        Condition.of(f"age {sign} {value}", SCHEMA).holds(cells, Y[:1]).true[0] for sign in ("==", ">=", "<=", ">", "<")
    ]
    assert found == [True, True, True, False, False]


@given(st.text(alphabet="age ward'\"()<>=!,0123-andornotin.", max_size=60))
def test_any_text_is_a_condition_or_a_sentence(text: str) -> None:
    try:
        found = Condition.of(text, SCHEMA)
    except ConfigError:
        return
    # Its one spelling means the same, and is its own.
    again = Condition.of(found.text, SCHEMA)
    assert again.text == found.text
    np.testing.assert_array_equal(again.holds(X, Y).true, found.holds(X, Y).true)


def test_a_patient_counts_once_in_the_cell_of_the_first_record_that_matches() -> None:
    groups = np.array([7, 3, 7, 3])
    assert PatientCount.of("admitted >= 2000-01-01", "", SCHEMA, {}).counts(X, Y, groups).tolist() == [2]
    by_ward = PatientCount.of("age > 0", "ward", SCHEMA, {})
    assert by_ward.cells == ("east", "north", "west", "missing or another value")
    assert by_ward.counts(X, Y, groups).tolist() == [1, 1, 0, 0]
    assert by_ward.counts(X, Y, None).tolist() == [1, 1, 0, 1]
    assert PatientCount.of("label == 'yes'", "label", SCHEMA, {}).counts(X, Y, None).tolist() == [0, 2, 0]


def test_numbers_and_dates_have_the_intervals_of_the_dictionary() -> None:
    form = {
        "age": ColumnForm(kind="integer", range=(0, 100)),
        "admitted": ColumnForm(kind="date", range=(DAY - 1, DAY + 1)),
    }
    by_age = PatientCount.of("label in ('no', 'yes')", "age", SCHEMA, form)
    assert by_age.cells == (
        "0",
        "1 to 20",
        "21 to 40",
        "41 to 60",
        "61 to 80",
        "81 to 99",
        "100",
        "missing or another value",
    )
    assert by_age.counts(X, Y, None).tolist() == [0, 0, 0, 0, 3, 0, 0, 1]
    other = X.copy()
    other[0, 0], other[1, 0] = 999, -1
    assert by_age.counts(other, Y, None).tolist() == [0, 0, 0, 0, 1, 0, 0, 3]
    for where, said in {
        "admitted >= 2024": "'admitted' holds dates",
        "age > 2024-01-01": "'age' holds numbers",
    }.items():
        assert said in sentence(ConfigError, PatientCount.of, where, "", SCHEMA, form)
    for kind, most, last in (("number", 1, "0.8 to 1"), ("integer", 50_000_000, "40000001 to 49999999")):
        wide = PatientCount.of("age > 1", "age", SCHEMA, {"age": ColumnForm(kind=kind, range=(0, most))}).cells
        assert (wide[1].split(" to ")[0], wide[5]) == ("0" if kind == "number" else "1", last)
        assert len({*wide}) == len(wide)
    assert "2024-01-01" in PatientCount.of("age > 1", "admitted", SCHEMA, form).cells
    assert "no categories to count by" in sentence(ConfigError, PatientCount.of, "age > 1", "age", SCHEMA, {})
