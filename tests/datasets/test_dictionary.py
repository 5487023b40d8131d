"""Data dictionaries: three formats lead to the same columns, and each mistake is one sentence."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedct_flwr.datasets.dictionary import MOST_COLUMNS, Dictionary
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.types import ConfigError

TOML = """
[columns.age]
kind = "integer"
range = [18, 100]
unit = "years"

[columns.sex]
kind = "category"
categories = [0, 1]

[columns.admitted]
kind = "date"
range = [2015-01-01, 2024-12-31]
"""
SCHEMA = {
    "fields": [
        {"name": "age", "type": "integer", "constraints": {"minimum": 18, "maximum": 100}},
        {"name": "sex", "type": "string", "constraints": {"enum": ["0", "1"]}},
        {"name": "admitted", "type": "date", "constraints": {"minimum": "2015-01-01", "maximum": "2024-12-31"}},
        {"name": "remark", "type": "string"},
    ]
}
REDCAP = (
    '"Variable / Field Name","Form Name","Section Header","Field Type","Field Label",'
    '"Choices, Calculations, OR Slider Labels","Field Note","Text Validation Type OR Show Slider Number",'
    '"Text Validation Min","Text Validation Max","Identifier?"\n'
    "age,f,,text,Age,,,integer,18,100,\n"
    'sex,f,,radio,Sex,"0, Female | 1, Male",,,,,\n'
    "admitted,f,,text,Admitted,,,date_ymd,2015-01-01,2024-12-31,\n"
    "remark,f,,notes,Remark,,,,,,\n"
)


def written(folder: Path, ending: str, text: str) -> Path:
    path = folder / f"dictionary{ending}"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("ending", "text"), [(".toml", TOML), (".json", json.dumps(SCHEMA)), (".csv", REDCAP)], ids=["toml", "json", "csv"]
)
def test_three_formats_say_the_same(tmp_path: Path, ending: str, text: str) -> None:
    found = Dictionary.of_file(written(tmp_path, ending, text))
    assert list(found.columns) == ["age", "sex", "admitted"]
    assert found.columns["age"].range == (18, 100)
    assert found.columns["sex"].categories == ("0", "1")
    # Days since 1970.
    assert found.columns["admitted"].range == (16436, 20088)
    assert found.left_out == (() if ending == ".toml" else ("remark",))


def test_redcap_has_more_kinds(tmp_path: Path) -> None:
    head = REDCAP.partition("\n")[0]
    rows = [
        "id,f,,text,Id,,,integer,1,9,y",
        'smokes,f,,checkbox,Smokes,"1, Cigarettes | B, Pipe | -9, Unknown",,,,,',
        "ill,f,,yesno,Ill,,,,,,",
        "pain,f,,slider,Pain,,,number,,,",
        "bmi,f,,calc,BMI,[weight],,,,,",
    ]
    found = Dictionary.of_file(written(tmp_path, ".csv", "\n".join([head, *rows])))
    assert list(found.columns) == ["smokes___1", "smokes___b", "smokes____9", "ill", "pain"]
    assert found.columns["pain"].range == (0, 100)
    assert found.left_out == ("id", "bmi")


def test_a_study_with_another_dictionary_is_another_study(tmp_path: Path) -> None:
    (tmp_path / "public.csv").write_text("age,sex,admitted\n40,0,17000\n")
    digests = []
    for dictionary in ("", TOML, TOML.replace("100", "99")):
        (tmp_path / "study.toml").write_text(f'study = "s"\nclasses = ["a", "b"]\n{dictionary}')
        digests.append(read_study(tmp_path).digest)
    assert len(set(digests)) == 3


def test_an_example_shows_every_category_and_both_ends() -> None:
    columns: dict[str, Any] = {
        "ward": {"kind": "category", "categories": ["a", "b", "c"]},
        "code": {"kind": "category", "categories": ["10", "2"]},
        "crp": {"kind": "number", "range": [0, 500]},
    }
    table = Dictionary.read({"columns": columns}, "here").example()
    assert set(table.column("ward").to_pylist()) == {"a", "b", "c"}
    assert pa.types.is_floating(table.column("code").type)
    assert np.allclose(np.quantile(table.column("crp"), [0, 0.5, 1]), [0, 250, 500])


NUMBER: dict[str, Any] = {"kind": "number", "range": [0, 1]}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no range": ({"kind": "integer"}, "kind 'integer' needs a range"),
    "one value": ({"kind": "number", "range": [5, 5]}, "the smaller value first"),
    "no categories": ({"kind": "category"}, "needs categories"),
    "a range of a category": ({"kind": "category", "categories": ["a"], "range": [0, 1]}, "neither a range"),
    "categories of a number": ({**NUMBER, "categories": ["a"]}, "only a category has categories"),
    "twice": ({"kind": "category", "categories": ["a", "a"]}, "repeat"),
    "a rule for no column": ({**NUMBER, "at-most": "y"}, "name another column"),
    "another key": ({**NUMBER, "ranges": [0, 1]}, "did you mean 'range'"),
    "half a year": ({"kind": "integer", "range": [0, 0.5]}, "whole numbers"),
    "beyond all floats": ({"kind": "number", "range": [0, 1e308]}, "less than or equal"),
    "more than all missing": ({**NUMBER, "missing": 2}, "missing"),
}


@pytest.mark.parametrize("mistake", list(WRONG))
def test_a_mistake_in_a_column_is_one_sentence(mistake: str) -> None:
    form, said = WRONG[mistake]
    with pytest.raises(ConfigError, match=said) as caught:
        Dictionary.read({"columns": {"x": form}}, "here")
    assert "\n" not in str(caught.value)


def test_wide_tables_are_refused() -> None:
    columns = {f"gene{number}": NUMBER for number in range(MOST_COLUMNS + 300)}
    with pytest.raises(ConfigError, match=r"500 columns.*not of images, free text or omics"):
        Dictionary.read({"columns": columns}, "here")


@pytest.mark.parametrize(
    ("ending", "text", "said"),
    [
        (".json", "{", "is not JSON"),
        (".json", '{"fields": 3}', "neither a Table Schema"),
        (".csv", "a,b\n1,2\n", "neither a Table Schema"),
        (".json", '{"fields": [{"name": "age", "type": "integer"}]}', "gives no range of 'age'"),
        (".toml", "[columns", "is not TOML"),
    ],
)
def test_a_file_of_something_else_is_one_sentence(tmp_path: Path, ending: str, text: str, said: str) -> None:
    path = written(tmp_path, ending, text)
    with pytest.raises(ConfigError, match=said):
        Dictionary.of_file(path)


def test_leaving_out_names_a_column() -> None:
    found = Dictionary.read({"columns": {"x": NUMBER, "y": NUMBER}}, "here")
    assert list(found.without(["y"]).columns) == ["x"]
    with pytest.raises(ConfigError, match="no column 'z'"):
        found.without(["z"])
