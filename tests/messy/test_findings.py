"""One test for each thing that can be wrong, by the finding's name, column and silo; and none where nothing is."""

import re
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fedct_flwr.datasets.inspection import CODES, Finding, Severity, inspect_tables
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.datasets.tables import text_columns
from fedct_flwr.types import ConfigError, DataError
from tests.messy.cases import REFUSED, SAID, Case
from tests.messy.patients import LABEL, PUBLIC, SILOS, load, patients


def findings(folder: Path, **options: object) -> tuple[Finding, ...]:
    public = read_table(folder / "public.csv")
    silos = {silo: read_table(folder / f"{silo}.csv", [LABEL, *text_columns(public)]) for silo in SILOS}
    return inspect_tables(public, silos, LABEL, **options).findings  # type: ignore[arg-type]


def has(found: tuple[Finding, ...], case: Case, severity: Severity) -> bool:
    wanted = (case.code, case.column, case.silo, severity)
    return any((each.code, each.column, each.silo, each.severity) == wanted for each in found)


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_results_meaningless_is_refused(tmp_path: Path, what: str) -> None:
    case, spoiled = REFUSED[what], patients()
    case.spoil(spoiled)
    folder = spoiled.write(tmp_path / "wards")
    found = findings(folder)
    assert has(found, case, Severity.REFUSED), found
    assert {each.code for each in found if each.severity is Severity.REFUSED} == {case.code}
    lifted = any(each.lifted for each in found if each.severity is Severity.REFUSED)
    with pytest.raises(DataError, match=f"accept '{case.code}" if lifted else "leave-out"):
        load(folder)


@pytest.mark.parametrize("what", SAID)
def test_what_is_suspicious_is_said_and_the_run_goes_on(tmp_path: Path, what: str) -> None:
    case, spoiled = SAID[what], patients()
    case.spoil(spoiled)
    folder = spoiled.write(tmp_path / "wards")
    found = findings(folder)
    assert has(found, case, Severity.SAID), found
    assert not [each for each in found if each.severity is Severity.REFUSED]
    assert case.code in {each.code for each in load(folder).findings}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("records", [20, 60, 400])
def test_nothing_is_said_of_healthy_patients(tmp_path: Path, seed: int, records: int) -> None:
    assert not findings(patients(seed, records, max(20, records)).write(tmp_path))


@pytest.mark.parametrize("what", ["decimal comma in public", "another unit at a silo", "names", "one class at a silo"])
def test_a_finding_is_accepted_by_name(tmp_path: Path, what: str) -> None:
    case, spoiled = (REFUSED | SAID)[what], patients()
    case.spoil(spoiled)
    folder = spoiled.write(tmp_path / "wards")
    about = case.column or case.silo
    for name in (case.code, f"{case.code}:{about}"):
        found = findings(folder, accept=[name])
        assert has(found, case, Severity.ACCEPTED)
        assert not has(found, case, Severity.REFUSED)
    assert not has(findings(folder, accept=[f"{case.code}:height"]), case, Severity.ACCEPTED)


@pytest.mark.parametrize("what", ["dates as text", "dates that are read as such", "dates with a time"])
def test_nobody_is_told_to_accept_what_is_refused_all_the_same(tmp_path: Path, what: str) -> None:
    spoiled = patients()
    REFUSED[what].spoil(spoiled)
    folder = spoiled.write(tmp_path / "wards")
    with pytest.raises(DataError) as refused:
        load(folder)
    assert "if it is meant so" not in str(refused.value)
    with pytest.raises(DataError, match="leave-out"):
        load(folder, accept=["dates-as-text"])


def test_another_finding_shows_once_the_first_is_accepted(tmp_path: Path) -> None:
    folder = patients().change(PUBLIC, "crp", lambda cell: cell.replace(".", ",")).write(tmp_path / "wards")
    with pytest.raises(DataError, match="number-as-text:crp"):
        load(folder)
    with pytest.raises(DataError, match="unknown-values:crp"):
        load(folder, accept="number-as-text:crp")
    assert load(folder, accept="number-as-text:crp,unknown-values:crp").silos


def test_a_name_that_no_finding_has_is_an_error_with_the_nearest(tmp_path: Path) -> None:
    folder = patients().write(tmp_path / "wards")
    with pytest.raises(ConfigError, match="did you mean 'one-per-record'"):
        load(folder, accept="one-per-recrod:name")


def test_every_finding_is_called_as_the_catalogue_says() -> None:
    assert {case.code for case in (REFUSED | SAID).values()} <= CODES.keys()


def test_the_reference_has_every_finding() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "findings.md").read_text("utf-8")
    assert re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE) == [*CODES]


@pytest.mark.parametrize("share", [0.0025, 0.02, 0.1, 0.3])
@pytest.mark.parametrize("cell", ["<5", "?", "n.d.", "1,5", ">100", "7.3 mg", "---", "1.2.3"])
@pytest.mark.parametrize("where", [PUBLIC, "dortmund", "koeln"])
def test_cells_that_are_no_numbers_are_found_anywhere(tmp_path: Path, where: str, cell: str, share: float) -> None:
    rng = np.random.default_rng(int(share * 1e4) + len(where))
    column = ("age", "crp", "height", "glucose")[int(rng.integers(4))]
    spoiled = patients(3)
    rows = rng.choice(300, max(1, int(share * 300)), replace=False)
    found = findings(spoiled.some(where, column, rows.tolist(), cell).write(tmp_path))
    (only,) = [each for each in found if each.severity is Severity.REFUSED]
    silo = "" if where == PUBLIC else where
    assert (only.code, only.column, only.silo) == ("number-as-text", column, silo)
    assert f"record {rows.min() + 1}" in only.said


HEALTHY_COLUMNS = {
    "grades as words and numbers": ["1", "2", "3", "4a", "4b"],
    "groups of ages": ["20-29", "30-39", "40-49", "80+"],
    "codes of diseases": [f"{letter}{number:02}" for letter in "IJK" for number in range(12)],
    "yes, no and unknown": ["yes", "no", "unknown"],
    "grades": ["0", "1", "2"],
    "hours": [str(hour) for hour in range(24)],
    "years": [str(year) for year in range(2008, 2024)],
    "truth": ["true", "false"],
    "letters alone": ["A", "B", "AB", "O"],
}


@pytest.mark.parametrize("what", HEALTHY_COLUMNS)
def test_nothing_is_said_of_a_healthy_column(tmp_path: Path, what: str) -> None:
    values, rng = HEALTHY_COLUMNS[what], np.random.default_rng(8)
    found = findings(patients().add("extra", lambda name, row: str(rng.choice(values))).write(tmp_path))
    assert not found


HEALTHY_CLASSES = {
    "stages": ["I", "II", "III", "IV"],
    "signs": ["+", "-"],
    "grades": ["0", "1", "2", "3", "4"],
    "a class with a slash": ["mild", "moderate", "mild/moderate"],
    "receptors": ["ER+/PR+", "ER+/PR-", "ER-/PR-"],
    "a comma in a name": ["diabetes, type 1", "diabetes, type 2", "none"],
    "half grades": ["0.5", "1", "1.5", "2"],
    "forty classes": [f"c{number}" for number in range(40)],
}


@pytest.mark.parametrize("what", HEALTHY_CLASSES)
def test_nothing_is_refused_of_healthy_classes(tmp_path: Path, what: str) -> None:
    rng = np.random.default_rng(8)
    fine = patients()
    fine.change(SILOS, LABEL, lambda cell: str(rng.choice(HEALTHY_CLASSES[what])))
    assert not [each for each in findings(fine.write(tmp_path)) if each.severity is Severity.REFUSED]


def test_many_equal_findings_are_one_sentence(tmp_path: Path) -> None:
    spoiled = patients()
    for number in range(12):
        spoiled.add(f"note {number}", lambda name, row, number=number: f"{name} {row} {number}")
    with pytest.raises(DataError) as refused:
        load(spoiled.write(tmp_path))
    said = str(refused.value)
    assert said.count("as names, identifiers and free text have") == 1
    assert "'note 1', 'note 2', 'note 3' and 8 more" in said


def test_no_finding_quotes_a_name(tmp_path: Path) -> None:
    spoiled = patients().some("essen", "age", [4], "Erika-4711").some("koeln", "ward", [3], "Erika-4711")
    spoiled.some("koeln", LABEL, [3], "Erika-4711").add("name", lambda name, row: f"Erika-4711-{row}")
    for found in findings(spoiled.write(tmp_path)):
        assert "Erika" not in found.sentence


def wide(records: int, columns: int) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table({f"x{number}": rng.normal(size=records) for number in range(columns)})


def test_a_wide_table_is_inspected_in_a_moment() -> None:
    public = wide(100, 5000)
    labels = pa.array(["yes", "no"] * 50)
    silos = {name: wide(100, 5000).append_column(LABEL, labels) for name in SILOS}
    began = time.process_time()
    assert not [each for each in inspect_tables(public, silos, LABEL).findings if each.severity is Severity.REFUSED]
    assert time.process_time() - began < 15
