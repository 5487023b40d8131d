"""``fedct audit`` of a run, and ``fedct silo audit`` before approval: numbers, files, and errors."""

import json
from pathlib import Path

import pytest

from fedct_flwr.simulation.simulate import simulate
from fedct_flwr.types import ConfigError
from tests.cli.documents import check
from tests.cli.silos import Fedct, Kit, words


@pytest.fixture
def run(here: Path) -> Path:
    simulate(
        "heart-disease", algorithm="fedct", learner="naive-bayes", rounds=1, run_dir=here / "run", progress=False,
        baselines="none",
    )  # fmt: skip
    return here / "run"


FEW = ("--refits", "2", "--candidates", "40", "--json")


def test_the_audit_of_a_run_is_a_document_a_page_and_a_part_of_the_privacy_sheet(fedct: Fedct, run: Path) -> None:
    before = (run / "config.json").read_bytes(), (run / "labels.csv").read_bytes()
    done = fedct("audit", run, *FEW)
    assert done.code == 0
    told = json.loads(done.out)
    check(told, "Audit")
    # In one round nothing is sent back to another silo.
    assert [seat["seat"] for seat in told["seats"]] == ["coordinator", "final model"]
    assert told["refits"] == 2
    assert told["epsilon"] is None is told["lower_epsilon"]
    assert set(told["silos"]) <= {"cleveland", "budapest", "zurich", "long-beach"}
    assert json.loads((run / "audit.json").read_text("utf-8")) == told
    sentence = told["seats"][0]["sentence"]
    assert sentence in (run / "audit.md").read_text("utf-8")
    assert sentence in fedct("privacy-sheet", run).out
    assert before == ((run / "config.json").read_bytes(), (run / "labels.csv").read_bytes())


def test_a_folder_without_a_run_and_a_run_of_real_silos_are_refused(fedct: Fedct, run: Path, here: Path) -> None:
    assert fedct("audit", here).code == 4
    config = json.loads((run / "config.json").read_text("utf-8"))
    config["settings"] |= {"data": "study", "data-dir": str(here)}
    (run / "config.json").write_text(json.dumps(config), "utf-8")
    assert fedct("audit", run).code == 2


def test_a_silo_rehearses_before_approval_and_keeps_nothing(fedct: Fedct, kit: Kit) -> None:
    kit.edit('name = "auto"', 'name = "decision-tree"')
    before = sorted(path for path in kit.folder.rglob("*"))
    done = fedct("silo", "audit", kit.folder, "--refits", "3", "--candidates", "60", "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert set(told["silos"]) == {"cleveland"}
    assert told["seats"][0]["vul"] > 0.5
    assert len(told["exposed"]) == 10
    assert sorted(path for path in kit.folder.rglob("*")) == before


@pytest.mark.parametrize("kind", ["soft", "count", "draw", "joint", "sum", 'hard", "counts'])
def test_a_rehearsal_is_of_class_labels_alone(fedct: Fedct, kit: Kit, kind: str) -> None:
    kit.let_out(kind)
    if "counts" in kind:
        kit.edit("partitions = 0", "partitions = 3")
    seat = {"seat": "coordinator", "sentence": "an audit of bare labels"}
    (kit.folder / "audit.json").write_text(json.dumps({"seats": [seat]}), "utf-8")
    refused = fedct("silo", "audit", kit.folder)
    assert refused.code == ConfigError.exit_code
    assert f"and kinds under [policy] has {kind.split()[-1].strip(chr(34))!r}" in words(refused.err)
    assert kind in ("count", "draw", "joint") or "- Not attacked" in fedct("silo", "dpia", kit.folder).out
