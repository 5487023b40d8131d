"""Revoked is revoked: at once, in the log, and also while the agent holds the log."""

from collections.abc import Callable

import pytest

from fedct_flwr.hospital.approval import put_down
from fedct_flwr.hospital.log_entry import Event, is_revoked
from tests.cli.silos import Fedct, Kit, words


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_it_asks_and_stands_in_the_log(
    fedct: Fedct, approved_kit: Kit, types: Callable[[str], None], answer: str, code: int
) -> None:
    types(answer)
    assert fedct("silo", "revoke", approved_kit.folder).code == code
    assert approved_kit.events == [Event.APPROVED, *([] if code else [Event.REVOKED])]
    assert not is_revoked(approved_kit.state)
    assert fedct("silo", "verify", approved_kit.folder).code == 0


def test_where_nothing_is_approved_there_is_nothing_to_do(fedct: Fedct, kit: Kit) -> None:
    outcome = fedct("silo", "revoke", kit.folder)
    assert (outcome.code, outcome.out) == (0, "Nothing is approved: nothing leaves.\n")
    assert kit.events == []


def test_it_is_withdrawn_at_once_while_an_agent_holds_the_log(fedct: Fedct, approved_kit: Kit) -> None:
    kit = approved_kit
    with kit.log() as log:
        outcome = fedct("silo", "revoke", kit.folder, "--yes")
        assert (outcome.code, "nothing leaves from now on" in outcome.out) == (0, True)
        assert is_revoked(kit.state)
        assert '"state": "revoked"' in fedct("silo", "status", kit.folder, "--json").out
        # As the agent does within a second; before that its gate finds the file.
        put_down(log, kit.state)
    assert kit.events == [Event.APPROVED, Event.REVOKED]
    assert not is_revoked(kit.state)
    assert "revoked, so nothing leaves: fedct silo approve" in words(fedct("silo", "status", kit.folder).out)


def test_a_log_that_is_not_intact_keeps_nobody_from_revoking(fedct: Fedct, approved_kit: Kit) -> None:
    path = approved_kit.state / "egress.jsonl"
    path.write_bytes(path.read_bytes().replace(b"approved", b"appr0ved"))
    assert fedct("silo", "revoke", approved_kit.folder, "--yes").code == 0
    assert is_revoked(approved_kit.state)
