"""``fedct coordinator count`` without silos: its mistakes, and an answer that was given before."""

import json
from pathlib import Path

import pytest
import tomli_w

from fedct_flwr.cli.coordinator.init import prepare
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.drawing.counts import noisy_number
from tests.cli.documents import check
from tests.cli.runner import files_below
from tests.cli.silos import Fedct
from tests.hospital.test_adding import line_of
from tests.hospitals import HOSPITALS, write_study_folder


@pytest.fixture
def folder(here: Path) -> Path:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    study = write_study_folder(here / "study")
    keys = {name: line_of(Ed25519PrivateKey.generate()) for name in HOSPITALS}
    path = study / "study.toml"
    path.write_text(path.read_text("utf-8") + "\n" + tomli_w.dumps({"count": {}, "sums": {"keys": keys}}), "utf-8")
    prepare(here / "coordinator", ["127.0.0.1"], "127.0.0.1:1", study, gateway="127.0.0.1:1")
    return here / "coordinator"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--where is missing"),
        (["--where", "agee >= 65"], "there is no column 'agee': did you mean 'age'?"),
        (["--where", "age >= 65", "--by", "chol"], "'chol' has no categories to count by"),
        (["--where", "age >="], "is no condition, as it ends too early"),
        (["--where", "age >= 65", "--resume", "nowhere"], "cannot read config.json"),
        (["--where", "age >= 65"], "there is no silo's key"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(
    fedct: Fedct, folder: Path, options: list[str], said: str
) -> None:
    before = files_below(folder)
    assert said in fedct("coordinator", "count", folder, *options).sentence
    assert files_below(folder) == before


def test_a_study_without_the_table_names_it(fedct: Fedct, folder: Path) -> None:
    path = folder / "study" / "study.toml"
    path.write_text(path.read_text("utf-8").replace("[count]\n", ""), "utf-8")
    outcome = fedct("coordinator", "count", folder, "--where", "age >= 65")
    assert "the study has no [count] in study.toml" in outcome.sentence


def test_an_epsilon_too_large_for_sums_is_refused_as_the_study_is_read(fedct: Fedct, folder: Path) -> None:
    path = folder / "study" / "study.toml"
    path.write_text(path.read_text("utf-8").replace("[count]\n", "[count]\nepsilon = 30.0\n"), "utf-8")
    outcome = fedct("coordinator", "invite", folder, "cleveland")
    assert "[count] in study.toml: epsilon 30 is too large for counts with noise: lower it" in outcome.sentence


def test_the_same_question_again_has_the_answer_of_before(fedct: Fedct, folder: Path) -> None:
    known = {
        "study": read_study(folder / "study").digest.hex(), "where": "age >= 65", "by": "label", "silos": 4,
        "epsilon": 1.0, "delta": 1e-5, "all": noisy_number(99.7, 5.0),
        "cells": {"healthy": noisy_number(3.0, 5.0), "diseased": noisy_number(96.7, 5.0)},
    }  # fmt: skip
    run = folder / "runs" / "earlier"
    run.mkdir(parents=True)
    (run / "result.json").write_text(json.dumps({"status": "completed", "count": known}))
    asked = ("coordinator", "count", folder, "--where", "age>=65", "--by", "label")
    outcome = fedct(*asked)
    assert outcome.code == 0
    assert "asked before, so the answer costs nothing" in outcome.out
    assert "about 100 patients match (between 89 and 110 with 95% chance)" in outcome.out
    assert "fewer than 20" in outcome.out
    document = json.loads(fedct(*asked, "--json").out)
    check(document, "Count")
    assert document == known
    assert "there is no silo's key" in fedct("coordinator", "count", folder, "--where", "age >= 66").sentence
