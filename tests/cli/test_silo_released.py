"""``fedct silo answer`` and ``released``: a carried question, and the labels that left by its answer."""

import csv
import io
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedct_flwr.cli.silo.verify import _rows
from fedct_flwr.hospital.egress_log import FOLDER, EgressLog, kept
from fedct_flwr.hospital.keys import load_egress_key
from fedct_flwr.hospital.log_entry import LOG_FILE, Event
from fedct_flwr.hospital.offline_transport import OfflineQuestion, seal
from fedct_flwr.hospital.opted_out import FILE
from fedct_flwr.types import ConfigError, DataError, RunError
from fedct_flwr.wire.codec import decode_reply, encode_instruction
from fedct_flwr.wire.content import Terms
from tests.cli.silos import Fedct, words
from tests.hospital.agents import Silo, silos_in

REFUSED = 1
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def silo(tmp_path: Path) -> Iterator[Silo]:
    with silos_in(tmp_path) as make:
        yield make()


def ask(silo: Silo, path: Path, payload: bytes = b"", **settings: bool) -> Path:
    """Seal a question, a right one where no payload is given."""
    payload = payload or encode_instruction(silo.instruction(), silo.terms)
    seal(path, OfflineQuestion(1, 7, "train", "0" * 64, settings, payload), silo.config.connection.secret)
    return path


def test_a_question_is_answered_once_and_a_bad_one_is_refused(fedct: Fedct, silo: Silo, tmp_path: Path) -> None:
    question = ask(silo, tmp_path / "question-1.fedct")
    assert fedct("silo", "answer", question, "--folder", silo.folder).code == 0
    assert (tmp_path / "answer-1.fedct").exists()
    assert fedct("silo", "answer", question, "--folder", silo.folder).code == ConfigError.exit_code
    odd = ask(silo, tmp_path / "question-2.fedct", b"none")
    assert fedct("silo", "answer", odd, "--folder", silo.folder).code == REFUSED
    assert (tmp_path / "answer-2.fedct").exists()
    assert fedct("silo", "answer", silo.file, "--folder", silo.folder).code == DataError.exit_code


def test_the_labels_that_left_can_be_read_and_proven(fedct: Fedct, silo: Silo, tmp_path: Path) -> None:
    assert fedct("silo", "answer", ask(silo, tmp_path / "question-1.fedct"), "--folder", silo.folder).code == 0
    (entry,) = [entry for entry in silo.entries() if entry.event is Event.RELEASED]
    rows = list(csv.DictReader(io.StringIO(fedct("silo", "released", silo.folder).out)))
    assert [int(row["example"]) for row in rows] == list(range(silo.terms.num_public))
    assert {row["label"] for row in rows} <= {*silo.terms.classes, ""}
    assert {(row["line"], row["run"], row["round"]) for row in rows} == {(str(entry.number), str(entry.run), "1")}
    assert "as the log says: 1 of 1" in fedct("silo", "verify", silo.folder).out
    terms = (silo.folder / "study" / "study.toml").read_text("utf-8")
    (silo.folder / "study" / "study.toml").write_text(terms.replace("heart-disease", "another"), "utf-8")
    done = fedct("silo", "released", silo.folder)
    assert (done.code, len(done.out.splitlines()), "1 message of another" in done.err) == (0, 1, True)
    (silo.folder / "study" / "study.toml").write_text(terms, "utf-8")
    file = silo.config.state / FOLDER / entry.payload
    file.write_bytes(file.read_bytes()[:-1] + b"\0")
    for command in ("released", "verify"):
        done = fedct("silo", command, silo.folder)
        assert (done.code, f"is not what line {entry.number} of the egress log says" in done.sentence) == (
            RunError.exit_code, True
        )  # fmt: skip
    file.unlink()
    done = fedct("silo", "verify", "--json", silo.folder)
    assert (done.code, json.loads(done.out)["missing"]) == (RunError.exit_code, 1)
    done = fedct("silo", "released", silo.folder)
    assert (done.code, "lacks 1 released message of which" in done.sentence) == (RunError.exit_code, True)


def test_scores_that_left_are_printed_and_stand_on_the_sheet_of_later_settings(fedct: Fedct, tmp_path: Path) -> None:
    with silos_in(tmp_path) as make:
        silo = make(policy={"metrics": True})
        sent = {"report-scores": True}
        assert fedct("silo", "answer", ask(silo, tmp_path / "q.fedct", **sent), "--folder", silo.folder).code == 0
        reply, _ = kept(silo.config.state, *silo.of(Event.RELEASED))
        scores = decode_reply(reply, silo.terms, silo.instruction()).scores
        rows = list(csv.DictReader(io.StringIO(fedct("silo", "released", silo.folder).out)))
        printed = {row["label"]: float(row["number"]) for row in rows if not row["example"]}
        assert printed == {f"test score {name}": score for name, score in scores._asdict().items()}
        text = silo.file.read_text("utf-8").replace("metrics = true", "metrics = false")
        silo.file.write_text(f'{text}\n[privacy]\nprotection = "dp-linear"\n', "utf-8")
        assert "**Test scores, which left**" in fedct("privacy-sheet", silo.folder).out


def test_labels_are_printed_of_an_intact_log_alone(fedct: Fedct, silo: Silo, tmp_path: Path) -> None:
    assert fedct("silo", "answer", ask(silo, tmp_path / "question-1.fedct"), "--folder", silo.folder).code == 0
    log = silo.config.state / LOG_FILE
    whole = log.read_bytes()
    for lost in (1, 9, len(whole.splitlines()[-1]) + 1):
        log.write_bytes(whole[:-lost])
        done = fedct("silo", "released", silo.folder)
        assert (done.code, done.out) == (RunError.exit_code, "")
        assert "the egress log is not intact, line" in done.sentence
        assert done.sentence.count(" line ") == 1
    shutil.rmtree(silo.config.state)
    for command in ("verify", "released"):
        done = fedct("silo", command, silo.folder)
        assert (done.code, done.out, "which is remembered" in done.sentence) == (RunError.exit_code, "", True)


def test_each_kind_of_answer_has_its_rows() -> None:
    terms, query = Terms("a study", b"", 9, ("ill", "well")), np.array([3, 7])
    assert list(_rows(query, np.array([1, -1]), terms)) == [(3, "well", ""), (7, "", "")]
    counts = [(3, "ill", 2), (3, "well", 0), (7, "ill", 1), (7, "well", 1)]
    assert list(_rows(query, np.array([[2, 0], [1, 1]]), terms)) == counts
    assert list(_rows(query, np.array([]), terms)) == []
    values = replace(terms, classes=(), quantity="days")
    assert list(_rows(query, np.array([[1.5], [2.5]]), values)) == [(3, "days", 1.5), (7, "days", 2.5)]


# --- a patient opts out between two answers: the approval stays, and ``fedct silo opt-out`` names the first alone


@pytest.fixture
def clinic(tmp_path: Path) -> Iterator[Silo]:
    with silos_in(tmp_path) as make:
        silo = make(data={"tables": {"group": "patient"}})
        for name in ("data.csv", "test.csv"):
            table = pd.read_csv(silo.folder / name)
            table.assign(patient=[f"{at // 3 + 1:03}" for at in range(len(table))]).to_csv(
                silo.folder / name, index=False
            )
        yield silo


def opt_out(silo: Silo, *ids: str) -> None:
    (silo.folder / "ids.csv").write_text("\n".join(["patient", *ids, ""]), "utf-8")
    if "[records]" not in (text := silo.file.read_text("utf-8")):
        silo.file.write_text(f'{text}\n[records]\nopt-out = "ids.csv"\n', "utf-8")


def answer(fedct: Fedct, silo: Silo, number: int) -> int:
    question = silo.folder / f"question-{number}.fedct"
    ask(silo, question, encode_instruction(silo.instruction(number), silo.terms))
    return fedct("silo", "answer", question, "--folder", silo.folder).code


def test_earlier_answers_are_named_and_nothing_is_approved_again(fedct: Fedct, clinic: Silo) -> None:
    assert fedct("silo", "opt-out", clinic.folder).code == ConfigError.exit_code
    assert answer(fedct, clinic, 1) == 0
    opt_out(clinic, "2", "007")
    before = fedct("silo", "opt-out", clinic.folder, "--affected")
    assert "Not left out yet: 2 ids of the list" in words(before.out)
    assert answer(fedct, clinic, 2) == 0
    opt_out(clinic, "2", "007", "9", "900", "901")
    assert answer(fedct, clinic, 3) == 0
    assert len(clinic.of(Event.APPROVED)) == 1
    after = words(fedct("silo", "opt-out", clinic.folder, "--affected").out)
    assert "about 10 records left out" in after
    assert "rounds 1, 2: 2 messages" in after
    assert "too late for 3 ids of the list" in after
    assert "In no record here: 2 ids of the list" in after
    assert "Cannot be taken back" in after
    assert "Not left out yet" not in after
    # The number and the ids are on no line of the log, and the marks tell no id.
    assert not any("opt" in json.dumps(entry.details) for entry in clinic.entries())
    assert not re.search(r'"0*(2|7|9)"', (clinic.config.state / FILE).read_text("utf-8"))
    opt_out(clinic, "9")
    assert "rounds 1, 2: 2 messages" in words(fedct("silo", "opt-out", clinic.folder, "--affected").out)
    with EgressLog.open(clinic.config.state, clinic.name, load_egress_key(clinic.config.egress_key)) as log:
        log.append(replace(clinic.of(Event.RELEASED)[0], run=2))
    again = words(fedct("silo", "opt-out", clinic.folder, "--affected").out)
    assert "run 2, rounds 1: 1 message" in again
    assert "files model-*, before-*, learner-* and run-* away" in again
    (clinic.config.state / FILE).unlink()
    assert "rounds 1, 2, 3: 3 messages" in words(fedct("silo", "opt-out", clinic.folder, "--affected").out)


def test_a_wrong_list_keeps_the_silo_from_answering(fedct: Fedct, clinic: Silo) -> None:
    opt_out(clinic, "KH-002")
    outcome = fedct("silo", "opt-out", clinic.folder)
    assert "spell theirs in another form" in words(outcome.err)
    assert answer(fedct, clinic, 1) == outcome.code != 0
    assert not clinic.of(Event.RELEASED)
    assert "no id of the opt-out list" in words(fedct("silo", "check", clinic.folder, "--offline").out)
