"""What a run says of who gained and who lost."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from fedct_flwr import datasets
from fedct_flwr.report.gains import Gains
from fedct_flwr.report.page import available
from fedct_flwr.runs import scores
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring.assessment import Predicted
from fedct_flwr.silo.judgment import Judgment
from fedct_flwr.simulation import score_table
from fedct_flwr.simulation.who_gained import FILE, after_first, distrusts, document, summary, verdict_of, warnings
from fedct_flwr.types import RunError
from fedct_flwr.verdict import Verdict
from tests import hospitals

GAINED, LOST, SAME = Verdict(0.2, 15, 1, 0.001), Verdict(-0.2, 1, 15, 0.001), Verdict(0.0, 1, 1, 1.0)


@dataclass
class Row:
    silo: str
    verdict: Verdict | None = None
    pooled: dict[str, float] = field(default_factory=lambda: {"federated": 0.8})


def log(agreement: float = 0.8, **counts: int) -> list[dict[str, Any]]:
    return [{"round": 1, "agreement": agreement, "class_counts": counts}]


@pytest.fixture(scope="module")
def dataset() -> datasets.FederatedDataset:
    return hospitals.dataset()


def test_who_gained_and_who_lost_in_one_sentence():
    said = summary([Row("a", GAINED), Row("b", LOST), Row("c", SAME), Row("d")])
    assert "gained: a;" in said
    assert "lost: b;" in said
    assert "1 silo " in said
    assert summary([Row("a")]) == ""


def test_after_the_first_round_that_learned_a_consensus():
    found = {
        "a": Judgment(5, tests={"2": GAINED, "5": LOST}),
        "b": Judgment(5, tests={"2": SAME, "5": LOST}),
        "c": Judgment(5),
    }
    assert after_first(found) == "after round 2, gained: a"
    assert "beyond chance" in after_first({"b": found["b"]})
    assert after_first({"c": found["c"]}) == ""


def test_a_silo_that_lost_is_warned_of(wording: SnapshotAssertion):
    found = list(warnings([Row("a", GAINED), Row("b", LOST), Row("c", SAME)], log(healthy=5, diseased=5), None))
    assert len(found) == 1
    assert found[0] == wording


@pytest.mark.parametrize(
    ("diseased", "warned"), [(228, True), (200, True), (150, False), (125, False), (100, False), (20, False)]
)
def test_a_consensus_near_its_most_frequent_class(dataset: datasets.FederatedDataset, diseased: int, warned: bool):
    """Of the records 58% are of the ill; fewer of these than that in the consensus is something else."""
    rounds = log(healthy=228 - diseased, diseased=diseased)
    found = [said for said in warnings([], rounds, dataset) if "most frequent class" in said]
    assert bool(found) == (warned or diseased == 20)


def test_a_consensus_without_labels():
    rounds = log(healthy=0, diseased=0)
    assert len(list(warnings([], rounds, None))) == 1
    assert not list(warnings([], [*rounds, *log(healthy=5, diseased=5)], None))


def test_without_records_the_first_consensus_is_the_measure():
    first, last = log(a=80, b=20)[0], log(a=97, b=3)[0]
    assert len(list(warnings([], [first, last], None))) == 1
    assert not list(warnings([], [first, first], None))
    assert not list(warnings([], [], None))


def test_agreement_on_what_is_wrong():
    rows = [Row("a", pooled={"federated": 0.55}), Row("b", pooled={"federated": 0.53})]
    found = list(warnings(rows, log(0.97, a=50, b=50), None))
    assert len(found) == 1
    assert "agree on what is wrong" in found[0]
    assert not list(warnings(rows, log(0.6, a=50, b=50), None))
    assert not list(warnings([Row("a")], log(0.97, a=50, b=50), None))
    assert not list(warnings([Row("a", pooled={"federated": float("nan")})], log(0.97, a=50, b=50), None))


def test_a_rare_class_is_no_reason_for_another_learner(wording: SnapshotAssertion):
    rows = [Row("a", pooled={"federated": 0.5}), Row("b", pooled={"federated": 0.5})]
    (found,) = warnings(rows, log(1.0, well=398, ill=2), None)
    assert "learner" not in found
    assert found == wording


def test_weights_and_values_are_no_labels():
    assert not list(warnings([Row("a")], [{"round": 1}], None))


def test_a_run_keeps_it_in_its_folder(tmp_path: Path, wording: SnapshotAssertion):
    run = hospitals.in_collusion(run_dir=tmp_path / "run")
    said = json.loads((run.path / FILE).read_text())
    assert "cleveland" in said["judgments"]
    assert any("most frequent class" in warning for warning in said["warnings"])
    assert any(line.startswith("cleveland: ") for line in distrusts(said))
    rows = {row.silo: row for row in run.rows}
    assert rows["cleveland"].verdict is not None
    assert rows["zurich"].verdict is None
    gains = Gains.read(run.path)
    assert gains.table is not None
    assert "cleveland" in [row[0] for row in gains.table.rows]
    if available():
        page = run.report().read_text("utf-8")
        assert re.findall(r"<h3>(.*?)</h3>", page) == wording
        assert "most frequent class" in page


def test_the_table_marks_them():
    nan = float("nan")
    unknown = dict.fromkeys(scores.METHODS, nan)
    rows = [
        scores.SiloScores(name, unknown, {"local": 0.5, "federated": 0.6, "centralized": 0.7}, 10, verdict=found)
        for name, found in (("essen", GAINED), ("koeln", LOST), ("bonn", SAME), ("trier", None))
    ]
    console = Console(width=100)
    with console.capture() as shown:
        console.print(score_table.table(rows, "FedCT"))
    assert "essen ▲" in shown.get()
    assert "koeln ▼" in shown.get()
    assert "bonn  " in shown.get()


def test_a_damaged_file_is_said(tmp_path: Path):
    assert Gains.read(tmp_path) == Gains()
    (tmp_path / FILE).write_text('{"warnings": []}')
    with pytest.raises(RunError, match="damaged"):
        Gains.read(tmp_path)


def test_a_damaged_judgment_is_left_out(tmp_path: Path):
    folder = RunFolder(tmp_path)
    folder.silo_judgment("essen").parent.mkdir()
    folder.silo_judgment("essen").write_text("nothing")
    (tmp_path / "rounds.jsonl").write_text("")
    assert document([Row("essen")], folder, None)["judgments"] == {}


def test_a_model_is_held_against_the_silo_alone():
    test = hospitals.dataset().silos[0].test
    predicted = {
        name: Predicted(np.full(test.size, label, np.int16)) for name, label in (("local", 0), ("federated", 1))
    }
    found = verdict_of(predicted, test)
    assert found is not None
    assert found.gain == pytest.approx(0, abs=1e-12)
    assert verdict_of({"local": predicted["local"]}, test) is None
