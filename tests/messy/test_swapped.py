"""Labels that are swapped at one silo of a run: the others' votes show it, and its own count nothing."""

import json
from pathlib import Path

import pytest

from fedct_flwr import DataWarning, simulate
from tests.messy.patients import LABEL, patients

SWAPPED = {"yes": "no", "no": "yes"}


def test_votes_of_a_silo_with_swapped_labels_count_nothing(tmp_path: Path) -> None:
    folder = patients().change("essen", LABEL, SWAPPED.__getitem__).write(tmp_path / "wards")
    settings = {"label": LABEL, "rounds": 1, "learner": "naive-bayes", "progress": False}
    with pytest.warns(DataWarning, match="opposite"):
        simulate(folder, run_dir=tmp_path / "run", **settings)  # type: ignore[arg-type]
    (line,) = [json.loads(text) for text in (tmp_path / "run" / "rounds.jsonl").read_text("utf-8").splitlines()]
    assert [*line["opposed"]] == ["essen"]
    assert line["opposed"]["essen"] < -0.3
    healthy = patients().write(tmp_path / "healthy")
    simulate(healthy, run_dir=tmp_path / "other", **settings)  # type: ignore[arg-type]
    assert "opposed" not in (tmp_path / "other" / "rounds.jsonl").read_text("utf-8")
