"""Whether a protected silo answers, attacked by one record that makes the personal model fail.

Before this was mended, the personal model was trained before the labeler answered. Where one record made that fail, the
silo sent "training failed", uncounted and without a charge: two data sets that differ in one record were told apart
with certainty, whatever epsilon promised. DP-SGD stopped at a loss that was not finite, which one record decided too.
"""

import csv
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, Message, RecordDict

from client_app.main import app
from fedct_flwr.cli.demo import LABEL
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.privacy.budget import DATA_SET, WHOLE_SILO
from fedct_flwr.silo import own as own_silo
from fedct_flwr.silo.release import account_of
from fedct_flwr.silo.round import gated
from fedct_flwr.types import ABSTAIN, Refusal
from fedct_flwr.wire.codec import decode_reply, encode_instruction
from fedct_flwr.wire.content import Instruction, Query
from fedct_flwr.wire.messages import from_record, to_record
from tests.hospital.agents import Make
from tests.hospital.test_adding import opened
from tests.hospital.test_joint import AGREED, step
from tests.hospital.test_noise_in_shares import asked
from tests.hospitals import restart, write_silo_folder
from tests.patience import eventually

pytestmark = pytest.mark.usefixtures("in_a_run")

NETWORK = {
    "name": "tests.federation.learners.network", "packages": ["tests"], "local-steps": 2, "batch-size": 16,
    "preprocessing": "none",
}  # fmt: skip
LOOKING_UP = {**NETWORK, "name": "tests.federation.learners.looking_up", "local-steps": 50}
TREE = {"name": "decision-tree", "preprocessing": "none"}
OUTSIDE = {**TREE, "name": "tests.federation.learners.SometimesOutside", "packages": ["tests"]}
EARLY = {"name": "hist-gradient-boosting", "params": {"early_stopping": True, "max_iter": 2}}


Change = Callable[[list[dict[str, str]]], list[dict[str, str]]]


def cell(column: str, value: str, *, every: bool = False) -> Change:
    """One record, or each, with this value."""

    def change(rows: list[dict[str, str]]) -> list[dict[str, str]]:
        for row in rows if every else rows[:1]:
            row[column] = value
        return rows

    return change


huge = cell("chol", "1e155")
"""No model can be trained on it."""


def change_records(folder: Path, change: Change) -> None:
    path = folder / "data.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    rows = change(rows)
    with path.open("w", newline="", errors="surrogateescape") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def rare(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """One record of a class that no other has: nothing can be held out to stop early by."""
    label = list(rows[0])[-1]
    kinds = sorted({row[label] for row in rows})
    common = [row for row in rows if row[label] == kinds[0]]
    return [*common, next(row for row in rows if row[label] == kinds[1])]


def same(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return rows


def answered(folder: Path, votes: int = 0) -> tuple[bytes, np.ndarray | Refusal, list[Callable[[], None]]]:
    """What the silo sends, what is in it, and what it leaves for afterwards."""
    restart()
    config = SiloConfig.read_toml(folder / "silo.toml")
    terms = read_study(config.study).terms
    question = Instruction(1, Query(0, 50), np.full(terms.num_public, ABSTAIN, dtype=np.int16), votes)
    message = Message(to_record(encode_instruction(question, terms)), dst_node_id=7, message_type="train")
    with gated() as afterwards:
        node = {"silo-file": str(folder / "silo.toml")}
        payload = from_record(app(message, Context(1, 7, node, RecordDict(), {})).content)
    return payload, decode_reply(payload, terms, question).outcome, afterwards


@pytest.mark.parametrize(
    ("protection", "learner", "record"),
    [
        ("dp-linear", TREE, huge),
        ("dp-linear", EARLY, rare),
        ("randomized-response", TREE, huge),
        ("randomized-response", EARLY, rare),
        ("dp-sgd", NETWORK, huge),
        ("dp-sgd", NETWORK, rare),
        # A category that a network has no row for.
        ("dp-sgd", LOOKING_UP, cell("sex", "77")),
        ("randomized-response", LOOKING_UP, cell("sex", "77")),
        # A value by which a learner says what is no class.
        ("randomized-response", OUTSIDE, cell("chol", "1e100")),
        # Without a protection such a record is a refusal: so the attack is one.
        ("none", TREE, huge),
        ("none", EARLY, rare),
    ],
)
def test_no_record_decides_whether_there_is_an_answer(
    tmp_path: Path, protection: str, learner: dict[str, Any], record: Change
) -> None:
    lengths = set()
    for name, change in {"neighbor": same, "attacked": record}.items():
        folder = tmp_path / name
        privacy = {"protection": protection, "epsilon": 5.0, "delta": 1e-5, "rounds": 1}
        write_silo_folder(folder, learner=learner, privacy=privacy if protection != "none" else {})
        change_records(folder, change)
        payload, outcome, afterwards = answered(folder)
        if (protection, name) == ("none", "attacked"):
            assert outcome is Refusal.TRAINING_FAILED
            return
        assert isinstance(outcome, np.ndarray), outcome
        lengths.add(len(payload))
        for each in afterwards:
            each()  # whatever comes of that stays here, and is no exception
    assert len(lengths) == 1


UNREADABLE: dict[str, tuple[Change, int]] = {
    "neighbor": (same, 168),
    "no patient": (cell("patient", ""), 167),
    "one patient": (cell("patient", "x", every=True), 168),
    "no patients": (cell("patient", "", every=True), 0),
    "no label": (cell(LABEL, ""), 167),
    "no class": (cell(LABEL, "maybe"), 167),
    "no classes": (cell(LABEL, "maybe", every=True), 0),
    "text": (cell("chol", "high"), 167),
    "a date": (cell("chol", "2020-01-01"), 167),
    "infinite": (cell("chol", "1e999"), 167),
    "a field more": (cell("chol", "7,8"), 167),
    "no text": (cell("chol", "\udcff"), 167),
    "a zero byte": (cell("chol", "\0"), 167),
    "an open quotation mark": (cell("chol", "?7"), 167),
    "two lines": (cell("patient", "0\n"), 167),
    "too long": (cell("chol", " " * 2**21), 167),
}
"""Changes of 168 records, and how many can be read then."""


@pytest.mark.parametrize("protection", ["dp-linear", "randomized-response", "fedkt-l2"])
def test_no_record_that_cannot_be_read_decides_it_either(tmp_path: Path, protection: str) -> None:
    """Before this was mended, the silo sent "no data" and was charged nothing."""
    privacy = {"protection": protection, "epsilon": 5.0, "delta": 1e-5, "rounds": 1}
    policy = {"kinds": ["counts" if protection == "fedkt-l2" else "hard"]}
    data = {"test-file": "", "tables": {"group": "patient"}}
    write_silo_folder(tmp_path / "whole", learner=TREE, privacy=privacy, policy=policy, data=data)
    change_records(tmp_path / "whole", lambda rows: [{**row, "patient": str(n // 3)} for n, row in enumerate(rows)])
    found, others = set(), set()
    # Public features take seconds.
    few = ["neighbor", "one patient", "no patients", "a date"]
    for name in few if protection == "dp-linear" else UNREADABLE:
        change, size = UNREADABLE[name]
        folder = Path(shutil.copytree(tmp_path / "whole", tmp_path / name))
        change_records(folder, change)
        path = folder / "data.csv"
        path.write_bytes(path.read_bytes().replace(b'"7,8"', b"7,8").replace(b"?7", b'"7'))
        payload, outcome, _ = answered(folder, votes=int(protection == "fedkt-l2"))
        assert isinstance(outcome, np.ndarray), name
        found.add((len(payload), account_of(SiloConfig.read_toml(folder / "silo.toml"), "heart-disease").epsilon))
        site = own_silo.read_once(folder / "silo.toml").site
        assert (site.private.size, len(site.findings) > 0) == (size, name != "neighbor"), name
        others |= {site.private.X[-160:].tobytes()} if size else set()
    assert (len(found), len(others)) == (1, 1)


def test_no_record_decides_it_by_which_a_query_fails(tmp_path: Path) -> None:
    """SQLite ends ``abs`` of the least whole number in an error; before, the silo's agent did not start."""
    privacy = {"protection": "randomized-response", "epsilon": 5.0, "delta": 1e-5, "rounds": 1}
    found = set()
    for name, extreme in (("neighbor", 0), ("failing", -(2**63))):
        folder = tmp_path / name
        write_silo_folder(
            folder, learner=TREE, privacy=privacy, data={"query": "own.sql", "database": str(folder / "own.db")}
        )
        path = folder / "silo.toml"
        path.write_text(path.read_text("utf-8").replace('file = "data.csv"\n', "").replace("test-file", "# test-file"))
        with sqlite3.connect(folder / "own.db") as connection:
            pd.read_csv(folder / "data.csv").assign(more=[extreme, *[0] * 167]).to_sql("t", connection, index=False)
        columns = ", ".join(f'"{column}"' for column in pd.read_csv(folder / "data.csv"))
        (folder / "own.sql").write_text(f"SELECT {columns} FROM t WHERE abs(more) >= 0", "utf-8")
        payload, outcome, _ = answered(folder, votes=0)
        assert isinstance(outcome, np.ndarray), name
        site = own_silo.read_once(path).site
        found.add((len(payload), site.private.size, len(site.findings) > 0))
    assert {found[0] for found in found} == {len(payload)}
    assert {(size, told) for _, size, told in found} == {(168, False), (0, True)}


@pytest.mark.parametrize(
    ("kind", "learner", "record"),
    [
        ("joint", TREE, cell(LABEL, "", every=True)),
        ("sum", TREE, cell(LABEL, "", every=True)),
        ("sum", TREE, huge),
        ("sum", EARLY, rare),
        ("count-sum", TREE, huge),
        ("count-sum", EARLY, rare),
    ],
)
def test_a_sum_with_noise_is_answered_and_charged_whatever_the_records_are(
    tmp_path: Path, kind: str, learner: dict[str, Any], record: Change
) -> None:
    """Before this was mended, the silo sent "training failed" and was charged nothing."""
    options: dict[str, Any] = {"agreed": AGREED} if kind == "joint" else {"sum_epsilon": 20.0}
    found = set()
    for name, change in {"neighbor": same, "attacked": record}.items():
        with ExitStack() as stack:
            tables = {"learner": learner, "transfer": {"teachers": 1}}
            hospital = opened(tmp_path / name, stack, tables=tables, kinds=[kind], **options)["cleveland"]
            change_records(hospital.silo.config.study.parent, change)
            votes = 2 if kind == "count-sum" else 0
            reply = hospital.ask(step(hospital) if kind == "joint" else asked(hospital, votes=votes))
            assert isinstance(reply, bytes)
            account = DATA_SET if kind == "joint" else WHOLE_SILO
            found.add((len(reply), account_of(hospital.silo.config, hospital.silo.terms.study, account).epsilon))
    assert len(found) == 1


def test_the_answer_leaves_before_the_personal_model_trains(make: Make) -> None:
    privacy = {"protection": "dp-linear", "epsilon": 1.0, "delta": 1e-5, "rounds": 2}
    silo = make(privacy=privacy)
    silo.hold()
    silo.start()
    silo.ask()
    assert isinstance(silo.outcome(), np.ndarray)
    silo.training()
    model = silo.config.state / f"model-{silo.study.name}.skops"
    assert not model.exists()
    assert [entry.event for entry in silo.entries()][-1] is Event.RELEASED
    silo.go()
    eventually(model.exists)


def test_a_personal_model_that_cannot_be_trained_is_told_to_nobody_and_the_next_round_is_answered(make: Make) -> None:
    privacy = {"protection": "dp-linear", "epsilon": 1.0, "delta": 1e-5, "rounds": 2}
    silo = make(privacy=privacy, learner=EARLY)
    change_records(silo.folder, rare)
    silo.start()
    for number in (1, 2):
        silo.ask(number)
        assert isinstance(silo.outcome(number), np.ndarray)
    silo.end()
    assert silo.of(Event.REFUSED) == []
    assert not list(silo.config.state.glob("model-*"))
