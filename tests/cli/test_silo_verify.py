"""The proof of what has left, and the first line that is none."""

import json
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from fedct_flwr.hospital.approval import approve
from fedct_flwr.hospital.egress_log import keep
from fedct_flwr.hospital.log_entry import Event, LogEntry
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, RunError
from fedct_flwr.wire.codec import encode_instruction, encode_reply
from fedct_flwr.wire.content import Instruction, Query, Reply
from fedct_flwr.wire.kinds import NOTHING
from tests.cli.silos import Fedct, Kit, agree_on_sums, words


@pytest.fixture
def written(kit: Kit) -> Kit:
    """An approval, two replies and a refusal."""
    with kit.log() as log:
        approve(log, kit.config, kit.study)
        log.append(kit.released(1, 228, 151))
        log.append(kit.released(2, 100, 90))
        log.append(LogEntry(Event.REFUSED, reason="LIMIT", round=3))
    return kit


def hashes(kit: Kit) -> list[str]:
    return [json.loads(line)["hash"] for line in (kit.state / "egress.jsonl").read_bytes().splitlines()]


def test_an_intact_log_is_added_up(fedct: Fedct, written: Kit) -> None:
    outcome = fedct("silo", "verify", written.folder)
    assert outcome.code == 0
    assert "is intact: 4 lines" in outcome.out
    assert "Left: 2 messages with labels, 328 labels, 241 bytes in all; refused: 1." in outcome.out
    assert f": {hashes(written)[-1]}\n" in outcome.out


def test_a_silo_that_counts_patients_sends_numbers_and_trains_nothing(fedct: Fedct, kit: Kit) -> None:
    agree_on_sums(kit, count={"epsilon": 0.2})
    kit.let_out("count")
    with kit.log() as log:
        approve(log, kit.config, kit.study)
        log.append(replace(kit.released(1, 2, 151), kind="count"))
    page = {name: words(fedct("silo", name, kit.folder).out) for name in ("verify", "status", "dpia")}
    assert "Left: 1 message with numbers, 2 numbers, 151 bytes" in page["verify"]
    assert "numbers 2 of" in page["status"]
    assert "So far 1 message with numbers" in page["dpia"]
    assert "of which 2 are used" in page["dpia"].partition("Numbers: ")[2]
    assert "models" not in fedct("privacy-sheet", kit.folder).out


def test_labels_and_numbers_in_sums_are_counted_apart(fedct: Fedct, kit: Kit) -> None:
    with kit.log() as log:
        approve(log, kit.config, kit.study)
        log.append(kit.released(1, 228, 117))
        log.append(replace(kit.released(1, 3, 60), kind="count", study="another"))
    assert "Left: 2 messages, 1 with 228 labels and 1 with 3 numbers, 177 bytes" in words(
        fedct("silo", "verify", kit.folder).out
    )
    page = words(fedct("silo", "approve", kit.folder).out)
    assert "Under other studies and public sets 3 numbers in sums left about these records" in page
    assert "1 message of another study" in words(fedct("silo", "released", kit.folder).err)


def test_answers_in_sums_are_no_labels_that_can_be_read(fedct: Fedct, kit: Kit) -> None:
    agree_on_sums(kit)
    kit.let_out("sum")
    ready = encode_reply(Reply(1, "cleveland", NOTHING), kit.study.terms)
    size = len(kit.study.public)
    targets = np.full(size, ABSTAIN, dtype=LABEL_DTYPE)
    asked = encode_instruction(Instruction(1, Query(0, size), targets, summed=True), kit.study.terms)
    with kit.log() as log:
        line = replace(kit.released(1, 2 * size, len(ready)), kind="sum", request=sha256(asked).hexdigest())
        line = replace(line, payload=sha256(ready).hexdigest())
        keep(kit.state, line, ready, asked)
        log.append(line)
    page = words(fedct("silo", "verify", kit.folder).out)
    assert "Left: 1 message with numbers, 456 numbers, " in page
    assert "Of these, 1 message said that an answer is ready for a sum: its masked parts are logged, and not" in page
    printed = fedct("silo", "released", kit.folder)
    assert len(printed.out.splitlines()) == 1
    assert "not printed: 1 message of an answer in a sum; its masked parts are logged" in words(printed.err)


def test_an_old_log_that_was_put_back_is_noticed(fedct: Fedct, written: Kit, tmp_path: Path) -> None:
    shutil.copytree(written.state, tmp_path / "copy")
    with written.log() as log:
        log.append(written.released(4, 10, 20))
    last = hashes(written)[-1]
    shutil.rmtree(written.state)
    shutil.copytree(tmp_path / "copy", written.state)
    assert fedct("silo", "verify", written.folder).code == 0
    outcome = fedct("silo", "verify", written.folder, "--since", last)
    assert (outcome.code, outcome.out) == (RunError.exit_code, "")
    assert last in outcome.sentence
