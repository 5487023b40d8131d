"""A silo whose records a query gives: what is approved and logged, what has changed since, and what fails."""

import runpy
import shutil
import sqlite3
from pathlib import Path

import pytest

from fedct_flwr.datasets.query import read_query, result_of
from fedct_flwr.hospital.file_watch import FileWatch
from fedct_flwr.hospital.log_entry import read_entries
from fedct_flwr.silo.own import OwnSilo, real_site
from tests.cli.runner import Outcome
from tests.cli.silos import YES, Fedct, Kit, words
from tests.readme import ROOT

OMOP = ROOT / "examples" / "omop"
PASSWORD = "hunter2"
CLINIC = runpy.run_path(str(OMOP / "make_clinic.py"))


@pytest.fixture
def clinic(here: Path) -> Path:
    path = here / "clinic.db"
    with sqlite3.connect(path) as connection:
        for statement in CLINIC["TABLES"]:
            connection.execute(statement)
        for name, row in CLINIC["rows"](1):
            connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
    return path


@pytest.fixture
def kit(fedct: Fedct, here: Path, clinic: Path, monkeypatch: pytest.MonkeyPatch) -> Kit:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    folder = here / "silo"
    made = fedct(
        "silo", "init", folder, "--silo", "essen", "--study", OMOP / "study", "--data", folder / "study/cohort.sql",
        "--database", clinic.name, "--label", "kidney_disease",
    )  # fmt: skip
    assert made.code == 0, made.err
    return Kit(folder, OMOP)


def check(fedct: Fedct, kit: Kit) -> Outcome:
    outcome = fedct("silo", "check", kit.folder, "--offline")
    assert PASSWORD not in outcome.out + outcome.err
    return outcome


def approve(fedct: Fedct, kit: Kit) -> Outcome:
    outcome = fedct("silo", "approve", kit.folder, *YES)
    assert PASSWORD not in outcome.out + outcome.err
    return outcome


def sql(kit: Kit) -> Path:
    return kit.folder / "study" / "cohort.sql"


def write(kit: Kit, text: str) -> None:
    sql(kit).write_text(text, "utf-8")


def test_what_is_approved_is_shown_and_logged(fedct: Fedct, kit: Kit) -> None:
    outcome = approve(fedct, kit)
    assert outcome.code == 0
    assert "The query that reads the records Database: " in words(outcome.out)
    shown = [line.strip() for line in sql(kit).read_text("utf-8").splitlines()]
    assert all(" ".join(line.split()) in words(outcome.out) for line in shown)
    (entry,) = read_entries(kit.state)
    assert entry.details["result"] == result_of(kit.config.data, read_query(kit.config.data))
    assert PASSWORD not in (kit.state / "egress.jsonl").read_text("utf-8")
    # The agent, of what it has read.
    assert real_site(kit.config, kit.study).result == entry.details["result"]


def test_another_text_is_not_what_was_approved(fedct: Fedct, kit: Kit) -> None:
    approve(fedct, kit)
    files = FileWatch.of_study(OwnSilo.read(kit.file))
    assert kit.is_approved
    assert files.unchanged()
    write(kit, sql(kit).read_text("utf-8") + "-- and no more\n")
    assert not kit.is_approved
    assert not files.unchanged()
    page = words(check(fedct, kit).out)
    assert "! approval: study, app or settings have changed since approved, so nothing leaves" in page
    # The database may move, as a file may.
    approve(fedct, kit)
    shutil.copyfile(kit.config.data.database, kit.folder / "moved.db")
    kit.edit(kit.config.data.database, "moved.db")
    assert kit.is_approved


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT year_of_birth AS age FROM person", "missing are 'sex', 'hypertension', 'hba1c'"),
        ("DELETE FROM person", "is no SELECT: write one SELECT"),
    ],
)
def test_a_wrong_query_charges_nothing(fedct: Fedct, kit: Kit, clinic: Path, text: str, said: str) -> None:
    write(kit, text)
    before = clinic.read_bytes()
    found = check(fedct, kit)
    assert found.code == 3
    assert said.partition(":")[0] in words(found.out)
    # Where the database lies is not said.
    assert str(clinic) not in found.out
    outcome = approve(fedct, kit)
    assert outcome.code not in (0, 1)
    assert outcome.sentence
    assert not kit.events
    assert clinic.read_bytes() == before
