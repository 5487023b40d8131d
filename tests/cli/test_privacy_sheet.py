"""One page of plain language, recomputed from the ledger, for a silo's folder and for a run's."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent

from fedct_flwr.config.run import RunConfig
from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.budget import DATA_SET, Budget
from fedct_flwr.privacy.events import composed, pure
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import RunError
from tests.cli.silos import Fedct, Kit, agree_on_sums, words

STUDY = "heart-disease"


def spend(state: Path, times: int, price: float = 0.1) -> None:
    with Ledger(state) as ledger:
        for _ in range(times):
            ledger.charge(STUDY, DATA_SET, Budget(1.0, 1e-5), pure(price))


def run_folder(folder: Path, **settings: Any) -> RunFolder:
    config = RunConfig.from_flower({"study": STUDY, "data": STUDY, "protection": "dp-linear", **settings})
    silos = ["cleveland", "zurich"]
    run = RunFolder.create(folder, config.to_flower(), {"num_public": 228, "silos": silos})
    run.close()
    return run


def test_a_silos_page_says_what_is_promised_and_what_the_ledger_has(fedct: Fedct, kit: Kit) -> None:
    kit.protect()
    spend(kit.state, 3)
    outcome = fedct("privacy-sheet", kit.folder)
    assert outcome.code == 0, outcome.err
    said = words(outcome.out)
    found = epsilon(composed(pure(0.1), pure(0.1), pure(0.1)), 1e-5)
    for part in (
        "# Privacy sheet: study heart-disease", "epsilon 1, delta 1e-05", "`dp-linear`", "10 rounds and 2,280 labels",
        f"| cleveland | 3 | {found.upper:.4g} | 1 | 1e-05 |", "by a factor of 2.72 at most",
    ):  # fmt: skip
        assert part in said, part
    assert "simulation" not in said


def test_a_runs_page_has_a_line_for_each_silo_and_says_that_it_protects_nobody(fedct: Fedct, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", **{"report-scores": True, "num-server-rounds": 4})
    spend(run.silo_privacy("zurich"), 2)
    outcome = fedct("privacy-sheet", tmp_path / "run")
    assert outcome.code == 0, outcome.err
    said = words(outcome.out)
    assert "| cleveland | 0 | 0 | 1 | 1e-05 | | zurich | 2 | 0.2 | 1 | 1e-05 |" in said
    assert "This was a simulation" in said
    assert "Test scores, which left" in said
    assert "4 rounds and 912 labels" in said
    assert "labels of a linear model" in said


JOINT = {"steps": 15, "numbers": 22, "honest": 3, "noise_multiplier": 14.4567, "epsilon": 1.0, "delta": 1e-5}


def test_the_joint_labelers_page_has_what_was_spent_and_what_is_assumed(fedct: Fedct, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", algorithm="fedct-joint", data=STUDY, protection="none")
    spend(run.silo_privacy("zurich"), 2)
    unfinished = fedct("privacy-sheet", tmp_path / "run")
    assert (unfinished.code, "has not completed" in unfinished.sentence) == (RunError.exit_code, True)
    (run.path / "result.json").write_text(json.dumps({"joint": JOINT}))
    outcome = fedct("privacy-sheet", tmp_path / "run", "--json")
    assert outcome.code == 0, outcome.err
    told = json.loads(outcome.out)
    found = epsilon(composed(pure(0.1), pure(0.1)), 1e-5).upper
    assert [(one["silo"], one["charges"]) for one in told["accounts"]] == [("cleveland", 0), ("zurich", 2)]
    assert told["accounts"][1]["spent"] == pytest.approx(found)
    for part in ("epsilon 1, delta 1e-05", "15 sums of 22 numbers", "3 silos count as honest", "## What is assumed"):
        assert part in told["markdown"], part


@pytest.mark.parametrize(
    ("agreed", "states"),
    [("joint", "has (15) such sums, which together cost"), ("draw", "A drawn set is (one) such sum and costs")],
)
def test_the_noise_of_one_sum_and_how_many_there_are_give_epsilon(
    fedct: Fedct, kit: Kit, agreed: str, states: str
) -> None:
    ranges = {column.name: {"kind": "number", "range": [0, 500]} for column in kit.study.schema.columns}
    more = {"columns": ranges} if agreed == "draw" else {}
    agree_on_sums(kit, **{agreed: {"records": 500, "epsilon": 0.9}}, **more)
    kit.let_out(agreed)
    outcome = fedct("privacy-sheet", kit.folder)
    assert outcome.code == 0, outcome.err
    (noise,) = re.findall(r"in one sum has a standard deviation of ([0-9.]+) times the largest change", outcome.out)
    ((sums, spent),) = re.findall(rf"{states} epsilon ([0-9.]+) at delta 1e-05", outcome.out)
    found = epsilon(SelfComposedDpEvent(GaussianDpEvent(float(noise)), 15 if sums == "15" else 1), 1e-5)
    assert float(spent) == 0.9
    assert found.upper == pytest.approx(0.9, rel=2e-3)
