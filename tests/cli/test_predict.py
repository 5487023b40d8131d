"""``fedct predict`` and ``fedct export``: a model on new records, far from the run."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest

from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.datasets.new_records import read_unlabeled
from fedct_flwr.datasets.schema import Column, Schema, quantiles
from fedct_flwr.learners import preprocessing
from fedct_flwr.learners.build import untrained
from fedct_flwr.models.loading import load_model
from fedct_flwr.models.model_file import ModelDescription, save_model
from fedct_flwr.types import DataError
from tests.cli.model_process import read_here
from tests.cli.silos import Fedct

SCHEMA = Schema(("well", "ill"), (Column("age"), Column("sex", ("f", "m"))))
RECORDS = 'patient,sex,age,note\n007,f,30,\n008,m,,NA\n009,x,70,"a, b"\n'


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    read_here(monkeypatch)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make(tmp_path / "global.skops", "decision-tree")


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "new.csv"
    path.write_text(RECORDS)
    return path


def make(path: Path, name: str, **params: Any) -> Path:
    rng = np.random.default_rng(0)
    X = np.c_[rng.integers(20, 80, 50), rng.integers(0, 2, 50)].astype(np.float64)
    y = (X[:, 0] > 50).astype(np.int16)
    transformer = preprocessing.standard(SCHEMA, X)
    learner = untrained(LearnerSettings(name=name, params=params), 0, SCHEMA.classes, X[:2], transformer).fit(X, y)
    columns = [(column.name, column.categories) for column in SCHEMA.columns]
    said: dict[str, Any] = {"study": "s", "classes": SCHEMA.classes, "columns": columns, "learner": name, "shape": (2,)}
    said["quantiles"] = quantiles(SCHEMA, X)
    save_model(path, learner, transformer, ModelDescription.read(said, "a test"))
    return path


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_a_column_in_another_spelling_is_named(fedct: Fedct, model: Path, records: Path) -> None:
    records.write_text(RECORDS.replace("age", "Age"))
    said = fedct("predict", records, "--model", model).sentence
    assert "missing 'age' (rename 'Age' to 'age')" in said
    assert "patient" not in said


def test_every_column_stays_as_it_is_and_classes_come_after_them(fedct: Fedct, model: Path, records: Path) -> None:
    outcome = fedct("predict", records, "--model", model)
    assert outcome.code == 0
    said, given = rows(outcome.out), rows(RECORDS)
    assert said[0] == [*given[0], "predicted", "probability well", "probability ill"]
    assert [row[:4] for row in said[1:]] == given[1:]
    assert [row[4:] for row in (said[1], said[3])] == [["well", "1", "0"], ["ill", "0", "1"]]


def test_columns_of_others_come_out_to_the_letter_in_json_and_from_excel_too(
    fedct: Fedct, model: Path, records: Path, tmp_path: Path
) -> None:
    document = json.loads(fedct("predict", records, "--model", model, "--json").out)
    assert [each["patient"] for each in document["records"]] == ["007", "008", "009"]
    assert [each["age"] for each in document["records"]] == [30, None, 70], "a column of the model holds numbers"
    assert document["records"][1]["note"] == "NA"
    book = openpyxl.Workbook()
    for row in rows(RECORDS):
        book.active.append([int(cell) if cell in ("30", "70") else cell for cell in row])
    book.save(tmp_path / "new.xlsx")
    outcome = fedct("predict", tmp_path / "new.xlsx", "--model", model)
    assert [row[:4] for row in rows(outcome.out)] == rows(RECORDS)


SOUND = np.random.default_rng(1).integers(20, 80, 60)


@pytest.mark.parametrize(
    ("ages", "code"),
    [
        (SOUND, ""),
        (SOUND[:1], ""),
        ([""] * 60, "column-missing:age"),
        ([""], ""),
        (SOUND * 12, "other-scale:age"),
        (SOUND / 12, "other-scale:age"),
        (np.where(np.arange(60) % 9 == 0, -999, SOUND), "missing-as-number:age"),
        (np.array([-999]), "far-number:age"),
        (SOUND[:3] * 12, "far-number:age"),
    ],
    ids=[
        "sound",
        "one",
        "empty",
        "one without",
        "months",
        "decades",
        "placeholders",
        "a placeholder",
        "three in months",
    ],
)
def test_numbers_apart_from_what_the_model_has_learned_from_are_said(
    fedct: Fedct, model: Path, tmp_path: Path, ages: Any, code: str
) -> None:
    (tmp_path / "new.csv").write_text("age,sex\n" + "".join(f"{age},f\n" for age in ages))
    outcome = fedct("predict", tmp_path / "new.csv", "--model", model)
    assert (outcome.code, len(rows(outcome.out))) == (0, len(ages) + 1)
    assert outcome.err.count("column 'age' in the new records") == outcome.err.count("\n") - 1 == bool(code)
    assert outcome.err.endswith("probabilities are ranks, not chances; 'fedct calibrate' makes chances of them\n")
    accepted = fedct("predict", tmp_path / "new.csv", "--model", model, *(["--accept", code] if code else []))
    assert accepted.err.count("\n") == 1


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize(
    ("cells", "code"), [(["no fever", "3"], ""), (["", " "], "column-missing"), (["38.5", ""], "number-as-text")]
)
def test_a_column_of_text_without_text_is_said(tmp_path: Path, cells: list[str], code: str, few: bool) -> None:
    (tmp_path / "new.csv").write_text("note,age\n" + "".join(f"{cell},30\n" for cell in cells * (5 if few else 30)))
    schema = Schema(("well", "ill"), (Column("note", text=True),))
    found = [each.name for each in read_unlabeled(schema, tmp_path / "new.csv").findings]
    assert found == ([f"{code}:note"] if code and not few else [])


def test_dates_of_new_records_are_said_as_dates(tmp_path: Path) -> None:
    (tmp_path / "data.toml").write_text('dates = "%Y-%m-%d"')
    days = [*(f"2020-01-{day}" for day in range(10, 30)), *["1970-01-01"] * 5]
    (tmp_path / "new.csv").write_text("age,sex\n" + "".join(f"{day},f\n" for day in days))
    (found,) = read_unlabeled(SCHEMA, tmp_path / "new.csv", learned={"age": range(18270, 18310)}).findings
    assert "has 1970-01-01 where a value seems to be missing" in found.message
    assert found.fix.endswith('or set missing = ["1970-01-01"] in data.toml')


def test_a_folder_of_images(fedct: Fedct, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "new").mkdir()
    for name in ("b.png", "a.png"):
        image.new("RGB", (9, 7)).save(tmp_path / "new" / name)
    X, y = np.zeros((4, 3, 8, 8), dtype=np.float32), np.array([0, 1, 0, 1], dtype=np.int16)
    settings = LearnerSettings(name="small-cnn", preprocessing="none", device="cpu")
    learner = untrained(settings, 0, SCHEMA.classes, X[:2], None, total_steps=1).fit(X, y)
    said = {"study": "s", "classes": SCHEMA.classes, "learner": "small-cnn", "shape": (3, 8, 8)}
    path = tmp_path / "global.safetensors"
    save_model(path, learner, None, ModelDescription.read({**said, "image-size": (8, 8)}, "a test"))
    outcome = fedct("predict", tmp_path / "new", "--model", path)
    assert outcome.code == 0
    assert [row[0] for row in rows(outcome.out)] == ["image", "a.png", "b.png"]
    assert "not used" not in outcome.err
    for name in ("c.webp", "d"):
        (tmp_path / "new" / name).write_bytes(b"")
    (tmp_path / "new" / "e").mkdir()
    (tmp_path / "new" / "b.png").rename(tmp_path / "new" / "e" / "b.png")
    fewer = fedct("predict", tmp_path / "new", "--model", path)
    assert [row[0] for row in rows(fewer.out)] == ["image", "a.png"]
    assert f"not used in {tmp_path / 'new'}: 'c.webp', 'd', 'e': put them right into the folder" in fewer.err
    assert "not used" not in fedct("predict", tmp_path / "new", "--model", path, "--accept", "unreadable").err
    assert rows(outcome.out)[0][1:] == ["predicted", "probability well", "probability ill"]
    scored = fedct("evaluate", tmp_path / "new", "--model", path)
    assert (scored.code, "labels are read from tables alone" in scored.sentence) == (DataError.exit_code, True)


@pytest.mark.parametrize(
    "content",
    ["cultivar,alcohol\n1,2\n", "age,sex\nold,f\n", "age,sex\n", "age,sex,predicted\n30,f,1\n", "age;sex\n30;f\n"],
)
def test_a_table_that_is_not_the_studys_is_one_sentence(
    fedct: Fedct, model: Path, tmp_path: Path, content: str
) -> None:
    (tmp_path / "other.csv").write_text(content)
    outcome = fedct("predict", tmp_path / "other.csv", "--model", model)
    assert (outcome.code, outcome.out) == (DataError.exit_code, "")
    assert outcome.sentence


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_export_writes_what_predicts_the_same(fedct: Fedct, model: Path, records: Path, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    outcome = fedct("export", "--model", model, "--output", tmp_path / "m.onnx")
    assert (outcome.code, outcome.out) == (0, "")
    X = read_unlabeled(SCHEMA, records).X
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    assert session.run(["label"], {"features": X})[0].tolist() == load_model(model).predict(X).tolist()
    assert "exists" in fedct("export", "--model", model, "--output", tmp_path / "m.onnx").sentence
