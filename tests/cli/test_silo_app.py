"""The commands of a silo with a Flower app: what they say, and what they refuse."""

import json
import re
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.hospital.egress_log import keep
from fedct_flwr.hospital.log_entry import Event, LogEntry
from tests.cli.silos import YES, Fedct, words
from tests.hospital.apps import APPS, SKLEARN, AppOnDisk

_HASH = re.compile(r"[0-9a-f]{64}")


@pytest.fixture
def silo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppOnDisk:
    monkeypatch.syspath_prepend(APPS)
    return AppOnDisk(tmp_path / "silo")


def test_the_page_says_what_may_leave_and_that_weights_may_reveal_records(
    fedct: Fedct, silo: AppOnDisk, wording: SnapshotAssertion
) -> None:
    status = {"config": {"note": 20}}
    more = {"train.more": {"state": {"most-bytes": 1000}, "status": status}}
    silo.write({**SKLEARN, "replies": {**SKLEARN["replies"], **more}, "data": {"data": "data.csv"}})
    page = fedct("silo", "approve", silo.folder, *YES)
    assert page.code == 0, page.err
    assert "Model weights may reveal records, and nothing here bounds that" in words(page.out)
    assert _HASH.sub("<hash>", words(page.out)) == wording
    (line,) = silo.entries()
    assert (line.event, line.study, line.details["reason"]) == (Event.APPROVED, SKLEARN["client"], "a test")
    assert json.loads(fedct("silo", "approve", silo.folder, *YES, "--json").out)["approved"] is True


def test_an_app_that_changed_is_to_be_approved_again(fedct: Fedct, silo: AppOnDisk) -> None:
    def state() -> str:
        found: str = json.loads(fedct("silo", "status", silo.folder, "--json").out)["approval"]["state"]
        return found

    assert state() == "none"
    assert fedct("silo", "start", silo.folder).code == 2
    silo.approve()
    assert state() == "approved"
    silo.write({**SKLEARN, "runs-a-day": 3})
    assert state() == "changed"
    assert fedct("silo", "start", silo.folder).code == 2
    silo.approve()
    assert fedct("silo", "revoke", silo.folder, "--yes").code == 0
    assert state() == "revoked"


def test_check_imports_the_app(fedct: Fedct, silo: AppOnDisk) -> None:
    well = fedct("silo", "check", silo.folder, "--offline")
    assert "✓ client app: plain_sklearn.client_app:app is imported, and may answer train, evaluate" in words(well.out)
    assert well.code == 0, well.out
    for client, why in (
        ("nowhere:app", "there is no module 'nowhere'"),
        ("plain_sklearn.client_app:other", "the module has no 'other'"),
        ("plain_sklearn.client_app:np", "'np' is no ClientApp of flwr.clientapp"),
    ):
        silo.write({**SKLEARN, "client": client})
        found = fedct("silo", "check", silo.folder, "--offline")
        assert (found.code, why in words(found.out)) == (3, True), found.out
        for command in (("approve", silo.folder, *YES), ("start", silo.folder)):
            failed = fedct("silo", *command)
            assert (failed.code, why in words(failed.err)) == (2, True), failed.err
        assert silo.entries() == []
        assert not silo.config.state.exists()


def test_status_and_verify_tell_of_messages(fedct: Fedct, silo: AppOnDisk) -> None:
    silo.approve()
    with silo.log() as log:
        for run, number in ((7, 1), (7, 2), (8, 1)):
            line = LogEntry(Event.ADMITTED, SKLEARN["client"], run=run, round=number, request="")
            log.append(line)
        digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
        line = LogEntry(Event.RELEASED, SKLEARN["client"], run=8, bytes=5, payload=digest, request=digest)
        keep(silo.config.state, line, b"hello", b"hello")
        log.append(line)
    report = json.loads(fedct("silo", "status", silo.folder, "--json").out)
    assert report["used"] == {"runs_today": 2, "messages_of_last_run": 1}
    assert report["limits"] == {"runs_today": 2, "messages_of_last_run": 4}
    assert report["sent"] == {"replies": 1, "bytes": 5}
    shown = words(fedct("silo", "status", silo.folder).out)
    assert "app plain_sklearn.client_app:app" in shown
    assert "messages of last run 1 of 4 used, 3 left" in shown
    assert fedct("silo", "metrics", silo.folder).code == 0
    verified = json.loads(fedct("silo", "verify", silo.folder, "--json").out)
    assert (verified["intact"], verified["sent"]["messages"], verified["missing"]) == (True, 1, 0)


def test_other_commands_say_in_one_sentence_that_they_are_not_for_apps(fedct: Fedct, silo: AppOnDisk) -> None:
    for command in (("released",), ("dpia",), ("opt-out",), ("audit",)):
        refused = fedct("silo", *command, silo.folder)
        assert refused.code == 2
        assert "has [app], and this command is for co-training" in words(refused.err)
