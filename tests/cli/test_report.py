"""``fedct report``."""

import importlib.util
import zipfile
from pathlib import Path

import pytest

from fedct_flwr.cli.report import write_meanwhile
from tests.cli.silos import Fedct
from tests.report.folders import finished


def test_it_writes_one_page_and_overwrites_only_by_force(fedct: Fedct, here: Path) -> None:
    page = finished(here / "run").path / "report.html"
    outcome = fedct("report", "run")
    assert (outcome.code, outcome.out) == (0, "report: run/report.html\n")
    assert page.read_text("utf-8").startswith("<!doctype html>")
    page.write_text("mine")
    outcome = fedct("report", "run")
    assert (outcome.code, "--force" in outcome.sentence) == (3, True)
    assert page.read_text() == "mine"
    assert fedct("report", "run", "--force").code == 0
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_the_page_of_a_run_reloads_itself_until_the_run_ends(here: Path) -> None:
    folder = finished(here / "run")
    for ended in (False, True):
        write_meanwhile(folder, ended=ended)
        page = (folder.path / "report.html").read_text("utf-8")
        assert ('<meta http-equiv="refresh"' in page) is not ended


def test_without_the_extra_it_says_how_to_get_it(fedct: Fedct, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(here / "run")
    known = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "plotly" else known(name))
    outcome = fedct("report", "run")
    assert outcome.code == 2
    assert outcome.sentence


def test_a_crate_is_written_once(fedct: Fedct, here: Path) -> None:
    pytest.importorskip("rocrate")
    finished(here / "run", data="heart-disease")
    outcome = fedct("report", "run", "--crate")
    assert (outcome.code, outcome.out) == (0, "crate: run/crate.zip\n")
    assert zipfile.ZipFile(here / "run" / "crate.zip").read("privacy-sheet.md")
    outcome = fedct("report", "run", "--crate")
    assert (outcome.code, "--force" in outcome.sentence) == (3, True)
    assert fedct("report", "run", "--crate", "--output", "mine.zip").code == 0
    assert fedct("report", "run", "--models").code == 2


def test_a_run_that_has_no_privacy_sheet_has_a_crate_without(fedct: Fedct, here: Path) -> None:
    pytest.importorskip("rocrate")
    finished(here / "run", data="heart-disease", algorithm="fedavg", learner="mlp")
    outcome = fedct("report", "run", "--crate")
    assert (outcome.code, "the crate has no privacy sheet: " in outcome.out) == (0, True)
    assert "privacy-sheet.md" not in zipfile.ZipFile(here / "run" / "crate.zip").namelist()
