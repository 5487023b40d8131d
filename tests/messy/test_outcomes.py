"""Outcomes that are no plain classes, and labels that mean the opposite: said, and no false alarm."""

import warnings
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets

from fedct_flwr import simulate
from fedct_flwr.datasets.inspection import Severity
from tests.messy.patients import LABEL, PUBLIC, SILOS, Patients, load, patients
from tests.messy.test_findings import findings

SWAPPED = {"yes": "no", "no": "yes"}


def codes(folder: Path, **settings: object) -> dict[str, str]:
    """The silo, or the column, of each finding of a folder that loads."""
    return {each.code: each.silo or each.column for each in load(folder, **settings).findings}


@pytest.mark.parametrize("silo", SILOS)
@pytest.mark.parametrize("records", [150, 400])
def test_a_silo_whose_labels_are_swapped_is_named(tmp_path: Path, silo: str, records: int) -> None:
    spoiled = patients(1, records).change(silo, LABEL, SWAPPED.__getitem__)
    folder = spoiled.write(tmp_path)
    assert codes(folder) == {"reversed-labels": silo}
    assert not load(folder, accept=f"reversed-labels:{silo}").findings


def test_a_large_silo_does_not_turn_the_others_round(tmp_path: Path) -> None:
    spoiled, more = patients(2, 120), patients(3, 2000)
    spoiled.tables["essen"] = more.change("essen", LABEL, SWAPPED.__getitem__).tables["essen"]
    assert codes(spoiled.write(tmp_path))["reversed-labels"] == "essen"


def test_of_two_silos_one_is_named_with_the_other(tmp_path: Path) -> None:
    spoiled = patients().change("essen", LABEL, SWAPPED.__getitem__)
    del spoiled.tables["koeln"]
    (found,) = load(spoiled.write(tmp_path)).findings
    assert found.code == "reversed-labels"
    assert "dortmund" in found.said
    assert "essen" in found.said


def test_two_of_three_classes_that_are_swapped_are_found(tmp_path: Path) -> None:
    """Only these two: nothing is said of the third."""
    rng = np.random.default_rng(5)

    def classes(p: Patients) -> Patients:
        for silo in SILOS:
            crp = np.array(p.tables[silo]["crp"], dtype=float)
            kinds = np.digitize(crp * rng.lognormal(0, 0.2, len(crp)), [3, 7])
            p.tables[silo][LABEL] = [("viral", "bacterial", "fungal")[kind] for kind in kinds]
        return p

    healthy = classes(patients())
    assert not codes(healthy.write(tmp_path / "healthy"))
    words = {"viral": "fungal", "fungal": "viral", "bacterial": "bacterial"}
    assert codes(healthy.change("koeln", LABEL, words.__getitem__).write(tmp_path / "swapped")) == {
        "reversed-labels": "koeln"
    }


@pytest.mark.parametrize("seed", range(4))
def test_random_labels_are_not_the_opposite(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    spoiled = patients(seed).change(SILOS[:2], LABEL, lambda cell: str(rng.choice(["yes", "no"])))
    assert not codes(spoiled.write(tmp_path))


def _renamed(label: str, spoiled: Patients) -> Patients:
    for silo in SILOS:
        spoiled.tables[silo][label] = spoiled.tables[silo].pop(LABEL)
    return spoiled


@pytest.mark.parametrize(
    ("time", "event"),
    [("follow_up_days", "death"), ("survival_months", "status"), ("time", "DEATH_EVENT"), ("OS", "event")],
)
def test_survival_data_are_named(tmp_path: Path, time: str, event: str) -> None:
    spoiled = patients().add(time, lambda name, row: str(1 + row * 7919 % 3001))
    found = load(_renamed(event, spoiled).write(tmp_path), label_column=event).findings
    assert [(each.code, each.column) for each in found if each.code == "survival"] == [("survival", time)]


def test_a_time_to_predict_next_to_a_censoring_column_is_survival(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    spoiled = patients().add("censored", lambda name, row: str(row * 7 % 3 % 2))
    spoiled.relabel(lambda silo, row: f"{rng.exponential(400):.1f}")
    folder = _renamed("survival_time", spoiled).write(tmp_path)
    found = load(folder, label_column="survival_time", outcome="number").findings
    assert [(each.code, each.column) for each in found] == [("survival", "censored")]


@pytest.mark.parametrize("time", ["time_in_hospital", "hours_of_sleep", "los", "duration_of_surgery"])
@pytest.mark.parametrize("label", ["readmitted", "er_status", "event_free"])
def test_a_time_that_is_a_feature_is_no_survival(tmp_path: Path, time: str, label: str) -> None:
    fine = patients().add(time, lambda name, row: str(1 + row * 7919 % 31))
    assert not load(_renamed(label, fine).write(tmp_path), label_column=label).findings


NO_SCALES: Final = {
    "digits": [str(digit) for digit in range(10)],
    "three numbers": ["0", "1", "2"],
    "types": ["type I", "type II", "type III"],
    "clusters": ["cluster 1", "cluster 2", "cluster 3"],
    "colors": ["red", "green", "blue"],
    "organs": ["liver", "lung", "low"],
    "letters": ["A", "B", "X"],
    "arms": ["arm 1", "arm 2", "arm 3"],
}


@pytest.mark.parametrize("what", NO_SCALES)
def test_classes_without_an_order_are_no_scale(tmp_path: Path, what: str) -> None:
    rng = np.random.default_rng(3)
    fine = patients().relabel(lambda silo, row: str(rng.choice(NO_SCALES[what])))
    assert not findings(fine.write(tmp_path))


def _sklearn(name: str) -> pd.DataFrame:
    return getattr(datasets, f"load_{name}")(as_frame=True).frame


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits"])
def test_nothing_is_said_of_data_sets_of_scikit_learn(tmp_path: Path, name: str) -> None:
    frame = _sklearn(name).sample(frac=1, random_state=0)
    frame = frame.loc[:, frame.nunique() > 1].sample(frac=1, random_state=1)
    parts = np.array_split(np.arange(len(frame)), 4)
    for silo, rows in zip((PUBLIC, *SILOS), parts, strict=True):
        table = frame.iloc[rows]
        (table.drop(columns="target") if silo == PUBLIC else table).to_csv(tmp_path / f"{silo}.csv", index=False)
    found = load(tmp_path, label_column="target").findings
    assert {each.code for each in found} <= ({"constant-column"} if name == "digits" else set())


def test_the_function_warns_of_swapped_labels(tmp_path: Path) -> None:
    folder = patients().change("essen", LABEL, SWAPPED.__getitem__).write(tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        simulate(folder, label=LABEL, rounds=1, progress=False, learner="naive-bayes")
    assert any("opposite" in str(each.message) and "essen" in str(each.message) for each in caught)


def test_labels_written_as_minus_one_at_a_silo_are_refused(tmp_path: Path) -> None:
    digits = patients().change(SILOS, LABEL, {"yes": "1", "no": "0"}.__getitem__)
    found = findings(digits.change("koeln", LABEL, {"1": "1", "0": "-1"}.__getitem__).write(tmp_path))
    assert [(each.code, each.silo) for each in found if each.severity is Severity.REFUSED] == [
        ("label-spellings", "koeln")
    ]
