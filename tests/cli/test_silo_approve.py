"""What would leave is said in plain words, and nothing is approved by the way."""

import csv
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from client_app.approval import current, terms_digest
from client_app.log_entry import Event, LogEntry, read_entries
from client_app.revocation import withdraw
from client_app.site import terms_of
from fedct_flwr.types import ConfigError, RunError
from fedct_flwr.wire.codec import Reply, Scores, encode_reply
from tests.cli.silos import Fedct, Kit

Types = Callable[[str], None]


def words(out: str) -> str:
    return " ".join(out.split())


def approved(kit: Kit) -> bool:
    return current(read_entries(kit.state)) == terms_digest(kit.config, kit.study)


def plant_patients(kit: Kit) -> None:
    """A public set that is the silo's own records."""
    with (kit.source / "data.csv").open(newline="", encoding="utf-8") as file:
        rows = [row[:-1] for row in csv.reader(file)]
    with (kit.folder / "study" / "public.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def test_all_that_is_to_be_known_is_said(fedct: Fedct, kit: Kit) -> None:
    outcome = fedct("silo", "approve", kit.folder, "--yes")
    assert outcome.code == 0
    said = words(outcome.out)
    assert kit.study.public.fingerprint.hex() in said
    for part in (
        "heart-disease: silo cleveland trains logistic-regression to tell healthy, diseased apart",
        "Columns: 13", "228 examples without labels", "hard labels: one class for each public example",
        "Test scores: none", "Rounds: 100, of which 0 are used", "Labels: 1,000,000, of which 0 have left",
        "Bytes: 10,000,000", "models, weights, gradients", "no more than chance explains", "Labels are not nothing",
        "What leaves, to the coordinator The coordinator's address: localhost:1",
        "A round is one of a run. Each new run asks anew",
        "Next: start the SuperNode and the agent", "or the containers",
        "No differential privacy is guaranteed yet", "code that the coordinator sends is never run",
    ):  # fmt: skip
        assert part in said, part
    assert max(map(len, outcome.out.splitlines())) <= 80
    assert "Under other studies" not in said
    assert approved(kit)


def test_the_bytes_said_are_those_of_the_longest_reply(fedct: Fedct, kit: Kit) -> None:
    kit.edit("metrics = false", "metrics = true")
    kit.edit('silo = "cleveland"', f'silo = "{"c" * 60}"')
    said = words(fedct("silo", "approve", kit.folder, "--yes").out)
    votes = np.full(228, -1, dtype=np.int16)
    votes[0] = 1
    longest = encode_reply(Reply(100, "c" * 60, votes, Scores(0.5, 0.5, 0.5, 0.5)), terms_of(kit.study))
    assert f"At most {len(longest)} bytes in one reply" in said
    assert "Test scores: four numbers with each reply" in said


def test_what_has_left_already_is_counted(fedct: Fedct, kit: Kit) -> None:
    with kit.log() as log:
        log.append(kit.released(1, 228, 151))
    said = words(fedct("silo", "approve", kit.folder, "--yes").out)
    assert "of which 1 are used" in said
    assert "of which 228 have left" in said


@pytest.mark.parametrize("change", [{"study": "another"}, {"public": "00" * 32}])
def test_what_has_left_under_others_is_said_and_spends_nothing(fedct: Fedct, kit: Kit, change: dict[str, str]) -> None:
    with kit.log() as log:
        log.append(kit.released(1, 228, 151))
        log.append(replace(kit.released(1, 1000, 200), **change))
        log.append(LogEntry(Event.REFUSED, "a third", reason="LIMIT"))
    said = words(fedct("silo", "approve", kit.folder, "--yes").out)
    assert "Under other studies and public sets 1,000 labels have left about these records" in said
    assert "of which 228 have left" in said


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_it_asks(fedct: Fedct, kit: Kit, types: Types, answer: str, code: int) -> None:
    types(answer)
    outcome = fedct("silo", "approve", kit.folder)
    assert outcome.code == code
    assert approved(kit) is (code == 0)
    assert "Approve this?" in outcome.out
    if code:
        assert list(read_entries(kit.state)) == []


def test_yes_alone_does_not_pass_an_alarm(fedct: Fedct, kit: Kit) -> None:
    plant_patients(kit)
    outcome = fedct("silo", "approve", kit.folder, "--yes")
    assert outcome.code == ConfigError.exit_code
    assert "add --despite-duplicates" in outcome.sentence
    assert "of 168 records 168 have an exact" in words(outcome.out)
    assert list(read_entries(kit.state)) == []


def test_an_alarm_is_passed_when_it_is_said(fedct: Fedct, kit: Kit) -> None:
    plant_patients(kit)
    assert fedct("silo", "approve", kit.folder, "--yes", "--despite-duplicates").code == 0
    assert approved(kit)
    (entry,) = read_entries(kit.state)
    assert entry.details["duplicates"] == {"exact": 168, "near": 168, "alarm": True}


@pytest.mark.parametrize(("answer", "code"), [("despite duplicates\ny\n", 0), ("y\ny\n", 1), ("\ny\n", 1)])
def test_an_alarm_is_typed_out(fedct: Fedct, kit: Kit, types: Types, answer: str, code: int) -> None:
    plant_patients(kit)
    types(answer)
    assert fedct("silo", "approve", kit.folder).code == code
    assert approved(kit) is (code == 0)


def test_while_the_agent_is_at_work_nothing_is_approved(fedct: Fedct, kit: Kit) -> None:
    with kit.log():
        outcome = fedct("silo", "approve", kit.folder, "--yes")
    assert outcome.code == RunError.exit_code
    assert "stop its agent first" in outcome.sentence


def test_what_was_withdrawn_meanwhile_comes_before_the_new_approval(fedct: Fedct, kit: Kit) -> None:
    fedct("silo", "approve", kit.folder, "--yes")
    withdraw(kit.state)
    fedct("silo", "approve", kit.folder, "--yes")
    assert [entry.event for entry in read_entries(kit.state)] == [Event.APPROVED, Event.REVOKED, Event.APPROVED]
    assert approved(kit)
    assert not (kit.state / "revoked").exists()


def test_without_records_there_is_nothing_to_approve(fedct: Fedct, kit: Kit) -> None:
    (kit.source / "data.csv").unlink()
    outcome = fedct("silo", "approve", kit.folder, "--yes")
    assert (outcome.code, outcome.out) == (3, "")
