"""``fedct coordinator draw``: a public set from a data dictionary, which a study can use as it is."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from fedct_flwr.config.tables import TableSettings
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


def test_the_seed_decides(fedct: Fedct, here: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        fedct("coordinator", "draw", "--from", "dictionary", "--seed", str(seed), "--output", f"{name}.csv")
    texts = [(here / f"{name}.csv").read_text() for name in "abc"]
    assert texts[0] == texts[1] != texts[2]


def test_what_is_left_out_is_said(fedct: Fedct, here: Path) -> None:
    kinds = {"remark": "string", "ill": "boolean", "x": "boolean"}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    (here / "schema.json").write_text(json.dumps({"fields": fields}))
    outcome = fedct("coordinator", "draw", "--from", "schema.json", "--leave-out", "ill")
    assert "left out, as free text, files, calculated or identifiers: 'remark'" in outcome.out
    assert (here / "public.csv").read_text().startswith('"x"\n')


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--from", "nothing"], "cannot read the data dictionary nothing"),
        (["--from", "dictionary", "--output", "dictionary.toml"], "exists"),
        (["--from", "dictionary", "--leave-out", "agee"], "did you mean 'age'?"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(fedct: Fedct, here: Path, options: list[str], said: str) -> None:
    outcome = fedct("coordinator", "draw", *options)
    assert said in outcome.sentence
    assert files_below(here) == ["dictionary.toml"]
