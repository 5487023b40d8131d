"""One page of plain language, recomputed from the ledger, for a silo's folder and for a run's."""

from pathlib import Path
from typing import Any

import pytest

from client_app.release import DATA_SET
from fedct_flwr.config import RunConfig
from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.budget import Budget
from fedct_flwr.privacy.events import composed, pure
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.run_folder import RunFolder
from fedct_flwr.types import ConfigError, RunError
from tests.cli.silos import Fedct, Kit

STUDY = "heart-disease"


def protect(kit: Kit, protection: str = "dp-linear") -> None:
    kit.edit('protection = "none"', f'protection = "{protection}"')


def spend(state: Path, times: int, price: float = 0.1) -> None:
    with Ledger(state) as ledger:
        for _ in range(times):
            ledger.charge(STUDY, DATA_SET, Budget(1.0, 1e-5), pure(price))


def run_folder(folder: Path, **settings: Any) -> RunFolder:
    config = RunConfig.from_flower({"study": STUDY, "data": STUDY, "protection": "teachers", **settings})
    silos = ["cleveland", "zurich"]
    run = RunFolder.create(folder, config.to_flower(), {"num_public": 228, "silos": silos})
    run.close()
    return run


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_silos_page_says_what_is_promised_and_what_the_ledger_has(fedct: Fedct, kit: Kit) -> None:
    protect(kit)
    spend(kit.state, 3)
    outcome = fedct("privacy-sheet", kit.folder)
    assert outcome.code == 0, outcome.err
    said = words(outcome.out)
    found = epsilon(composed(pure(0.1), pure(0.1), pure(0.1)), 1e-5)
    for part in (
        "# Privacy sheet: study heart-disease", "one record of a silo, added or removed", "epsilon 1, delta 1e-05",
        "`dp-linear`", "a linear model on features learned from the public set", "10 rounds, 2,280 labels",
        f"| cleveland | 3 | {found.upper:.4g} | 1 | 1e-05 |", "recomputed just now from the events in each ledger",
        "No silo has spent more than its budget", "by a factor of 2.72 at most", "The public set.", "Test scores.",
        "none left", "The models that stay at the silo", "Floating point is not used", "That the silo takes part",
        "When an answer is given", "number of records, the columns and classes",
    ):  # fmt: skip
        assert part in said, part
    assert "simulation" not in said


def test_a_page_can_be_written_to_a_file(fedct: Fedct, kit: Kit, tmp_path: Path) -> None:
    protect(kit, "randomized-response")
    said = fedct("privacy-sheet", kit.folder).out
    assert "| cleveland | 0 | 0 | 1 | 1e-05 |" in said
    assert "each of them replaced by another class at random" in said
    assert fedct("privacy-sheet", kit.folder, "--out", tmp_path / "sheet.md").out == ""
    assert (tmp_path / "sheet.md").read_text("utf-8") == said
    # To ask what was spent makes no ledger.
    assert not (kit.state / "privacy").exists()


def test_without_a_protection_the_page_says_so(fedct: Fedct, kit: Kit) -> None:
    outcome = fedct("privacy-sheet", kit.folder)
    assert outcome.code == 0
    assert "**Nothing is promised.**" in outcome.out
    assert "epsilon" not in outcome.out


@pytest.mark.parametrize("how", ["gone", "garbage"])
def test_a_ledger_that_cannot_be_read_is_one_sentence(fedct: Fedct, kit: Kit, how: str) -> None:
    protect(kit)
    spend(kit.state, 1)
    file = kit.state / "privacy" / "ledger.sqlite"
    for path in list(file.parent.iterdir()):
        path.unlink()
    if how == "garbage":
        file.write_bytes(b"no ledger " * 1000)
    outcome = fedct("privacy-sheet", kit.folder)
    assert outcome.code == RunError.exit_code
    assert "privacy ledger" in outcome.sentence
    assert outcome.out == ""


def test_a_runs_page_has_a_line_for_each_silo_and_says_that_it_protects_nobody(fedct: Fedct, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", **{"report-scores": True, "num-server-rounds": 4})
    spend(run.silo_privacy("zurich"), 2)
    outcome = fedct("privacy-sheet", tmp_path / "run")
    assert outcome.code == 0, outcome.err
    said = words(outcome.out)
    assert "| cleveland | 0 | 0 | 1 | 1e-05 | | zurich | 2 | 0.2 | 1 | 1e-05 |" in said
    assert "This was a simulation" in said
    assert "Test scores, which left" in said
    assert "4 rounds, 912 labels" in said
    assert "most of several models voted for" in said


def test_real_silos_keep_their_ledgers_to_themselves(fedct: Fedct, tmp_path: Path) -> None:
    run_folder(tmp_path / "run", **{"data": "study", "data-dir": "/study", "roster": "a,b", "protection": "none"})
    outcome = fedct("privacy-sheet", tmp_path / "run")
    assert outcome.code == ConfigError.exit_code
    assert "ask each of them" in outcome.sentence


def test_a_folder_that_is_neither_is_named(fedct: Fedct, tmp_path: Path) -> None:
    outcome = fedct("privacy-sheet", tmp_path)
    assert outcome.code == ConfigError.exit_code
    assert "is no run's folder and no silo's" in outcome.sentence
