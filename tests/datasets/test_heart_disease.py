"""Four real hospitals: nothing lost, nothing invented, nothing shared between the parts."""

import csv
import json
from collections import Counter
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.datasets.loading import load

RAW = Path(__file__).parents[3] / "shared" / "data" / "heart_disease"
FILES = {"cleveland": "cleveland", "budapest": "hungarian", "zurich": "switzerland", "long-beach": "va"}
HOSPITALS = list(FILES)
COLUMNS = [
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal",
    "num",
]  # fmt: skip

EMBEDDED: dict[str, Any] = json.loads(
    resources.files("fedct_flwr.datasets").joinpath("heart_disease.json").read_text("utf-8")
)

# Sum and number of missing values of every column in the raw files, in the order of COLUMNS.

every_hospital = pytest.mark.parametrize("hospital", HOSPITALS)


def embedded(hospital: str) -> np.ndarray[Any, Any]:
    """A hospital's table, ``(patients, 14)``, as it stands in the JSON file; null is NaN."""
    return np.array(EMBEDDED["hospitals"][hospital], dtype=np.float64)


def expected(hospital: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Features and labels as the loader should give them."""
    table = embedded(hospital)
    for name in ("chol", "trestbps"):
        table[table[:, COLUMNS.index(name)] == 0, COLUMNS.index(name)] = np.nan
    return table[:, :-1], table[:, -1] > 0


def rows(X: np.ndarray[Any, Any], y: Any = None) -> Counter[tuple[Any, ...]]:
    """Each record and how often it is there; NaN as None, so that records compare."""
    labels = [()] * len(X) if y is None else [(int(label),) for label in y]
    return Counter(
        (*(None if np.isnan(value) else float(value) for value in record), *label)
        for record, label in zip(X, labels, strict=True)
    )


@pytest.mark.parametrize(
    ("hospital", "patients", "diseased", "share"),
    [
        ("cleveland", 303, 139, 0.459),
        ("budapest", 294, 106, 0.361),
        ("zurich", 123, 115, 0.935),
        ("long-beach", 200, 149, 0.745),
    ],
)
def test_patients_and_the_share_of_them_that_is_ill(hospital: str, patients: int, diseased: int, share: float) -> None:
    num = embedded(hospital)[:, -1]
    assert (len(num), int((num > 0).sum())) == (patients, diseased)
    assert round(float((num > 0).mean()), 3) == share


@pytest.mark.skipif(not RAW.is_dir(), reason="the raw files are not here")
@every_hospital
def test_every_value_is_that_of_the_raw_file(hospital: str) -> None:
    with (RAW / f"{FILES[hospital]}.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == COLUMNS
    raw = np.array([[float(field) if field else np.nan for field in line] for line in lines])
    np.testing.assert_array_equal(embedded(hospital), raw)


def test_the_place_of_a_public_example_does_not_tell_its_hospital() -> None:
    owner = {record: hospital for hospital in HOSPITALS for record in rows(expected(hospital)[0])}
    owners = [owner[next(iter(rows(record[None])))] for record in load("heart-disease").public.X]
    changes = sum(left != right for left, right in pairwise(owners))
    # Grouped by hospital there would be 3; at random about 160.
    assert changes > 100
