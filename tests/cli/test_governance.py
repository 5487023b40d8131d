"""Who approves: the name and the reason are logged, two may be needed, and an agent at work is stopped first."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from fedct_flwr.hospital.approval import withdraw
from fedct_flwr.hospital.keys import create_egress_key
from fedct_flwr.hospital.log_entry import Event, read_entries
from fedct_flwr.types import ConfigError, RunError
from tests.cli.silos import YES, Fedct, Kit


def test_the_log_keeps_who_approved_and_why(fedct: Fedct, kit: Kit) -> None:
    assert fedct("silo", "approve", kit.folder, *YES, "--by", "Dr. Anna Weber").code == 0
    (entry,) = read_entries(kit.state)
    assert (entry.details["by"], entry.details["reason"]) == ("Dr. Anna Weber", "a test")


@pytest.mark.parametrize("options", [("--yes",), (*YES, "--by", "x\u202ey"), (*YES, "--by", "x" * 1001)])
def test_an_approval_has_a_reason_and_a_name_that_hides_nothing(
    fedct: Fedct, kit: Kit, options: tuple[str, ...]
) -> None:
    done = fedct("silo", "approve", kit.folder, *options)
    assert done.code == ConfigError.exit_code
    assert options[-1] == "--yes" or "--by" in done.sentence
    assert kit.events == []


@pytest.fixture
def two(kit: Kit) -> Kit:
    """A silo of which two have to approve."""
    for name in ("anna", "ben", "eve"):
        create_egress_key(kit.folder / "people" / f"{name}.key")
    kit.edit(
        'egress-key = "keys/egress.key"',
        'egress-key = "keys/egress.key"\napprovers = { anna = "people/anna.pub", ben = "people/ben.pub" }',
    )
    return kit


def approve(fedct: Fedct, kit: Kit, by: str, key: str = "") -> int:
    path = kit.folder / "people" / f"{key or by}.key"
    return fedct("silo", "approve", kit.folder, *YES, "--by", by, "--key", path).code


def test_one_of_two_approves_nothing(fedct: Fedct, two: Kit) -> None:
    assert approve(fedct, two, "anna") == 0
    assert approve(fedct, two, "anna") == 0
    assert not two.is_approved
    assert approve(fedct, two, "ben") == 0
    assert two.is_approved
    (entry,) = read_entries(two.state)
    assert set(entry.details["approvers"]) == {"anna", "ben"}  # type: ignore[call-overload]


@pytest.mark.parametrize(("by", "key"), [("eve", "eve"), ("ben", "anna"), ("ben", "eve")])
def test_nobody_signs_for_another(fedct: Fedct, two: Kit, by: str, key: str) -> None:
    approve(fedct, two, "anna")
    assert approve(fedct, two, by, key) == ConfigError.exit_code
    assert not two.is_approved


def test_the_second_signs_what_the_first_has_signed(fedct: Fedct, two: Kit) -> None:
    approve(fedct, two, "anna")
    two.edit("max-rounds = 100", "max-rounds = 200")
    assert approve(fedct, two, "ben") == 0
    assert not two.is_approved
    assert approve(fedct, two, "anna") == 0
    assert two.is_approved


def test_a_signature_in_the_log_approves_nothing_again(fedct: Fedct, two: Kit) -> None:
    approve(fedct, two, "anna")
    approve(fedct, two, "ben")
    (entry,) = read_entries(two.state)
    assert fedct("silo", "revoke", two.folder, "--yes").code == 0
    signed: dict[str, str] = entry.details["approvers"]  # type: ignore[assignment]
    (two.state / "approval.first").write_text(json.dumps({"anna": signed["anna"]}))
    approve(fedct, two, "ben")
    assert not two.is_approved


APPROVERS = 'approvers = { anna = "people/anna.pub", ben = "people/ben.pub" }'


@pytest.mark.parametrize(
    "change",
    [
        lambda two: two.edit(APPROVERS, ""),
        lambda two: two.edit(APPROVERS, APPROVERS.replace("anna", "eve")),
        lambda two: two.edit("people/anna.pub", "people/eve.pub"),
    ],
)
def test_one_person_cannot_change_who_approves(fedct: Fedct, two: Kit, change: Callable[[Kit], object]) -> None:
    for name in ("anna", "ben"):
        approve(fedct, two, name)
    change(two)
    assert fedct("silo", "approve", two.folder, *YES).code == ConfigError.exit_code
    assert approve(fedct, two, "eve") == ConfigError.exit_code
    assert approve(fedct, two, "anna", "eve") == ConfigError.exit_code
    assert approve(fedct, two, "ben") == 0
    assert not two.is_approved
    assert approve(fedct, two, "anna") == 0
    assert two.is_approved


def test_two_names_with_one_key_are_one_person(fedct: Fedct, two: Kit) -> None:
    people = two.folder / "people"
    for end in ("key", "pub"):
        (people / f"ben.{end}").write_bytes((people / f"anna.{end}").read_bytes())
    approve(fedct, two, "anna")
    assert approve(fedct, two, "ben") == ConfigError.exit_code
    assert two.events == []


def test_an_approval_that_is_revoked_while_it_is_read_is_not_given(
    fedct: Fedct, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    fedct("silo", "approve", kit.folder, *YES)

    def meanwhile(*_: Any, **__: Any) -> bool:
        withdraw(kit.state)
        return True

    monkeypatch.setattr("fedct_flwr.cli.silo.approve.typer.confirm", meanwhile)
    found = fedct("silo", "approve", kit.folder)
    assert (found.code, "revoked while you read this" in found.sentence) == (RunError.exit_code, True)
    assert fedct("silo", "approve", kit.folder, *YES).code == 0
    assert kit.events == [Event.APPROVED, Event.REVOKED, Event.APPROVED]
