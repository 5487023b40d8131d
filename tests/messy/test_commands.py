"""What ``simulate``, ``inspect``, ``silo init``, ``silo check``, ``coordinator init`` and the agent make of messes."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.silo.own import real_site
from fedct_flwr.types import DataError
from tests.cli.runner import Outcome
from tests.messy.patients import LABEL, PUBLIC, REFUSED, SAID, Patients, patients

Fedct = Callable[..., Outcome]

AT_SILOS = [
    "other words at a silo", "decimal comma at a silo", "labels in upper and lower case, by silo",
    "another unit at a silo", "a sentinel", "records in public", "a silo of two records",
]  # fmt: skip
"""What one silo can see, which has its own records and the study."""
OF_PUBLIC = ["decimal comma in public", "names", "an index without a name", "dates as text"]
"""What the coordinator can see, who has only the public set."""


def made(what: str) -> Patients:
    spoiled = patients()
    (REFUSED | SAID)[what].spoil(spoiled)
    return spoiled


def study(folder: Path, tables: Patients) -> Path:
    """A study's folder with this public set."""
    Patients({PUBLIC: tables.tables[PUBLIC]}).write(folder)
    (folder / "study.toml").write_text(
        tomli_w.dumps({"study": "wards", "classes": sorted({*tables.tables["dortmund"][LABEL]})})
    )
    return folder


def silo(fedct: Fedct, place: Path, tables: Patients, name: str) -> tuple[Path, Outcome]:
    """A silo's folder as ``silo init`` makes it, and what that said."""
    tables.write(place / "tables")
    folder, agreed = place / "silo", study(place / "study", tables)
    data = place / "tables" / f"{name}.csv"
    outcome = fedct("silo", "init", folder, "--silo", name, "--study", agreed, "--data", data, "--label", LABEL)
    return folder, outcome


def codes(document: dict[str, Any]) -> dict[str, str]:
    """The severity of each finding of ``inspect``, or the mark of each one of ``check``, by its name."""
    return {each["code"]: each.get("severity") or each["mark"] for each in document["findings"] if each["code"]}


def test_simulate_says_what_is_suspicious(fedct: Fedct, here: Path) -> None:
    made("another unit at a silo").write(here / "wards")
    options = ("--data-dir", "wards", "--label", LABEL, "--in-process", "--rounds", "1", "--json")
    outcome = fedct("simulate", *options, "--run-dir", "said")
    assert outcome.code == 0, outcome.err
    assert codes(json.loads(outcome.out)) == {"other-scale": "said"}
    assert "'glucose' at silo essen" in outcome.err
    table = json.loads((here / "said" / "table_one.json").read_text())["rows"]
    assert [row["column"] for row in table[:3]] == [LABEL, "labels fit (AUC)", "glucose"]
    outcome = fedct("simulate", *options, "--run-dir", "accepted", "--accept", "other-scale:glucose")
    assert codes(json.loads(outcome.out)) == {}
    assert "lies apart" not in outcome.err


def test_inspect_shows_the_table_by_site_the_findings_and_unused_files(fedct: Fedct, here: Path) -> None:
    made("other words at a silo").write(here / "wards")
    (here / "wards" / "notes.docx").write_bytes(b"")
    outcome = fedct("inspect", "wards", "--label", LABEL, "--json")
    document = json.loads(outcome.out)
    assert (outcome.code, document["unused"]) == (3, ["notes.docx"])
    rows = {row["column"]: row for row in document["table"]}
    assert [*rows][:2] == [LABEL, "sex"]
    (essen,) = [site for site in rows["sex"]["sites"] if site["silo"] == "essen"]
    assert (essen["records"], essen["missing"], essen["marked"], essen["there"]) == (400, 0, True, [0, 0])
    shown = fedct("inspect", "wards", "--label", LABEL).out
    assert "Median [quartiles]" in shown
    for word in ("Table 1 by site", "largest differences", "notes.docx", "unknown-values:sex", "1 refused"):
        assert word in " ".join(shown.split())


def test_inspect_shows_all_that_is_wrong_at_once(fedct: Fedct, here: Path) -> None:
    spoiled = made("other words at a silo")
    del spoiled.tables["koeln"]["age"]
    spoiled.tables["dortmund"] = {
        "sick" if name == LABEL else name: cells for name, cells in spoiled.tables["dortmund"].items()
    }
    spoiled.write(here / "wards")
    outcome = fedct("inspect", "wards", "--label", LABEL, "--json")
    assert outcome.code == 3
    found = {(each["code"], each["silo"]) for each in json.loads(outcome.out)["findings"]}
    assert found == {("unreadable", "koeln"), ("unreadable", "dortmund"), ("unknown-values", "essen")}


@pytest.mark.parametrize("what", AT_SILOS)
def test_a_real_silo_is_told_and_no_value_is_quoted(fedct: Fedct, tmp_path: Path, what: str) -> None:
    case = (REFUSED | SAID)[what]
    tables = made(what)
    folder, outcome = silo(fedct, tmp_path, tables, case.silo)
    assert outcome.code == 0, outcome.err
    checked = fedct("silo", "check", folder, "--offline", "--json")
    name = f"{case.code}:{case.column or case.silo}"
    assert codes(json.loads(checked.out))[name] == ("bad" if what in REFUSED else "warning")
    cells = {cell for cell in tables.tables[case.silo].get(case.column, []) if not cell.isdecimal()}
    said = " ".join(each["said"] + each["fix"] for each in json.loads(checked.out)["findings"])
    assert not [cell for cell in cells - {*tables.tables["dortmund"][LABEL]} if f"'{cell}'" in said]
    config = SiloConfig.read_toml(folder / "silo.toml")
    if what in REFUSED:
        with pytest.raises(DataError):
            real_site(config, read_study(config.study))
    else:
        assert name in {each.name for each in real_site(config, read_study(config.study)).findings}


def test_a_real_silo_of_healthy_patients_sees_the_largest_differences(fedct: Fedct, tmp_path: Path) -> None:
    folder, outcome = silo(fedct, tmp_path, patients(), "essen")
    assert "Note" not in outcome.out
    checked = json.loads(fedct("silo", "check", folder, "--offline", "--json").out)
    assert codes(checked) == {}
    (differences,) = [each["said"] for each in checked["findings"] if each["said"].startswith("data: ")]
    assert differences.startswith("data: next to the public set, largest differences; check unit, coding and join: ")
    assert differences.count("(SMD 0.") == 3


def test_a_silo_compares_its_class_shares_with_those_that_the_study_states(fedct: Fedct, tmp_path: Path) -> None:
    folder, _ = silo(fedct, tmp_path, patients(), "essen")
    file = SiloConfig.read_toml(folder / "silo.toml").study / "study.toml"
    for low, mark in ((0.1, None), (0.9, "warning")):
        settings = {"study": "wards", "classes": ["no", "yes"], "tables": {"class-shares": {"yes": [low, 1]}}}
        file.write_text(tomli_w.dumps(settings))
        found = json.loads(fedct("silo", "check", folder, "--offline", "--json").out)
        assert codes(found).get("class-shares:essen") == mark


@pytest.mark.parametrize("what", OF_PUBLIC)
def test_a_coordinator_hands_out_no_such_study(fedct: Fedct, tmp_path: Path, what: str) -> None:
    agreed = study(tmp_path / "study", made(what))
    outcome = fedct("coordinator", "init", tmp_path / "coordinator", "--study", agreed)
    assert outcome.code == DataError.exit_code
    assert not (tmp_path / "coordinator").exists()


def test_a_coordinator_is_told_what_is_suspicious(fedct: Fedct, tmp_path: Path) -> None:
    agreed = study(tmp_path / "study", made("a sentinel in public"))
    outcome = fedct("coordinator", "init", tmp_path / "coordinator", "--study", agreed)
    assert outcome.code == 0, outcome.err
    assert "column 'age' of the public set has 999 where a value seems to be missing" in " ".join(outcome.out.split())
    shutil.rmtree(tmp_path / "coordinator")
    settings = {"study": "wards", "classes": ["no", "yes"], "tables": {"accept": ["missing-as-number"]}}
    (agreed / "study.toml").write_text(tomli_w.dumps(settings))
    assert "999" not in fedct("coordinator", "init", tmp_path / "coordinator", "--study", agreed).out
