"""Who waits at a terminal sees how far it is; who takes the outcome elsewhere gets nothing of that."""

import re
import time
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.algorithms.table import find_algorithm
from fedct_flwr.cli.coordinator import run
from fedct_flwr.cli.output import Output
from fedct_flwr.config import RunConfig
from fedct_flwr.runs.run_folder import RunFolder
from tests.cli.silos import Fedct, Kit
from tests.hospitals import dataset
from tests.terminal import errors_on_a_terminal

SIMULATE = ("simulate", "--in-process", "--no-watch", "--learner", "decision-tree", "--rounds", "1", "--run-dir")


def test_a_simulation_tells_how_far_its_baselines_are(
    fedct: Fedct, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with errors_on_a_terminal(monkeypatch) as screen:
        there = fedct(*SIMULATE, "one")
    elsewhere = fedct(*SIMULATE, "two")
    assert (there.code, elsewhere.code, elsewhere.err) == (0, 0, "")
    for words in ("training the baselines", "100%", "drawing the report"):
        assert words in screen.text
        assert words not in there.out + elsewhere.out
    # The table, and all else, is the same.
    assert there.out.count("\n") == elsewhere.out.count("\n")


def test_a_coordinators_run_tells_how_far_its_baselines_are(
    fedct: Fedct, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fedct(*SIMULATE, "run", "--set", "report-scores=true").code == 0
    folder = RunFolder(here / "run")
    config = RunConfig.from_flower({**folder.settings(), "roster": "cleveland,budapest,zurich,long-beach"})
    with errors_on_a_terminal(monkeypatch) as screen:
        run._show(Output(), config, find_algorithm(config), folder, (config, dataset()), time.monotonic())
    assert "training the baselines" in screen.text
    assert "100%" in screen.text
    assert "mean" in capsys.readouterr().out


def test_a_log_is_proven_under_a_bar(
    fedct: Fedct, kit: Kit, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    with kit.log() as log:
        for number in range(1, 21):
            log.append(kit.released(number, 228, 151))
    with errors_on_a_terminal(monkeypatch) as screen:
        there = fedct("silo", "verify", kit.folder, "--json")
    elsewhere = fedct("silo", "verify", kit.folder, "--json")
    assert sorted(set(re.findall(r"proving[a-z ]*[a-z]", screen.text))) == wording
    # Every byte of the log is in it.
    assert "100%" in screen.text
    assert there.out == elsewhere.out
    assert "proving" not in elsewhere.err


def test_what_is_printed_meanwhile_stands_above_the_bar_and_a_file_gets_it_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with errors_on_a_terminal(monkeypatch) as screen:
        for number in Output.progress(range(3), "counting"):
            print(f"number {number}")
    assert capsys.readouterr().out == "number 0\nnumber 1\nnumber 2\n"
    assert "number" not in screen.text
    assert "counting" in screen.text


def test_without_a_terminal_there_is_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(Output.progress(range(3), "counting")) == [0, 1, 2]
    with Output.bar("more", None) as advance, Output.doing("much"):
        advance(1)
    assert capsys.readouterr() == ("", "")
