"""The families of messes, read as a simulation reads them; and clean tables, of which nothing is said."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.folder_inspection import inspect_folder
from fedct_flwr.types import DataError
from tests.messy.families import NUMBERS, REFUSED, SAID, drawn
from tests.messy.patients import LABEL, SILOS, Patients, findings, load, patients


@pytest.mark.parametrize("what", REFUSED)
def test_a_mess_is_refused(tmp_path: Path, what: str) -> None:
    case, spoiled = REFUSED[what], patients()
    case.spoil(spoiled)
    with pytest.raises(DataError, match=case.code) as refused:
        load(spoiled.write(tmp_path))
    assert case.column in str(refused.value)
    assert case.silo in str(refused.value)


@pytest.mark.parametrize("what", SAID)
def test_a_mess_is_said(tmp_path: Path, what: str) -> None:
    case, spoiled = SAID[what], patients()
    case.spoil(spoiled)
    assert (case.code, case.column, case.silo) in findings(spoiled, tmp_path)


NO_SILOS = ("train", "Training", "X_train", "dev", "essen (1)", "essen - Kopie", "Copy of essen", "essen_backup")


@pytest.mark.parametrize("name", [*NO_SILOS, "essen.old", "essen_v2", "public (1)"])
def test_a_file_by_a_name_that_no_hospital_has_becomes_no_silo(tmp_path: Path, name: str) -> None:
    folder = patients().write(tmp_path)
    (folder / "koeln.csv").rename(folder / f"{name}.csv")
    with pytest.raises(DataError, match="would become a silo"):
        load(folder)
    (folder / "data.toml").write_text(f'[files."{name}.csv"]\nsilo = "koeln"\n')
    assert len(load(folder).silos) == 3


def quantities(what: str) -> Patients:
    """Patients with a number to predict, which their records explain."""
    found, change = patients(), NUMBERS[what][0] if what else lambda silo, row, value: value
    for silo in SILOS:
        known = zip(found.tables[silo]["age"], found.tables[silo]["crp"], strict=True)
        values = [float(a) / 2 + 2 * float(c) + drawn(silo, row).normal(20, 3) for row, (a, c) in enumerate(known)]
        found.tables[silo][LABEL] = [f"{change(silo, row, value):.2f}" for row, value in enumerate(values)]
    return found


@pytest.mark.parametrize("what", NUMBERS)
def test_a_number_to_predict_is_looked_at(tmp_path: Path, what: str) -> None:
    case = NUMBERS[what][1]
    found = load(quantities(what).write(tmp_path), outcome="number").findings
    assert (case.code, case.column, case.silo) in {(each.code, each.column, each.silo) for each in found}


def test_nothing_is_said_of_healthy_numbers_to_predict(tmp_path: Path) -> None:
    assert not load(quantities("").write(tmp_path), outcome="number").findings


def test_a_column_that_follows_the_number_to_predict_is_said(tmp_path: Path) -> None:
    spoiled = quantities("")
    copied = spoiled.add("late", lambda name, row: spoiled.tables[name].get(LABEL, spoiled.tables[name]["crp"])[row])
    found = load(copied.write(tmp_path), outcome="number").findings
    assert ("tells-the-label", "late") in {(each.code, each.column) for each in found}


def own_test(folder: Path, source: str, change: Callable[[Patients], object]) -> Path:
    """A folder in which a table of other patients is the test file of silo essen."""
    others = patients(7)
    change(others)
    patients().write(folder)
    (others.write(folder.parent / "others") / f"{source}.csv").rename(folder / "essen.test.csv")
    return folder


def in_feet(p: Patients) -> None:
    p.change("essen", "height", lambda cell: f"{float(cell) / 30.48:.2f}")


def swapped(p: Patients) -> None:
    p.change("essen", LABEL, lambda cell: {"yes": "no", "no": "yes"}[cell])


@pytest.mark.parametrize(("change", "code"), [(in_feet, "other-scale"), (swapped, "reversed-labels")])
def test_a_silos_test_file_is_looked_at(tmp_path: Path, change: Callable[[Patients], object], code: str) -> None:
    found = load(own_test(tmp_path / "wards", "essen", change)).findings
    assert [(each.code, each.silo) for each in found] == [(code, "essen.test")]
    assert not load(own_test(tmp_path / "healthy", "essen", lambda p: None)).findings


def test_a_silo_that_is_a_copy_of_another_in_another_order_is_said(tmp_path: Path) -> None:
    spoiled = patients()
    spoiled.tables["koeln"] = {name: [*reversed(cells)] for name, cells in spoiled.tables["essen"].items()}
    found = load(spoiled.write(tmp_path)).findings
    assert ("shared-records", "koeln") in {(each.code, each.silo) for each in found}


def test_inspect_tells_of_test_records_that_training_has_seen(tmp_path: Path) -> None:
    folder = patients().write(tmp_path)
    lines = (folder / "essen.csv").read_text("utf-8").splitlines()
    other = (patients(7).write(tmp_path / "others") / "essen.csv").read_text("utf-8").splitlines()
    (folder / "essen.test.csv").write_text("\n".join(lines[:100] + other[1:200]))
    config = {"study": "messy", "data": "files", "data-dir": str(folder), "label-column": LABEL}
    found = inspect_folder(RunConfig.from_flower(config)).inspection.said
    assert "test-records" in {each.code for each in found}


@pytest.mark.parametrize("name", ["public", "essen"])
def test_empty_lines_at_the_end_are_no_records(tmp_path: Path, name: str) -> None:
    folder = patients().write(tmp_path)
    whole = load(folder)
    with (folder / f"{name}.csv").open("a", encoding="utf-8") as file:
        file.write(",,,,,,"[: 6 if name == "essen" else 5] + "\n")
    again = load(folder, seed=0)
    assert len(again.public.X) == len(whole.public.X) == 300
    assert [silo.private.size for silo in again.silos] == [silo.private.size for silo in whole.silos]
