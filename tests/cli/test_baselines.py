"""Baselines that are switched off, and that are trained once where one model serves all silos."""

import json
from pathlib import Path

import pytest

from fedct_flwr.baselines import references
from fedct_flwr.config import RunConfig
from tests.cli.silos import Fedct

QUICK = ("--in-process", "--no-watch", "--learner", "decision-tree", "--rounds", "1")


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Each baseline that is trained, with the position of its silo."""
    found: list[tuple[str, int]] = []
    for name in ("local_only", "centralized"):
        train = getattr(references, name)

        def counted(config: RunConfig, dataset: object, position: int, name: str = name, train=train) -> object:  # type: ignore[no-untyped-def]
            found.append((name, position))
            return train(config, dataset, position)

        monkeypatch.setattr(references, name, counted)
    return found


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (("--no-baselines",), {"federated"}),
        (("--set", "baselines=none"), {"federated"}),
        (("--set", "baselines=local"), {"local", "federated"}),
        ((), {"local", "federated", "centralized"}),
    ],
)
def test_only_what_was_trained_is_shown(
    fedct: Fedct, here: Path, trained: list[tuple[str, int]], options: tuple[str, ...], wanted: set[str]
) -> None:
    outcome = fedct("simulate", *QUICK, "--run-dir", "run", *options)
    assert outcome.code == 0, outcome
    rows = json.loads((here / "run" / "scores.json").read_text())
    known = {
        name for row in rows for test in ("own", "pooled") for name, value in row[test].items() if value is not None
    }
    assert known == wanted
    assert ("alone" in outcome.out, "central" in outcome.out) == ("local" in wanted, "centralized" in wanted)
    assert sum(name == "local_only" for name, _ in trained) == (4 if "local" in wanted else 0)
    # All data in one place is one model for all silos.
    assert sum(name == "centralized" for name, _ in trained) == ("centralized" in wanted)
    assert "could not be trained" not in outcome.out
