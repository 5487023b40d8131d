"""``fedct coordinator count``: its mistakes, a run, and an answer that was given before.

Silos count in tests/hospital/test_drawing.py.
"""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tomli_w

from fedct_flwr.cli.coordinator.init import prepare
from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.dictionary import Dictionary
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.drawing.counts import noisy_number
from fedct_flwr.flower.command import SuperLink
from fedct_flwr.hospital.keys import create_node_key
from fedct_flwr.runs.run_folder import RunFolder
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


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("", "the study has no [count] in study.toml"),
        ("[count]\nepsilon = 30.0\n", "[count] in study.toml: epsilon 30 is too large for counts with noise: lower it"),
    ],
)
def test_a_study_whose_counts_cannot_be_is_refused(fedct: Fedct, folder: Path, table: str, said: str) -> None:
    path = folder / "study" / "study.toml"
    path.write_text(path.read_text("utf-8").replace("[count]\n", table), "utf-8")
    assert said in fedct("coordinator", "count", folder, "--where", "age >= 65").sentence


def test_a_question_is_a_run_and_the_same_question_again_has_the_answer_of_before(
    fedct: Fedct, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in HOSPITALS:
        create_node_key(folder / "silos" / name)
    known = {
        "study": read_study(folder / "study").digest.hex(), "where": "age >= 65", "by": "label", "silos": 4,
        "epsilon": 1.0, "delta": 1e-5, "all": noisy_number(99.7, 5.0),
        "cells": {"healthy": noisy_number(3.0, 5.0), "diseased": noisy_number(96.7, 5.0)},
    }  # fmt: skip
    started: list[dict[str, Any]] = []

    def start(self: object, settings: dict[str, Any]) -> int:
        started.append(settings)
        RunFolder.create(Path(settings["run-dir"]), settings, {}).finish("completed", count=known)
        return 5

    monkeypatch.setattr(SuperLink, "start", start)
    asked = ("coordinator", "count", folder, "--where", "age>=65", "--by", "label")
    first = fedct(*asked)
    assert first.code == 0, first.err
    assert "about 100 patients match" in first.out
    assert (started[0]["count-where"], started[0]["count-by"]) == ("age >= 65", "label")
    outcome = fedct(*asked)
    assert (outcome.code, len(started)) == (0, 1)
    assert "asked before, so the answer costs nothing" in outcome.out
    assert "about 100 patients match (between 89 and 110 with 95% chance)" in outcome.out
    assert "fewer than 20" in outcome.out
    document = json.loads(fedct(*asked, "--json").out)
    check(document, "Count")
    assert document == known
    assert fedct("coordinator", "count", folder, "--where", "age >= 66").code == 0
    assert len(started) == 2, "another question"


# --- ``fedct coordinator draw``: a public set from a data dictionary, which a study can use as it is


DICTIONARY = """
[columns.age]
kind = "integer"
range = [18, 100]

[columns.ward]
kind = "category"
categories = ["east", "north"]

[columns.admitted]
kind = "date"
range = [2015-01-01, 2024-12-31]
missing = 0.5
"""


@pytest.fixture(autouse=True)
def dictionary(here: Path) -> Path:
    path = here / "dictionary.toml"
    path.write_text(DICTIONARY)
    return path


def test_a_dictionary_becomes_a_public_set(fedct: Fedct, here: Path) -> None:
    outcome = fedct("coordinator", "draw", "--from", "dictionary", "--rows", "500")
    assert outcome.code == 0
    assert "500 examples of 3 columns in public.csv" in outcome.out
    assert "dates = '%Y-%m-%d'" in outcome.out
    table = read_table(here / "public.csv", tables=TableSettings.model_validate({"dates": "%Y-%m-%d"}))
    assert table.num_rows == 500
    assert [pa.types.is_string(kind) for kind in table.schema.types] == [False, True, False]
    assert set(table.column("ward").to_pylist()) == {"east", "north"}


def test_a_dictionary_becomes_the_columns_of_a_study(fedct: Fedct, here: Path) -> None:
    outcome = fedct("coordinator", "draw", "--from", "dictionary", "--columns", "columns.toml")
    assert outcome.code == 0
    assert Dictionary.of_file(here / "columns.toml") == Dictionary.of_file(here / "dictionary.toml")
    assert fedct("coordinator", "draw", "--from", "dictionary", "--columns", "columns.toml", "--output", "b.csv").code
    assert not (here / "b.csv").exists()


def test_a_simulation_draws_too_and_its_sheet_has_both_costs(fedct: Fedct) -> None:
    settings = {"draw-epsilon": 0.3, "draw-rows": 200, "protection": "dp-linear", "epsilon": 0.7}
    given = [option for key, value in settings.items() for option in ("--set", f"{key}={value}")]
    run = ["--public", "drawn", "--in-process", "--rounds", "1", "--no-baselines", "--run-dir", "run"]
    assert fedct("simulate", "--learner", "naive-bayes", *run, *given).code == 0
    sheet = fedct("privacy-sheet", "run").out
    assert "noisy counts of the values in each column of all silos' records, at epsilon 0.3, delta 1e-05" in sheet
    spent = re.search(r"ledgers:\*\* epsilon 0\.(\d+) of 0\.3, and with all labels 0\.(\d+) at delta 1e-05", sheet)
    assert spent, sheet
    assert 0.29 < float(f"0.{spent[1]}") <= 0.3
    # Less than the sum, by composition.
    assert 0.7 < float(f"0.{spent[2]}") < 1.0
    assert "another study" not in sheet
    assert "**Not covered:** ranges and categories" in sheet
