"""Baselines that are switched off."""

import json
from pathlib import Path

import pytest

from tests.cli.silos import Fedct

QUICK = ("--in-process", "--no-watch", "--learner", "decision-tree", "--rounds", "1")


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (("--no-baselines",), {"federated"}),
        (("--set", "baselines=local"), {"local", "federated"}),
        ((), {"local", "federated", "centralized"}),
    ],
)
def test_only_what_was_trained_is_shown(fedct: Fedct, here: Path, options: tuple[str, ...], wanted: set[str]) -> None:
    outcome = fedct("simulate", *QUICK, "--run-dir", "run", *options)
    assert outcome.code == 0, outcome
    rows = json.loads((here / "run" / "scores.json").read_text())
    assert {name for row in rows for name, value in row["pooled"].items() if value is not None} == wanted
    assert ("alone" in outcome.out, "central" in outcome.out) == ("local" in wanted, "centralized" in wanted)
    assert "could not be trained" not in outcome.out
