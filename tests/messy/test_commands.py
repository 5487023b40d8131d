"""What ``simulate``, ``inspect``, ``silo init``, ``silo check``, ``coordinator init`` and the agent make of messes."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from syrupy.assertion import SnapshotAssertion

from fedct_flwr import DataWarning, simulate
from fedct_flwr.config import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.silo.site import real_site
from fedct_flwr.types import DataError
from tests.cli.runner import Outcome, files_below
from tests.messy.cases import REFUSED, SAID
from tests.messy.patients import LABEL, PUBLIC, Patients, patients

Fedct = Callable[..., Outcome]

_OF_OTHERS = {"no-common-class", "class-at-one-silo", "shared-records", "public-records", "unequal-sizes"}
AT_SILOS = [
    what
    for what, case in (REFUSED | SAID).items()
    if case.silo
    and case.code not in {*_OF_OTHERS, "labels-in-a-cell"}
    and (case.code, what in SAID) != ("label-spellings", True)
]
"""What one silo can see, which has its own records and the study. Copies in public are told by ``duplicates``, and a
label that is no class of the study is refused whatever it is like."""

OF_PUBLIC = [what for what, case in REFUSED.items() if not case.silo and case.column != LABEL]
"""What the coordinator can see, who has the public set alone."""


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


@pytest.mark.parametrize("what", ["decimal comma in public", "names", "labels in upper and lower case, by silo"])
def test_simulate_refuses_before_anything_is_written(fedct: Fedct, here: Path, what: str) -> None:
    made(what).write(here / "wards")
    before = files_below(here)
    outcome = fedct("simulate", "--data-dir", "wards", "--label", LABEL, "--in-process", "--no-watch")
    assert outcome.code == DataError.exit_code
    assert REFUSED[what].code in outcome.sentence
    assert files_below(here) == before


def test_simulate_says_what_is_suspicious(fedct: Fedct, here: Path) -> None:
    made("another unit at a silo").write(here / "wards")
    options = ("--data-dir", "wards", "--label", LABEL, "--in-process", "--no-watch", "--rounds", "1", "--json")
    outcome = fedct("simulate", *options, "--run-dir", "said")
    assert outcome.code == 0, outcome.err
    assert codes(json.loads(outcome.out)) == {"other-scale": "said"}
    assert "'glucose' at silo essen" in outcome.err
    outcome = fedct("simulate", *options, "--run-dir", "accepted", "--accept", "other-scale:glucose")
    assert codes(json.loads(outcome.out)) == {}
    assert "glucose" not in outcome.err


def test_simulate_goes_on_with_what_is_accepted(fedct: Fedct, here: Path) -> None:
    made("names").write(here / "wards")
    options = ("--data-dir", "wards", "--label", LABEL, "--in-process", "--no-watch", "--rounds", "1")
    accept = ("--accept", "one-per-record:name", "--accept", "unknown-values")
    outcome = fedct("simulate", *options, "--learner", "decision-tree", *accept)
    assert outcome.code == 0, outcome.err


def test_an_accepted_name_that_is_none_is_an_error(fedct: Fedct, here: Path) -> None:
    patients().write(here / "wards")
    outcome = fedct("simulate", "--data-dir", "wards", "--label", LABEL, "--accept", "one-per-recrod")
    assert outcome.code == 2
    assert "'one-per-record'" in outcome.sentence


def test_the_function_raises_and_warns(tmp_path: Path) -> None:
    folder = made("other words at a silo").write(tmp_path / "refused")
    with pytest.raises(DataError, match="unknown-values:sex"):
        simulate(folder, label=LABEL, rounds=1, progress=False)
    folder = made("one class at a silo").write(tmp_path / "said")
    with pytest.warns(DataWarning, match="koeln"):
        assert simulate(folder, label=LABEL, rounds=1, progress=False, learner="naive-bayes").status == "completed"
    run = simulate(folder, label=LABEL, rounds=1, progress=False, learner="naive-bayes", accept=["one-class:koeln"])
    assert run.status == "completed"


@pytest.mark.parametrize("what", REFUSED | SAID)
def test_inspect_finds_what_simulate_does(fedct: Fedct, here: Path, what: str) -> None:
    case = (REFUSED | SAID)[what]
    made(what).write(here / "wards")
    outcome = fedct("inspect", "wards", "--label", LABEL, "--json")
    severity, code = ("refused", 3) if what in REFUSED else ("said", 0)
    assert outcome.code == code
    found = json.loads(outcome.out)["findings"]
    assert (case.code, case.column, case.silo, severity) in [
        (each["code"], each["column"], each["silo"], each["severity"]) for each in found
    ]


def test_inspect_shows_columns_classes_and_unused_files(fedct: Fedct, here: Path) -> None:
    made("other words at a silo").write(here / "wards")
    (here / "wards" / "notes.docx").write_bytes(b"")
    outcome = fedct("inspect", "wards", "--label", LABEL, "--json")
    document = json.loads(outcome.out)
    assert document["unused"] == ["notes.docx"]
    tables = {table["silo"]: table for table in document["tables"]}
    assert tables["essen"]["records"] == 400
    assert sum(tables["essen"]["classes"].values()) == 400
    (sex,) = [column for column in tables["essen"]["columns"] if column["name"] == "sex"]
    assert (sex["kind"], sex["missing"], sex["distinct"], sex["unknown"]) == ("text", 0, 2, 400)
    shown = fedct("inspect", "wards", "--label", LABEL).out
    for word in ("essen.csv: 400 records", "100%", "notes.docx", "unknown-values:sex", "1 refused"):
        assert word in shown


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


def test_inspect_of_a_healthy_folder_finds_nothing(fedct: Fedct, here: Path) -> None:
    patients().write(here / "wards")
    outcome = fedct("inspect", "wards", "--label", LABEL, "--json")
    assert (outcome.code, json.loads(outcome.out)["findings"]) == (0, [])


@pytest.mark.parametrize("what", AT_SILOS)
def test_a_real_silo_is_told_and_no_value_is_quoted(fedct: Fedct, tmp_path: Path, what: str) -> None:
    case = (REFUSED | SAID)[what]
    tables = made(what)
    folder, outcome = silo(fedct, tmp_path, tables, case.silo)
    assert outcome.code == 0, outcome.err
    checked = fedct("silo", "check", folder, "--offline", "--json")
    name = f"{case.code}:{case.column or case.silo}"
    assert codes(json.loads(checked.out))[name] == ("bad" if what in REFUSED else "warning")
    assert case.column in outcome.out
    cells = {cell for cell in tables.tables[case.silo].get(case.column, []) if not cell.isdecimal()}
    said = [each["said"] + each["fix"] for each in json.loads(checked.out)["findings"] if each["code"]]
    assert not [
        cell
        for cell in cells - {*tables.tables["dortmund"][LABEL]}
        if any(f"'{cell}'" in sentence for sentence in said)
    ]
    config = SiloConfig.read_toml(folder / "silo.toml")
    if what in REFUSED:
        with pytest.raises(DataError):
            real_site(config, read_study(config.study))
    else:
        assert name in {each.name for each in real_site(config, read_study(config.study)).findings}


def test_a_real_silo_of_healthy_patients_hears_nothing(
    fedct: Fedct, tmp_path: Path, wording: SnapshotAssertion
) -> None:
    folder, outcome = silo(fedct, tmp_path, patients(), "essen")
    assert "Note" not in outcome.out
    checked = json.loads(fedct("silo", "check", folder, "--offline", "--json").out)
    assert codes(checked) == {}
    assert [each["said"] for each in checked["findings"] if each["said"].startswith("data: ")] == wording


def test_a_silo_is_told_what_is_wrong_with_the_public_set(fedct: Fedct, tmp_path: Path) -> None:
    folder, _ = silo(fedct, tmp_path, made("decimal comma in public"), "essen")
    found = json.loads(fedct("silo", "check", folder, "--offline", "--json").out)
    assert codes(found)["number-as-text:crp"] == "bad"


def test_a_silo_accepts_a_finding_in_its_settings(fedct: Fedct, tmp_path: Path) -> None:
    folder, _ = silo(fedct, tmp_path, made("other words at a silo"), "essen")
    with (folder / "silo.toml").open("a") as file:
        file.write('\n[data.tables]\naccept = ["unknown-values:sex"]\n')
    found = json.loads(fedct("silo", "check", folder, "--offline", "--json").out)
    assert codes(found)["unknown-values:sex"] == "good"
    config = SiloConfig.read_toml(folder / "silo.toml")
    assert real_site(config, read_study(config.study)).silo == "essen"


@pytest.mark.parametrize("what", OF_PUBLIC)
def test_a_coordinator_hands_out_no_such_study(fedct: Fedct, tmp_path: Path, what: str) -> None:
    agreed = study(tmp_path / "study", made(what))
    outcome = fedct("coordinator", "init", tmp_path / "coordinator", "--study", agreed)
    assert outcome.code == DataError.exit_code
    assert not (tmp_path / "coordinator").exists()


def test_a_coordinator_is_told_what_is_suspicious(fedct: Fedct, tmp_path: Path, wording: SnapshotAssertion) -> None:
    agreed = study(tmp_path / "study", made("a sentinel in public"))
    outcome = fedct("coordinator", "init", tmp_path / "coordinator", "--study", agreed)
    assert outcome.code == 0, outcome.err
    assert outcome.out == wording
    shutil.rmtree(tmp_path / "coordinator")
    settings = {"study": "wards", "classes": ["no", "yes"], "tables": {"accept": ["missing-as-number"]}}
    (agreed / "study.toml").write_text(tomli_w.dumps(settings))
    assert "999" not in fedct("coordinator", "init", tmp_path / "coordinator", "--study", agreed).out
