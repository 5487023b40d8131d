"""Dates: days since 1970 where their form is told, and refused with a form to write where it is not."""

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.datasets.dates import days, likely_forms
from fedct_flwr.types import DataError

WHERE = "column 'seen' of north.csv"


def found(values: list[object], form: str, kind: pa.DataType | None = None) -> list[float | None] | None:
    result = days(pa.chunked_array([pa.array(values, kind), pa.array([], kind or pa.array(values).type)]), form, WHERE)
    return None if result is None else result.to_pylist()


@pytest.mark.parametrize(
    ("values", "form", "expected"),
    [
        (["02.01.1970", None, "31.12.1969"], "%d.%m.%Y", [1, None, -1]),
        (["2.1.1970", " 01.02.1970 "], "%d.%m.%Y", [1, 31]),
        (["01/02/1970"], "%m/%d/%Y", [1]),
        (["01/02/70"], "%d/%m/%y", [31]),
        (["1970-01-02 06:00:00"], "%Y-%m-%d %H:%M:%S", [1.25]),
        (["2 Jan 1970"], "%d %b %Y", [1]),
        ([19700102, None, 20240229], "%Y%m%d", [1, None, 19782]),
        ([date(1970, 1, 2), None], "%d.%m.%Y", [1, None]),
        ([datetime(1970, 1, 2, 12)], "%d.%m.%Y", [1.5]),
        ([datetime(1970, 1, 2, 12, tzinfo=UTC)], "%d.%m.%Y", [1.5]),
    ],
)
def test_days_since_1970(values: list[object], form: str, expected: list[float | None]) -> None:
    assert found(values, form) == expected


@pytest.mark.parametrize(
    ("values", "form"),
    [
        (["east", "west"], "%d.%m.%Y"),
        ([20201301, 20200101], "%Y%m%d"),
        ([1, 2], "%d.%m.%Y"),
        ([None, None], "%d.%m.%Y"),
    ],
)
def test_what_is_no_date_stays_as_it_is(values: list[object], form: str) -> None:
    assert found(values, form) is None


@pytest.mark.parametrize("wrong", ["31.02.2020", "2020-01-01", "unknown"])
def test_a_few_values_of_another_form_are_counted_and_not_quoted(wrong: str, wording: SnapshotAssertion) -> None:
    with pytest.raises(DataError) as caught:
        found(["01.02.2020", None, wrong, "03.02.2020", "04.02.2020"], "%d.%m.%Y")
    assert str(caught.value) == wording
    assert wrong not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "forms"),
    [
        (["01.02.2020", "31.12.2019"], ["%d.%m.%Y"]),
        (["01/02/2020"], ["%d/%m/%Y", "%m/%d/%Y"]),
        (["01/02/2020", "13/02/2020"], ["%d/%m/%Y"]),
        (["01/02/2020", "01/13/2020"], ["%m/%d/%Y"]),
        (["01.02.20", "31.12.19"], ["%d.%m.%y"]),
        (["01.02.2020 10:30"], ["%d.%m.%Y %H:%M"]),
        (["01.02.2020"] * 19 + ["unknown"], ["%d.%m.%Y"]),
    ],
)
def test_forms_that_dates_may_have(values: list[str], forms: list[str]) -> None:
    assert likely_forms(values) == forms


@pytest.mark.parametrize(
    "values",
    [
        [],
        ["east"],
        ["A01.1"],
        ["120/80"],
        ["0211-123456"],
        ["192.168.1.1"],
        ["01.02.2020", "east"],
    ],
)
def test_codes_and_versions_are_no_dates(values: list[str]) -> None:
    assert likely_forms(values) is None
