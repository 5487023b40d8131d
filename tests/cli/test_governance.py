"""Who approves: the name and the reason are logged, two may be needed, and an agent at work need not be stopped."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.hospital import revocation
from fedct_flwr.hospital.keys import create_egress_key
from fedct_flwr.hospital.log_entry import Event, read_entries
from fedct_flwr.hospital.next_approval import is_waiting, settle
from fedct_flwr.hospital.revocation import withdraw
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


# --- four eyes


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


# --- an agent at work


def test_an_approval_waits_for_the_agent(fedct: Fedct, kit: Kit) -> None:
    with kit.log() as log:
        assert fedct("silo", "approve", kit.folder, *YES).code == 0
        assert is_waiting(kit.state)
        assert not kit.is_approved
        settle(log, kit.state)
    assert kit.is_approved
    assert not is_waiting(kit.state)


@pytest.mark.parametrize("at_work", [False, True])
def test_who_reads_while_somebody_revokes_has_to_read_anew(
    fedct: Fedct, kit: Kit, monkeypatch: pytest.MonkeyPatch, at_work: bool
) -> None:
    fedct("silo", "approve", kit.folder, *YES)
    with kit.log() if at_work else nullcontext() as log:

        def meanwhile(*_: Any, **__: Any) -> bool:
            withdraw(kit.state)
            if log:
                settle(log, kit.state)
            return True

        with monkeypatch.context() as patch:
            patch.setattr("fedct_flwr.cli.silo.approve.typer.confirm", meanwhile)
            found = fedct("silo", "approve", kit.folder)
        assert found.code == RunError.exit_code
        assert "has approved or revoked while you read this" in found.sentence
        assert not is_waiting(kit.state)
        assert fedct("silo", "approve", kit.folder, *YES).code == 0
        if log:
            # The agent starts with it.
            settle(log, kit.state)
    assert kit.is_approved
    assert kit.events == [Event.APPROVED, Event.REVOKED, Event.APPROVED]


@pytest.mark.parametrize("before", [False, True])
def test_an_approval_that_waits_can_be_revoked(fedct: Fedct, kit: Kit, before: bool) -> None:
    with kit.log() as log:
        if before:
            withdraw(kit.state)
        fedct("silo", "approve", kit.folder, *YES)
        assert fedct("silo", "revoke", kit.folder, "--yes").code == 0
        settle(log, kit.state)
    assert not kit.is_approved
    assert not is_waiting(kit.state)


def test_an_approval_that_was_withdrawn_is_not_put_back_by_a_copy(fedct: Fedct, kit: Kit) -> None:
    """Its signature stays good; whoever may write to the folder has kept the file, and not the key."""
    path = kit.state / "approval.next"
    with kit.log() as log:
        fedct("silo", "approve", kit.folder, *YES)
        copy = path.read_bytes()
        settle(log, kit.state)
        assert kit.is_approved
        # A crash has left it behind: that is no approval more.
        path.write_bytes(copy)
        settle(log, kit.state)
        assert not is_waiting(kit.state)
        withdraw(kit.state)
        settle(log, kit.state)
        path.write_bytes(copy)
        with pytest.raises(RunError, match="is no approval that was given here"):
            settle(log, kit.state)
    assert kit.events == [Event.APPROVED, Event.REVOKED]


def test_an_agent_that_takes_an_approval_while_it_is_withdrawn_finds_it_withdrawn(
    fedct: Fedct, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two steps of the withdrawal."""
    for step in ("write_atomically", "Path.unlink"):
        with kit.log() as log, monkeypatch.context() as patch:
            fedct("silo", "approve", kit.folder, *YES)
            original = write_atomically if step == "write_atomically" else Path.unlink

            def and_settle(path: Path, *arguments: Any, done: Any = original, **options: Any) -> None:
                patch.undo()
                done(path, *arguments, **options)
                settle(log, kit.state)

            patch.setattr(revocation if step == "write_atomically" else Path, step.rpartition(".")[2], and_settle)
            withdraw(kit.state)
            settle(log, kit.state)
        assert not kit.is_approved


def test_nobody_but_the_approver_leaves_an_approval(fedct: Fedct, kit: Kit, tmp_path: Path) -> None:
    with kit.log() as log:
        fedct("silo", "approve", kit.folder, *YES)
        path = kit.state / "approval.next"
        path.write_text(path.read_text("utf-8").replace("a test", "a lie"), "utf-8")
        with pytest.raises(RunError, match="is no approval that was given here"):
            settle(log, kit.state)
    assert kit.events == []
