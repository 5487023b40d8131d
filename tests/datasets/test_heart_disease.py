"""Four real hospitals: nothing lost, nothing invented, nothing shared between the parts."""

import csv
import json
from collections import Counter
from functools import cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import FederatedDataset, heart_disease
from fedct_flwr.types import LABEL_DTYPE, DataError

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
SUMS = {
    "cleveland": [16495, 206, 957, 39902, 74748, 45, 300, 45331, 99, 315, 485, 201, 1425, 284],
    "budapest": [14061, 213, 877, 38847, 67980, 20, 64, 40765, 89, 172.3, 197, 0, 158, 106],
    "zurich": [6804, 113, 455, 15755, 0, 5, 44, 14830, 54, 76.5, 191, 8, 411, 222],
    "long-beach": [11870, 194, 701, 19262, 34498, 68, 147, 18051, 95, 190.2, 209, 0, 214, 304],
}
MISSING = {
    "cleveland": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 2, 0],
    "budapest": [0, 0, 0, 1, 23, 8, 1, 1, 1, 0, 190, 291, 266, 0],
    "zurich": [0, 0, 0, 2, 0, 75, 1, 1, 1, 6, 17, 118, 52, 0],
    "long-beach": [0, 0, 0, 56, 7, 7, 0, 53, 53, 56, 102, 198, 166, 0],
}

every_hospital = pytest.mark.parametrize("hospital", HOSPITALS)


@cache
def load(**settings: Any) -> FederatedDataset:
    """The data set with these settings (underscores for hyphens)."""
    raw = {"study": "s", "data": "heart-disease"} | {key.replace("_", "-"): value for key, value in settings.items()}
    return heart_disease.load(RunConfig.from_flower(raw))


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


# --- the embedded file


def test_the_columns_are_those_of_the_processed_files() -> None:
    assert EMBEDDED["columns"] == COLUMNS


def test_the_hospitals_come_in_this_order() -> None:
    assert [silo.name for silo in load().silos] == list(EMBEDDED["hospitals"]) == HOSPITALS


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


@every_hospital
def test_column_sums_and_missing_values_are_those_of_the_raw_files(hospital: str) -> None:
    table = embedded(hospital)
    np.testing.assert_allclose(np.nansum(table, axis=0), SUMS[hospital], rtol=1e-12)
    assert np.isnan(table).sum(axis=0).tolist() == MISSING[hospital]


@pytest.mark.skipif(not RAW.is_dir(), reason="the raw files are not here")
@every_hospital
def test_every_value_is_that_of_the_raw_file(hospital: str) -> None:
    with (RAW / f"{FILES[hospital]}.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == COLUMNS
    raw = np.array([[float(field) if field else np.nan for field in line] for line in lines])
    np.testing.assert_array_equal(embedded(hospital), raw)


@pytest.mark.parametrize("name", ["Janosi", "Steinbrunn", "Pfisterer", "Detrano"])
def test_the_investigators_are_named_as_the_licence_asks(name: str) -> None:
    assert any(name in text for text in EMBEDDED["investigators"].values())
    assert name in (heart_disease.__doc__ or "")


def test_every_hospital_has_an_investigator_and_the_file_says_source_licence_and_changes() -> None:
    assert set(EMBEDDED["investigators"]) == set(HOSPITALS)
    assert "CC BY 4.0" in EMBEDDED["licence"]
    assert "doi.org/10.24432/C52P4X" in EMBEDDED["source"]
    assert EMBEDDED["changes"]


# --- what the loader makes of it


@pytest.mark.parametrize("settings", [{}, {"seed": 7}, {"public_fraction": 0.5, "test_fraction": 0.3}])
def test_every_record_is_in_exactly_one_part(settings: dict[str, Any]) -> None:
    dataset = load(**settings)
    parts = rows(dataset.public.X)
    for silo in dataset.silos:
        parts += rows(silo.private.X) + rows(silo.test.X)
    everything: Counter[tuple[Any, ...]] = Counter()
    for hospital in HOSPITALS:
        everything += rows(expected(hospital)[0])
    assert parts == everything


@every_hospital
def test_a_silo_holds_records_of_its_own_hospital_with_their_own_labels(hospital: str) -> None:
    dataset = load()
    silo = dataset.silos[dataset.position(hospital)]
    own = rows(*expected(hospital))
    held = rows(*silo.private) + rows(*silo.test)
    assert held <= own


@pytest.mark.parametrize(
    ("public", "test"), [(0.25, 0.2), (0.1, 0.4), (0.5, 0.0)], ids=["as by default", "less public", "nothing for tests"]
)
def test_each_hospital_gives_its_shares_rounded_down_and_keeps_the_rest(public: float, test: float) -> None:
    dataset = load(public_fraction=public, test_fraction=test)
    patients = {hospital: len(embedded(hospital)) for hospital in HOSPITALS}
    given = {hospital: int(public * n) for hospital, n in patients.items()}
    held_out = {hospital: int(test * n) for hospital, n in patients.items()}
    assert len(dataset.public) == sum(given.values())
    assert {silo.name: silo.test.size for silo in dataset.silos} == held_out
    assert {silo.name: silo.private.size for silo in dataset.silos} == {
        hospital: n - given[hospital] - held_out[hospital] for hospital, n in patients.items()
    }


def test_the_default_sizes() -> None:
    dataset = load()
    assert len(dataset.public) == 75 + 73 + 30 + 50
    assert [silo.test.size for silo in dataset.silos] == [60, 58, 24, 40]
    assert [silo.private.size for silo in dataset.silos] == [168, 163, 69, 110]


def test_the_pooled_test_set_is_every_silos_test_set() -> None:
    dataset = load()
    np.testing.assert_array_equal(dataset.test.X, np.concatenate([silo.test.X for silo in dataset.silos]))
    np.testing.assert_array_equal(dataset.test.y, np.concatenate([silo.test.y for silo in dataset.silos]))


@pytest.mark.parametrize("name", ["chol", "trestbps"])
def test_nobody_has_a_cholesterol_or_a_blood_pressure_of_zero(name: str) -> None:
    dataset, column = load(), COLUMNS.index(name)
    tables = [dataset.public.X, *(part.X for silo in dataset.silos for part in (silo.private, silo.test))]
    assert sum(int((X[:, column] == 0).sum()) for X in tables) == 0
    zeros = sum(int((embedded(hospital)[:, column] == 0).sum()) for hospital in HOSPITALS)
    missing = sum(MISSING[hospital][column] for hospital in HOSPITALS)
    assert zeros == {"chol": 172, "trestbps": 1}[name]
    assert sum(int(np.isnan(X[:, column]).sum()) for X in tables) == missing + zeros


@pytest.mark.parametrize("name", [name for name in COLUMNS[:-1] if name not in ("chol", "trestbps")])
def test_no_other_column_is_touched(name: str) -> None:
    dataset, column = load(), COLUMNS.index(name)
    found = np.concatenate(
        [dataset.public.X, *(part.X for silo in dataset.silos for part in (silo.private, silo.test))]
    )[:, column]
    raw = np.concatenate([embedded(hospital)[:, column] for hospital in HOSPITALS])
    np.testing.assert_array_equal(np.sort(found), np.sort(raw))


def test_features_are_floats_and_labels_are_healthy_or_diseased() -> None:
    dataset = load()
    assert dataset.schema.classes == ("healthy", "diseased")
    assert [column.name for column in dataset.schema.columns] == COLUMNS[:-1]
    assert dataset.schema.categorical == ()
    for silo in dataset.silos:
        assert silo.private.X.dtype == np.float64
        assert silo.private.y.dtype == LABEL_DTYPE
        assert set(silo.private.y.tolist()) == {0, 1}


def test_the_place_of_a_public_example_does_not_tell_its_hospital() -> None:
    owner = {record: hospital for hospital in HOSPITALS for record in rows(expected(hospital)[0])}
    owners = [owner[next(iter(rows(record[None])))] for record in load().public.X]
    changes = sum(left != right for left, right in pairwise(owners))
    # Grouped by hospital there would be 3; at random about 160.
    assert changes > 100


# --- seeds


def test_the_same_seed_gives_the_same_data() -> None:
    config = RunConfig.from_flower({"study": "s", "data": "heart-disease", "seed": 3})
    first, second = heart_disease.load(config), heart_disease.load(config)
    assert first.public.fingerprint == second.public.fingerprint
    for one, other in zip(first.silos, second.silos, strict=True):
        np.testing.assert_array_equal(one.private.X, other.private.X)
        np.testing.assert_array_equal(one.test.y, other.test.y)


def test_another_seed_gives_another_split_of_the_same_sizes() -> None:
    first, second = load(seed=0), load(seed=1)
    assert first.public.fingerprint != second.public.fingerprint
    for one, other in zip(first.silos, second.silos, strict=True):
        assert rows(one.private.X) != rows(other.private.X)
        assert one.private.size == other.private.size


def test_the_public_set_of_seed_0_is_the_one_it_has_always_been() -> None:
    # Silos of one study may run different versions: with another fingerprint they could not work together.
    assert load().public.fingerprint.hex() == "6075b0052c6c2dc625b47a45b0d5cdbb05cb2e881f157d53edfc450b08a4164d"


def test_nothing_but_seed_and_shares_moves_a_record() -> None:
    settings = {"algorithm": "fedct-qualified", "learner": "svm", "num_server_rounds": 3}
    assert load(**settings).public.fingerprint == load().public.fingerprint


def test_a_share_too_small_for_one_public_example_is_refused() -> None:
    with pytest.raises(DataError, match="public set"):
        load(public_fraction=0.001)
