"""One page of plain language, recomputed from the ledger, for a silo and for a run; and an impact assessment."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent

from fedct_flwr.cli.silo.approval_page import Units
from fedct_flwr.cli.silo.dpia import OPEN, facts, filled
from fedct_flwr.config.run import RunConfig
from fedct_flwr.hospital.approval import approve
from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.budget import DATA_SET, Budget
from fedct_flwr.privacy.events import composed, pure
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import ConfigError, Examples, RunError
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


# --- an impact assessment has the figures of its sources, and guesses nothing


pytest.importorskip("dp_accounting")


def test_each_figure_is_that_of_its_source(fedct: Fedct, kit: Kit) -> None:
    kit.protect()
    with kit.log() as log:
        approve(log, kit.config, kit.study, by="Dr. Anna Weber", reason="the committee's vote")
        log.append(kit.released(1, 228, 151))
    with Ledger(kit.state) as ledger:
        ledger.charge(kit.study.name, DATA_SET, Budget(1.0, 1e-5), pure(0.5))
    seat = {"seat": "another silo", "sentence": "of 100 guesses 53 are right<script>"}
    (kit.folder / "audit.json").write_text(json.dumps({"seats": [seat]}), "utf-8")
    page = fedct("silo", "dpia", kit.folder).out
    (account,) = json.loads(fedct("privacy-sheet", kit.folder, "--json").out)["accounts"]
    spent = f"epsilon {account['spent']:.4g} of {account['epsilon']:g} spent at delta {account['delta']:g}"
    assert f"{spent}, in {account['charges']} charge" in page
    sent = json.loads(fedct("silo", "verify", kit.folder, "--json").out)["sent"]
    assert f"So far {sent['messages']} message with labels, and {sent['bytes']:,} bytes" in page
    limits = json.loads(fedct("silo", "status", kit.folder, "--json").out)
    for name in ("rounds", "labels", "bytes"):
        line = f"{name.capitalize()}: {limits['limits'][name]:,}, of which {limits['used'][name]:,} are used"
        assert line in page
    assert "another silo: of 100 guesses 53 are right&lt;script>" in page
    assert "by Dr. Anna Weber (the committee's vote)" in page
    assert "170 records of this silo" in page
    assert "168" not in re.sub(r"[0-9a-f]{64}", "", page), "exact numbers of records would tell who has opted out"


@pytest.mark.parametrize(("group", "units"), [("", 230), ("patient", 70)])
def test_data_subjects_are_also_those_of_the_test_file(kit: Kit, group: str, units: int) -> None:
    # Of 168 and 60 records, three each are one patient's: 56 and 20 patients, of whom 6 are in both files.
    first = {"data.csv": 0, "test.csv": 50}
    for name in first if group else ():
        table = pd.read_csv(kit.source / name)
        table.assign(patient=first[name] + np.arange(len(table)) // 3).to_csv(kit.source / name, index=False)
    kit.edit('label = "class"', f'label = "class"\ntest-file = "{kit.source}/test.csv"')
    if group:
        kit.edit("# [data.tables]", f'[data.tables]\ngroup = "{group}"')
    kit.protect()
    kit.edit("\ndelta = 1e-05", "\ndelta = 0.02")
    values = facts(kit.config, kit.study, kit.folder)
    assert values["units"] == str(units)
    known = " ".join(line for lines in values["risk"].values() for line in lines)
    assert (f"publishes one of the {60 if group else 170} {'patient' if group else 'example'}s") in known
    if group:
        assert "A patient has fewer than 5 records here" in known
        assert (
            Units.of(Examples(np.zeros((48, 1)), np.zeros(48)), np.repeat([0, 1], [37, 11]), step=10).most
            == "at most 40"
        )


def test_only_the_controllers_answers_are_open(fedct: Fedct, kit: Kit) -> None:
    before = fedct("silo", "dpia", kit.folder).out
    assert "Approval in force:** none, so nothing leaves" in before
    assert "nothing is promised" in before
    text = kit.file.read_text("utf-8").replace("# [governance]", "[governance]")
    own = {"purpose": "research", "lawful-basis": "Art. 6(1)(e)", "ethics-number": "2026-17", "processors": "none"}
    with kit.log() as log:
        approve(log, kit.config, kit.study)
    for key, answer in own.items():
        text = text.replace(f'# {key} = ""', f'{key} = "{answer}"')
    kit.file.write_text(text, "utf-8")
    assert kit.is_approved, "it decides nothing"
    after = fedct("silo", "dpia", kit.folder, "--output", kit.folder / "dpia.md")
    assert after.out == ""
    page = (kit.folder / "dpia.md").read_text("utf-8")
    assert before.count(OPEN) - page.count(OPEN) == len(own)
    assert all(answer in page for answer in own.values())


def test_a_field_without_a_source_is_one_sentence(kit: Kit) -> None:
    values = facts(kit.config, kit.study, kit.folder)
    for name in values:
        if name not in ("open",):
            with pytest.raises(ConfigError, match="a field without a source"):
                filled({key: value for key, value in values.items() if key != name})
