"""An impact assessment has the figures of its sources, and guesses nothing."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from fedct_flwr.cli.silo.approval_page import Units
from fedct_flwr.cli.silo.dpia import OPEN, facts, filled
from fedct_flwr.hospital.approval import approve
from fedct_flwr.privacy.budget import DATA_SET, Budget
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.types import ConfigError, Examples
from tests.cli.silos import Fedct, Kit, words

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


def test_a_misspelled_field_of_governance_is_named(fedct: Fedct, kit: Kit) -> None:
    kit.file.write_text(kit.file.read_text("utf-8") + '\n[governance]\nlawful-bases = "x"\n', "utf-8")
    assert "did you mean 'lawful-basis'" in words(fedct("silo", "dpia", kit.folder).err)
