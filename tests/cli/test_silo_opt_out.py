"""A patient opts out between two answers: the approval stays, and ``fedct silo opt-out`` names the first alone."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.keys import load_egress_key
from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.hospital.opted_out import FILE
from fedct_flwr.types import ConfigError
from fedct_flwr.wire.codec import encode_instruction
from tests.cli.silos import Fedct, words
from tests.cli.test_silo_released import ask
from tests.hospital.agents import Silo, silos_in

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def silo(tmp_path: Path) -> Iterator[Silo]:
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


def test_earlier_answers_are_named_and_nothing_is_approved_again(fedct: Fedct, silo: Silo) -> None:
    assert fedct("silo", "opt-out", silo.folder).code == ConfigError.exit_code
    assert answer(fedct, silo, 1) == 0
    opt_out(silo, "2", "007")
    before = fedct("silo", "opt-out", silo.folder, "--affected")
    assert "Not left out yet: 2 ids of the list" in words(before.out)
    assert answer(fedct, silo, 2) == 0
    opt_out(silo, "2", "007", "9", "900", "901")
    assert answer(fedct, silo, 3) == 0
    assert len(silo.of(Event.APPROVED)) == 1
    after = words(fedct("silo", "opt-out", silo.folder, "--affected").out)
    assert "about 10 records left out" in after
    assert "rounds 1, 2: 2 messages" in after
    assert "too late for 3 ids of the list" in after
    assert "In no record here: 2 ids of the list" in after
    assert "Cannot be taken back" in after
    assert "Not left out yet" not in after
    # The number and the ids are on no line of the log, and the marks tell no id.
    assert not any("opt" in json.dumps(entry.details) for entry in silo.entries())
    assert not re.search(r'"0*(2|7|9)"', (silo.config.state / FILE).read_text("utf-8"))
    opt_out(silo, "9")
    assert "rounds 1, 2: 2 messages" in words(fedct("silo", "opt-out", silo.folder, "--affected").out)
    with EgressLog.open(silo.config.state, silo.name, load_egress_key(silo.config.egress_key)) as log:
        log.append(replace(silo.of(Event.RELEASED)[0], run=2))
    again = words(fedct("silo", "opt-out", silo.folder, "--affected").out)
    assert "run 2, rounds 1: 1 message" in again
    assert "files model-*, before-*, learner-* and run-* away" in again
    (silo.config.state / FILE).unlink()
    assert "rounds 1, 2, 3: 3 messages" in words(fedct("silo", "opt-out", silo.folder, "--affected").out)


def test_a_wrong_list_keeps_the_silo_from_answering(fedct: Fedct, silo: Silo) -> None:
    opt_out(silo, "KH-002")
    outcome = fedct("silo", "opt-out", silo.folder)
    assert "spell theirs in another form" in words(outcome.err)
    assert answer(fedct, silo, 1) == outcome.code != 0
    assert not silo.of(Event.RELEASED)
    assert "no id of the opt-out list" in words(fedct("silo", "check", silo.folder, "--offline").out)
