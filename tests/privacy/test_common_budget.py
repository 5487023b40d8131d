"""One privacy budget over several studies' ledgers: real files, several processes."""

from pathlib import Path

import pytest
from flwr.app import Context, RecordDict
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.privacy.budget import Budget
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.ledger import BudgetExceeded, CommonBudget, Ledger
from fedct_flwr.privacy.ledger_file import LedgerError
from fedct_flwr.silo.opening import gated, open_silo_context
from fedct_flwr.types import ConfigError
from tests.hospitals import write_silo_folder
from tests.sentences import sentence

OWN = Budget(1.0, 0.0)
TENTH = pure(0.1)


def ledger(folder: Path, name: str, epsilon: float | None = 1.0) -> Ledger:
    """The ledger of one study's silo folder, which shares a budget with others."""
    common = CommonBudget(folder / "common", Budget(epsilon, 0.0)) if epsilon else None
    return Ledger(folder / name, common=common)


def charge(one: Ledger, times: int, study: str = "study") -> None:
    with one:
        for _ in range(times):
            one.charge(study, "records", OWN, TENTH)


def spent(folder: Path) -> float:
    return CommonBudget(folder / "common", None).spent(0.0).upper


def own(folder: Path, name: str) -> int:
    with Ledger(folder / name) as one:
        found = one.spent("study", "records")
    return found.charges if found else 0


def test_two_studies_spend_one_budget(tmp_path: Path) -> None:
    heart, lung = ledger(tmp_path, "heart"), ledger(tmp_path, "lung")
    charge(heart, 6)
    charge(lung, 4)
    assert spent(tmp_path) == pytest.approx(1.0)
    for one in (heart, lung):
        with pytest.raises(BudgetExceeded, match=r"over all studies \(epsilon 1, delta 0, under \[records\]"):
            charge(one, 1)
    # Neither has charged what it may not release.
    assert (own(tmp_path, "heart"), own(tmp_path, "lung")) == (6, 4)
    assert spent(tmp_path) == pytest.approx(1.0)


def test_what_was_charged_before_counts_once(tmp_path: Path) -> None:
    charge(ledger(tmp_path, "heart", epsilon=None), 5)
    for _ in range(3):
        charge(ledger(tmp_path, "heart"), 1)
    assert spent(tmp_path) == pytest.approx(0.8)
    charge(ledger(tmp_path, "lung"), 2)
    with pytest.raises(BudgetExceeded):
        charge(ledger(tmp_path, "lung"), 1)


def test_a_folder_that_was_lost_ends_all_releases(tmp_path: Path) -> None:
    charge(ledger(tmp_path, "heart"), 1)
    for path in (tmp_path / "common" / "privacy").iterdir():
        path.unlink()
    with pytest.raises(LedgerError, match="is gone, and was used"):
        charge(ledger(tmp_path, "heart"), 1)
    assert own(tmp_path, "heart") == 1


@pytest.mark.parametrize(
    "records",
    [
        {"folder": "../common", "epsilon": 2.0},
        {"epsilon": 2.0},
        {"folder": "state"},
        {"folder": "../common", "epsilon": -1.0},
    ],
)
def test_what_promises_nothing_is_refused(
    tmp_path: Path, records: dict[str, object], wording: SnapshotAssertion
) -> None:
    said = sentence(ConfigError, lambda: SiloConfig.read_toml(write_silo_folder(tmp_path / "one", records=records)))
    assert said == wording


def test_a_real_silo_answers_no_more_once_the_others_have_spent_it(tmp_path: Path) -> None:
    """Its release asks the common budget, whatever its own would still pay for."""
    charge(ledger(tmp_path, "lung", epsilon=3.0), 10)
    file = write_silo_folder(
        tmp_path / "heart",
        records={"folder": "../common", "epsilon": 1.05},
        privacy={"protection": "randomized-response", "epsilon": 8.0, "rounds": 1},
        data={"test-file": ""},
    )
    context = Context(1, 1, {"silo-file": str(file)}, RecordDict(), {})
    with gated():
        release = open_silo_context(context).release
        assert release
        purse = release.purse
        with purse.ledger, pytest.raises(BudgetExceeded, match="over all studies"):
            purse.ledger.charge(release.study, "records", purse.budget, pure(0.5))
    assert spent(tmp_path) == pytest.approx(1.0)
