"""Exports of hospitals as a simulation reads them: what is said, and files that are refused with what to do."""

import json
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.folder_inspection import FolderInspection, inspect_folder
from fedct_flwr.datasets.groups import column_of_groups
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.types import DataError
from tests.messy.exports import HONEST, SAID, visits
from tests.messy.families import drawn
from tests.messy.patients import LABEL, findings, load, patients
from tests.messy.test_commands import Fedct, silo


@pytest.mark.parametrize("what", SAID)
def test_a_mess_of_an_export_is_said(tmp_path: Path, what: str) -> None:
    case, spoiled = SAID[what], patients()
    case.spoil(spoiled)
    assert (case.code, case.column, case.silo) in findings(spoiled, tmp_path)


@pytest.mark.parametrize("what", HONEST)
def test_nothing_is_said_of_an_honest_column(tmp_path: Path, what: str) -> None:
    fine = patients()
    HONEST[what].spoil(fine)
    assert not findings(fine, tmp_path)


DAYS = {
    "scattered over years": lambda name, row: int(drawn(name, row).integers(1500)),
    "the first of a month": lambda name, row: (date(2023, 1 + row % 12, 1) - date(2023, 1, 1)).days,
    "one on each day": lambda name, row: row % 300,
    "births": lambda name, row: -int(drawn(name, row).integers(20_000)),
}


@pytest.mark.parametrize("what", DAYS)
def test_nothing_is_said_of_dates_whose_form_is_told(tmp_path: Path, what: str) -> None:
    day: Callable[[str, int], int] = DAYS[what]
    fine = patients().add("seen", lambda name, row: f"{date(2023, 1, 1) + timedelta(days=day(name, row)):%d.%m.%Y}")
    folder = fine.write(tmp_path)
    (folder / "data.toml").write_text('dates = "%d.%m.%Y"', "utf-8")
    assert not load(folder).findings


def test_a_day_that_stands_for_a_missing_one_is_said(tmp_path: Path) -> None:
    spoiled = patients().add("seen", lambda name, row: f"{date(2023, 1, 1) + timedelta(days=row % 300):%d.%m.%Y}")
    folder = spoiled.some("public", "seen", range(9), "01.01.1900").write(tmp_path)
    (folder / "data.toml").write_text('dates = "%d.%m.%Y"', "utf-8")
    assert [(each.code, each.column) for each in load(folder).findings] == [("far-number", "seen")]


def test_numbers_that_repeat_in_the_first_line_are_no_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("61,1,1\n40,0,1\n", "utf-8")
    with pytest.raises(DataError, match=r"first line of .* holds numbers: write the columns' names above it"):
        read_table(tmp_path / "a.csv")


def test_of_visits_only_the_patient_is_named(tmp_path: Path) -> None:
    found = load(visits(patients(), "xyz").write(tmp_path)).findings
    assert [each.column for each in found if each.code == "record-number"] == ["xyz"]
    assert not [each for each in found if each.code == "other-scale"]
    assert not [each for each in load(tmp_path, group_column="xyz").findings if each.code == "record-number"]


def test_groups_that_differ_in_spelling_alone_are_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("pat,x\nP01,1\n p01 ,2\nP02,3\n7,4\n7.0,5\n", "utf-8")
    table = read_table(tmp_path / "a.csv", ["pat"])
    assert column_of_groups(table, "pat", "a.csv").to_pylist() == ["p01", "p01", "p02", "7", "7"]


def inspected(folder: Path) -> FolderInspection:
    config = {"study": "messy", "data": "files", "data-dir": str(folder), "label-column": LABEL}
    return inspect_folder(RunConfig.from_flower(config))


def changed(folder: Path, change: str) -> str:
    """What is said of a folder where the file of silo essen was changed."""
    patients().write(folder)
    file = folder / "essen.csv"
    lines = file.read_text("utf-8").splitlines()
    header, rows = lines[0], lines[1:]
    quoted = [row.split(",") for row in rows]
    new = {
        "blanks in the header": [header.replace(",", " , "), *rows],
        "capital letters": [header.upper(), *rows],
        "no header": rows,
        "other blanks": [header.replace(LABEL, f"{LABEL}\u00a0"), *rows],
        "blanks between fields": [line.replace(",", " ") for line in lines],
        "lines in quotation marks": [f'"{line}"' for line in lines],
        "a field too many everywhere": [header, *(f"{row}," for row in rows)],
        "decimal commas without marks": [header, *(row.replace(".", ",") for row in rows)],
        "a field too many in one line": [header, *rows[:6], f"{rows[6]},oops", *rows[7:]],
        "marks that are never closed": [
            header,
            *rows[:3],
            ",".join([*quoted[3][:4], f'"{quoted[3][4]}', *quoted[3][5:]]),
            *rows[4:23],
            ",".join([*quoted[23][:4], f'{quoted[23][4]}"', *quoted[23][5:]]),
            *rows[24:],
        ],
        "empty lines": ["", " ", ""],
        "another column": [f"{header},bmi", *(f"{row},22" for row in rows)],
        "a translated column": [header.replace("age", "alter"), *rows],
    }
    file.write_text("\n".join(new[change]) + "\n", "utf-8")
    (refused,) = inspected(folder).inspection.refused
    assert refused.silo == "essen"
    return refused.sentence


REFUSED = {
    "blanks in the header": "but ' ill': give it the same name",
    "capital letters": "but 'ILL': give it the same name",
    "other blanks": "give it the same name",
    "no header": "its first line holds numbers: write the columns' names above it",
    "blanks between fields": "set separator = ' '",
    "lines in quotation marks": "take these marks out",
    "a field too many everywhere": "in line 2; no line may end with a separator",
    "decimal commas without marks": "in line 2; no line may end with a separator, and a number with a decimal comma",
    "a field too many in one line": "in line 8; each line needs as many fields as the header",
    "marks that are never closed": "a field of record 4 holds whole records",
    "empty lines": "is empty, or its first line is",
    "another column": "has columns that the public set lacks: 'bmi'; take them out, or name them under leave-out",
    "a translated column": "lacks columns of the public set: 'age'; name them as there (it has 'alter')",
}


@pytest.mark.parametrize("change", REFUSED)
def test_a_broken_file_is_refused_with_what_to_do(tmp_path: Path, change: str) -> None:
    assert REFUSED[change] in changed(tmp_path, change)


def test_lines_within_a_cell_are_no_records(tmp_path: Path) -> None:
    folder = (
        patients().add("note", lambda name, row: "\n".join(f"day {day}, well, 3, 4" for day in "ab")).write(tmp_path)
    )
    assert {each.code for each in load(folder, text_columns="note").findings} == set()


def test_tables_that_are_not_read_are_named_with_what_to_do(tmp_path: Path) -> None:
    folder = patients().write(tmp_path)
    (folder / "ulm.ods").write_bytes(b"PK")
    (folder / "notes.md").write_text("mine", "utf-8")
    assert inspected(folder).files.unused_tables == ("ulm.ods",)
    assert "save 'ulm.ods' as .csv or .xlsx" in " ".join(load(folder).notes)


def test_settings_that_a_system_has_called_text_are_named(tmp_path: Path) -> None:
    folder = patients().write(tmp_path)
    (folder / "data.toml.txt").write_text('missing = ["-9"]', "utf-8")
    (note,) = load(folder).notes
    assert "rename 'data.toml.txt' to data.toml" in note
    assert "as .csv" not in note


def test_sheets_that_are_not_read_are_named(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    folder = patients().write(tmp_path)
    lines = [line.split(",") for line in (folder / "essen.csv").read_text("utf-8").splitlines()]
    (folder / "essen.csv").unlink()
    book = openpyxl.Workbook()
    for sheet in (book.active, book.create_sheet("2024")):
        for line in lines:
            sheet.append(line)
    book.save(folder / "essen.xlsx")
    assert inspected(folder).sheets == {"essen.xlsx": ["2024"]}


@pytest.mark.parametrize("cells", [b"\xd0\xcf\x11\xe0" + b"\0" * 600])
def test_a_workbook_with_a_password_is_called_so(tmp_path: Path, cells: bytes) -> None:
    (tmp_path / "essen.xlsx").write_bytes(cells)
    with pytest.raises(DataError, match="it has a password"):
        read_table(tmp_path / "essen.xlsx")


def test_silos_that_differ_in_capital_letters_alone_are_refused(tmp_path: Path) -> None:
    folder = patients().write(tmp_path)
    (folder / "koeln.csv").rename(folder / "Essen.csv")
    with pytest.raises(DataError, match="differ in capital letters alone"):
        load(folder)


def test_a_public_set_by_another_name_is_proposed(tmp_path: Path, wording: SnapshotAssertion) -> None:
    folder = patients().write(tmp_path)
    (folder / "public.csv").rename(folder / "Public_data.csv")
    with pytest.raises(DataError) as caught:
        load(folder)
    assert str(caught.value) == wording


def test_a_public_set_in_another_form_is_named(tmp_path: Path) -> None:
    folder = patients().write(tmp_path)
    (folder / "public.csv").rename(folder / "public.xls")
    with pytest.raises(DataError, match=r"save 'public.xls' as .csv or .xlsx"):
        load(folder)


def test_a_label_of_blanks_is_missing(tmp_path: Path) -> None:
    folder = patients().some("essen", LABEL, range(9), "   ").write(tmp_path)
    with pytest.raises(DataError, match="9 records without a label"):
        load(folder)


@pytest.mark.parametrize(
    "cells",
    [
        "{:.3f}",
        "{:,.0f}",
    ],
)
def test_a_comma_is_read_by_the_public_sets_numbers(tmp_path: Path, cells: str, wording: SnapshotAssertion) -> None:
    # 12,345 is twelve here, and twelve thousand there.
    factor = 1 if "3f" in cells else 1000
    spoiled = patients().change(
        ("public", "dortmund", "essen", "koeln"), "height", lambda cell: f"{float(cell) * factor + 1000:.3f}"
    )
    if factor == 1:
        spoiled.change(("public", "dortmund", "essen", "koeln"), "height", lambda cell: f"{float(cell) - 1000:.3f}")
    spoiled.change("essen", "height", lambda cell: cells.format(float(cell)).replace(".", ","))
    (refused,) = inspected(spoiled.write(tmp_path)).inspection.refused
    assert refused.fix == wording


CHECKED = (
    "zeros for a column that is not measured",
    "one number in public, and others at silos",
    "merged cells at a silo",
    "visits of a patient by a name that says nothing",
    "records with two labels at a silo",
)


@pytest.mark.parametrize("what", CHECKED)
def test_a_real_silo_is_told_without_a_value(fedct: Fedct, here: Path, what: str) -> None:
    case, spoiled = SAID[what], patients()
    case.spoil(spoiled)
    folder, _ = silo(fedct, here, spoiled, "essen")
    found = json.loads(fedct("silo", "check", folder, "--offline", "--json").out)["findings"]
    (said,) = [each for each in found if each["code"] == f"{case.code}:{case.column or 'essen'}"]
    assert "essen" in said["said"] or case.code in ("record-number", "constant-column")
    assert not any(number in said["said"] for number in ("(0)", "(170)"))


@pytest.mark.parametrize(("old", "new", "said"), [(",", ";", "separated by semicolons"), ("\n", ",\n", "in line 2")])
def test_check_tells_what_is_wrong_with_a_file(fedct: Fedct, here: Path, old: str, new: str, said: str) -> None:
    folder, _ = silo(fedct, here, patients(), "essen")
    file = here / "tables" / "essen.csv"
    header, rows = file.read_text("utf-8").split("\n", 1)
    file.write_text((header.replace(old, new) if old == "," else header) + "\n" + rows.replace(old, new), "utf-8")
    outcome = fedct("silo", "check", folder, "--offline", "--json")
    assert outcome.code == 3
    (found,) = [each for each in json.loads(outcome.out)["findings"] if each["said"].startswith("records:")]
    assert said in f"{found['said']}: {found['fix']}"
    assert str(here) not in outcome.out


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("cell", ["", "1e308"])
def test_odd_numbers_are_no_warning_of_a_program(tmp_path: Path, cell: str) -> None:
    spoiled = patients().some("essen", "crp", [3, 4], "1e308") if cell else patients()
    if not cell:
        spoiled.change(("public", "dortmund", "essen", "koeln"), "crp", lambda _: "")
    codes = {each.code for each in inspected(spoiled.write(tmp_path)).inspection.findings}
    assert codes == ({"far-number"} if cell else {"missing-values"})
