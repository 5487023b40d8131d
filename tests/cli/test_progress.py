"""Who waits at a terminal sees how far it is; who takes the outcome elsewhere gets nothing of that."""

from pathlib import Path

import pytest

from fedct_flwr.cli.output import Output
from tests.cli.silos import Fedct
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


def test_without_a_terminal_there_is_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(Output.progress(range(3), "counting")) == [0, 1, 2]
    with Output.bar("more", None) as advance, Output.doing("much"):
        advance(1)
    assert capsys.readouterr() == ("", "")
