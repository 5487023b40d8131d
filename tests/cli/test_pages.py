"""The wording of pages and helps, recorded once each: other tests assert what they are made from."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli import coordinator, main, silo
from fedct_flwr.hospital.approval import approve
from fedct_flwr.privacy.budget import Budget
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.silo.release import DATA_SET
from tests.cli.silos import Fedct, Kit
from tests.messy.patients import LABEL
from tests.messy.test_commands import made

PROTECTED: Mapping[str, Mapping[str, str]] = {
    "labels": {},
    "labels-dp-linear": {"protection": "dp-linear"},
    "labels-dp-sgd": {"protection": "dp-sgd"},
    "labels-randomized-response": {"protection": "randomized-response"},
    "labels-teachers": {"protection": "teachers"},
    "votes": {"kinds": "counts", "partitions": "3"},
    "probabilities": {"kinds": "soft"},
}
"""What a silo may let out."""


def let_out(kit: Kit, kinds: str = "hard", protection: str = "none", partitions: str = "0") -> None:
    kit.edit('kinds = ["hard"]', f'kinds = ["{kinds}"]')
    kit.edit('protection = "none"', f'protection = "{protection}"')
    kit.edit("partitions = 0", f"partitions = {partitions}")


HELPS = [
    [],
    *([name] for name in main.HELPS),
    *(["silo", *name] for name in ([], *([one] for one in silo.HELPS))),
    *(["coordinator", *name] for name in ([], *([one] for one in coordinator.HELPS))),
]


@pytest.mark.parametrize("command", HELPS, ids=lambda command: "-".join(["fedct", *command]))
def test_the_help_of_each_command(fedct: Fedct, command: list[str], wording: SnapshotAssertion) -> None:
    outcome = fedct(*command, "--help")
    assert outcome.code == 0
    # Its first words are what the tests were called by.
    assert outcome.out.partition("fedct")[2] == wording


@pytest.mark.parametrize("policy", PROTECTED.values(), ids=PROTECTED)
def test_what_an_approval_says(fedct: Fedct, kit: Kit, policy: dict[str, str], wording: SnapshotAssertion) -> None:
    let_out(kit, **policy)
    outcome = fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    assert outcome.code == 0, outcome.err
    assert max(map(len, outcome.out.splitlines())) <= 80
    assert outcome.out == wording


@pytest.mark.parametrize("policy", PROTECTED.values(), ids=PROTECTED)
def test_what_a_privacy_sheet_says(fedct: Fedct, kit: Kit, policy: dict[str, str], wording: SnapshotAssertion) -> None:
    let_out(kit, **policy)
    outcome = fedct("privacy-sheet", kit.folder)
    assert outcome.code == 0, outcome.err
    assert outcome.out == wording


@pytest.mark.parametrize("policy", PROTECTED.values(), ids=PROTECTED)
def test_what_a_status_says(
    fedct: Fedct, kit: Kit, policy: dict[str, str], monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    let_out(kit, **policy)
    monkeypatch.chdir(kit.folder.parent)
    assert fedct("silo", "status", kit.folder).out == wording(name="fresh")
    with kit.log() as log:
        approve(log, kit.config, kit.study)
        log.append(kit.released(1, 228, 151))
    if kit.config.privacy.enabled:
        with Ledger(kit.state) as ledger:
            ledger.charge(kit.study.name, DATA_SET, Budget(1.0, 1e-5), pure(0.5))
    assert fedct("silo", "status", kit.folder).out == wording(name="at work")


def test_what_a_check_says(fedct: Fedct, kit: Kit, wording: SnapshotAssertion) -> None:
    assert fedct("silo", "check", kit.folder, "--offline").out == wording


def test_what_an_inspection_says(fedct: Fedct, here: Path, wording: SnapshotAssertion) -> None:
    made("other words at a silo").write(here / "wards")
    assert fedct("inspect", "wards", "--label", LABEL).out == wording
