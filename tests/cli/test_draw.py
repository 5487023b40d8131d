"""``fedct coordinator draw``: a public set from a data dictionary, which a study can use as it is."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.dictionary import Dictionary
from fedct_flwr.datasets.table_files import read_table
from tests.cli.runner import files_below
from tests.cli.silos import Fedct

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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--from", "nothing"], "cannot read the data dictionary nothing"),
        (["--from", "dictionary", "--output", "dictionary.toml"], "exists"),
        (["--from", "dictionary", "--epsilon", "1"], "give --from FILE, or --epsilon E and FOLDER"),
        (["nowhere", "--epsilon", "1"], "is no coordinator's folder"),
        (["nowhere", "--epsilon", "1", "--leave-out", "age"], "--leave-out has no effect with --epsilon"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(fedct: Fedct, here: Path, options: list[str], said: str) -> None:
    outcome = fedct("coordinator", "draw", *options)
    assert said in outcome.sentence
    assert files_below(here) == ["dictionary.toml"]


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
