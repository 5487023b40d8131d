"""What a run says of who gained and who lost."""

import json
import re
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr import simulate
from fedct_flwr.evaluation.scoreboard import distrusts, summary, warnings
from fedct_flwr.report.summary import RunSummary
from fedct_flwr.runs.scores import VERDICT
from fedct_flwr.scoring.intervals import Verdict, verdict
from tests import hospitals

GAINED, LOST, SAME = Verdict(0.2, 15, 1, 0.001), Verdict(-0.2, 1, 15, 0.001), Verdict(0.0, 1, 1, 1.0)


@dataclass
class Row:
    silo: str
    verdict: Verdict | None = None
    pooled: dict[str, float] = field(default_factory=lambda: {"federated": 0.8})


def log(agreement: float = 0.8, **counts: int) -> list[dict[str, Any]]:
    return [{"round": 1, "agreement": agreement, "class_counts": counts}]


def test_who_gained_and_who_lost_in_one_sentence():
    said = summary([Row("a", GAINED), Row("b", LOST), Row("c", SAME), Row("d")])
    assert "gained: a;" in said
    assert "lost: b;" in said
    assert "1 silo " in said
    assert summary([Row("a")]) == ""


def test_a_silo_that_lost_is_warned_of(wording: SnapshotAssertion):
    found = list(warnings([Row("a", GAINED), Row("b", LOST), Row("c", SAME)], log(healthy=5, diseased=5), None))
    assert len(found) == 1
    assert found[0] == wording


def test_one_round_that_taught_no_silo_anything_is_said_and_no_other():
    same, better = ({"federated": 0.8, "local": local} for local in (0.8, 0.7))
    one = log(healthy=5, diseased=5)
    for rows, rounds, told in (([same], one, 1), ([same], [*one, *one], 0), ([same, better], one, 0), ([], one, 0)):
        assert len(list(warnings([Row("a", SAME, row) for row in rows], rounds, None))) == told
    assert "set student" in next(warnings([Row("a", SAME, same)], one, None, asks_once=True))


def test_without_records_the_first_consensus_is_the_measure():
    first, last = log(a=80, b=20)[0], log(a=97, b=3)[0]
    assert len(list(warnings([], [first, last], None))) == 1
    assert not list(warnings([], [first, first], None))
    assert not list(warnings([], [], None))


def test_a_run_keeps_it_in_its_folder(tmp_path: Path, wording: SnapshotAssertion):
    run = simulate(
        hospitals.STUDY, algorithm="fedct", pseudo_weight="auto", rounds=2, progress=False, run_dir=tmp_path / "run",
        **hospitals.colluding("budapest", "zurich", "long-beach", learner="naive-bayes", params="{}"),
    )  # fmt: skip
    said = json.loads((run.path / VERDICT).read_text())
    assert "cleveland" in said["judgments"]
    assert any("most frequent class" in warning for warning in said["warnings"])
    assert any(line.startswith("cleveland: ") for line in distrusts(said))
    rows = {row.silo: row for row in run.rows}
    assert rows["cleveland"].verdict is not None
    assert rows["zurich"].verdict is not None
    assert rows["zurich"].verdict.word == ""
    assert "cleveland" in [row[0] for row in RunSummary(run.path).gains.rows]
    if find_spec("plotly"):
        page = run.report().read_text("utf-8")
        assert re.findall(r"<h3>(.*?)</h3>", page) == wording
        assert "most frequent class" in page


# --- the verdict


def models(better: int, worse: int, same: int, label: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions on records of one class: alone, together, and what is right."""
    alone = np.int16([1 - label] * better + [label] * worse + [label] * same)
    together = np.int16([label] * better + [1 - label] * worse + [label] * same)
    return alone, together, np.full(better + worse + same, label, dtype=np.int16)


@pytest.mark.parametrize(("better", "worse"), [(5, 0), (6, 0), (1, 9), (20, 8), (3, 3)])
def test_with_one_class_it_is_the_sign_test(better: int, worse: int):
    found = verdict(*models(better, worse, 10))
    assert found is not None
    assert found.p == pytest.approx(binomtest(better, better + worse).pvalue)
    assert (found.better, found.worse) == (better, worse)
    assert found.gain == pytest.approx((better - worse) / (better + worse + 10))


def test_words():
    assert verdict(*models(5, 0, 10)).word == ""  # type: ignore[union-attr]
    assert verdict(*models(6, 0, 10)).word == "gained"  # type: ignore[union-attr]
    assert verdict(*models(0, 6, 10)).word == "lost"  # type: ignore[union-attr]


def test_to_call_everybody_healthy_is_no_gain():
    """Nine of ten are healthy; the second model finds fewer of the ill, and errs less often."""
    y = np.int16([0] * 90 + [1] * 10)
    alone, together = y.copy(), np.zeros(100, dtype=np.int16)
    alone[:20] = 1
    found = verdict(alone, together, y)
    assert found is not None
    assert (found.better, found.worse) == (20, 10)
    assert found.gain == pytest.approx(20 / 180 - 0.5)
    assert found.word == "lost"


def test_by_chance_one_in_twenty_at_most():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(400):
        y = (rng.random(40) < 0.3).astype(np.int16)
        alone, together = (np.where(rng.random(40) < 0.75, y, 1 - y).astype(np.int16) for _ in range(2))
        found = verdict(alone, together, y)
        hits += bool(found and found.word)
    assert hits <= 400 * 0.08
