"""``fedct predict``, ``silo predict``, ``export``, ``evaluate`` and ``calibrate``: a model far from the run."""

import csv
import io
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest

from fedct_flwr import simulate
from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.datasets.new_records import read_unlabeled
from fedct_flwr.datasets.schema import Column, Schema, quantiles
from fedct_flwr.learners import Saveable, preprocessing
from fedct_flwr.learners.build import untrained
from fedct_flwr.models.loading import load_model
from fedct_flwr.models.model_file import ModelDescription, save_model
from fedct_flwr.silo.own import model_of, real_site
from fedct_flwr.simulation.run import Run
from fedct_flwr.types import ConfigError, DataError, RunError
from tests.cli.documents import check
from tests.cli.model_process import read_here
from tests.cli.silos import Fedct, Kit

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
    head, *said = rows(fedct("predict", tmp_path / "new.xlsx", "--model", model).out)
    assert head[4:] == ["predicted", "probability well", "probability ill"]
    assert [row[:4] for row in (head, *said)] == rows(RECORDS)
    assert [row[4:] for row in (said[0], said[2])] == [["well", "1", "0"], ["ill", "0", "1"]]


SOUND = np.random.default_rng(1).integers(20, 80, 60)


AGES: dict[str, tuple[Any, str]] = {
    "sound": (SOUND, ""),
    "one": (SOUND[:1], ""),
    "empty": ([""] * 60, "column-missing:age"),
    "one without": ([""], ""),
    "months": (SOUND * 12, "other-scale:age"),
    "decades": (SOUND / 12, "other-scale:age"),
    "placeholders": (np.where(np.arange(60) % 9 == 0, -999, SOUND), "missing-as-number:age"),
    "a placeholder": (np.array([-999]), "far-number:age"),
    "three in months": (SOUND[:3] * 12, "far-number:age"),
}


@pytest.mark.parametrize(("ages", "code"), AGES.values(), ids=AGES)
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
    assert found.fix.endswith('or set missing.age = ["1970-01-01"] in data.toml')


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


# --- with what a run folder holds


def patients(n: int, seed: int, classes: Sequence[Any] = ("well", "ill")) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age, sex = rng.normal(60, 15, n), rng.choice(["f", "m"], n)
    place = np.digitize(age + 10 * (sex == "m") + rng.normal(0, 5, n), np.linspace(50, 80, len(classes) + 1)[1:-1])
    return pd.DataFrame({"age": age, "sex": sex, "label": np.array(classes)[place]})


def run_of(path: Path, classes: Sequence[Any] = ("well", "ill"), **settings: Any) -> Run:
    silos = {name: patients(80, seed, classes) for seed, name in enumerate(("essen", "bonn"))}
    settings = {"learner": "decision-tree", "rounds": 2, **settings}
    return simulate(
        silos, patients(60, 9).drop(columns="label"), label="label", run_dir=path, progress=False, **settings
    )


@pytest.fixture
def more(tmp_path: Path) -> Path:
    path = tmp_path / "more.csv"
    patients(25, 77).drop(columns="label").assign(note="a").to_csv(path, index=False)
    return path


def test_a_silos_model_reads_records_without_the_runs_data(fedct: Fedct, tmp_path: Path, more: Path) -> None:
    run = run_of(tmp_path / "run")
    frame = pd.read_csv(more)
    wanted = run.models["bonn"].predict(frame[["age", "sex"]]).tolist()
    chances = run.models["bonn"].predict_proba(frame[["age", "sex"]])[:, 1]
    folder = shutil.move(tmp_path / "run", tmp_path / "elsewhere")
    for how in (
        (folder, more, "--silo", "bonn"),
        (more, "--model", folder, "--silo", "bonn"),
        (more, "--model", folder / "models" / "bonn.skops"),
    ):
        outcome = fedct("predict", *how)
        assert outcome.code == 0, outcome
        table = pd.read_csv(io.StringIO(outcome.out))
        assert table["predicted"].tolist() == wanted
    np.testing.assert_allclose(table["probability well"], chances, rtol=1e-5)
    assert table["note"][0] == "a"


def test_what_is_not_there_is_said(fedct: Fedct, tmp_path: Path, more: Path) -> None:
    run = run_of(tmp_path / "run")
    model = run.path / "models" / "bonn.skops"
    for arguments, error, said in (
        ((run.path, more), DataError, "--silo"),
        ((run.path, more, "--silo", "bon"), ConfigError, "'bonn'"),
        ((tmp_path, more, "--silo", "bonn"), RunError, ""),
        ((tmp_path / "no", more), ConfigError, ""),
        ((more,), ConfigError, ""),
        ((run.path, more, "--model", run.path), ConfigError, ""),
        ((run.path, more, more), ConfigError, ""),
        ((more, "--model", model, "--silo", "bonn"), ConfigError, ""),
    ):
        outcome = fedct("predict", *arguments)
        assert (outcome.code, said in outcome.sentence) == (error.exit_code, True), arguments
    unkept = run_of(tmp_path / "unkept", save_models=False)
    outcome = fedct("predict", unkept.path, more, "--silo", "bonn")
    assert outcome.code == DataError.exit_code
    assert "learner 'decision-tree', " in outcome.sentence
    assert "save-models" in outcome.sentence


# --- a silo's own model


@pytest.mark.parametrize("with_label", [True, False])
def test_records_are_numbered_and_given_a_class(fedct: Fedct, kit: Kit, tmp_path: Path, with_label: bool) -> None:
    site = real_site(kit.config, kit.study)
    path = model_of(kit.config, site)
    assert path is not None
    assert isinstance(site.learner, Saveable)
    site.learner.fit(*site.private).save(path)
    labels = site.learner.load(path).predict(kit.study.test.X)
    with (kit.folder / "study" / "test.csv").open(newline="") as file:
        rows = [row if with_label else row[:-1] for row in csv.reader(file)]
    with (tmp_path / "new.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    outcome = fedct("silo", "predict", tmp_path / "new.csv", kit.folder)
    assert (outcome.code, outcome.err.count("\n")) == (0, 1)
    assert "ranks, not chances" in outcome.err
    said = list(csv.reader(outcome.out.splitlines()))
    classes = (kit.study.schema.classes[label] for label in labels)
    assert said[0][:2] == ["record", "class"]
    assert [row[:2] for row in said[1:]] == [[str(number), name] for number, name in enumerate(classes, start=1)]
    assert all(float(row[2]) + float(row[3]) == pytest.approx(1, abs=1e-5) for row in said[1:])
    # In the silo's own form, as its records are.
    own = pd.read_csv(tmp_path / "new.csv").astype(str)
    own.loc[0, "age"] = "?"
    own.to_csv(tmp_path / "own.csv", index=False)
    advised = 'missing.age = ["?"]'
    assert f"set {advised} in silo.toml" in fedct("silo", "predict", tmp_path / "own.csv", kit.folder).sentence
    with (kit.folder / "silo.toml").open("a") as file:
        file.write(f"\n[data.tables]\n{advised}\n")
    outcome = fedct("silo", "predict", tmp_path / "own.csv", kit.folder)
    assert (outcome.code, outcome.out.count("\n")) == (0, len(said))
    months = pd.read_csv(tmp_path / "new.csv").assign(age=lambda table: 12 * table.age)
    months.to_csv(tmp_path / "months.csv", index=False)
    outcome = fedct("silo", "predict", tmp_path / "months.csv", kit.folder)
    assert outcome.code == 0
    assert "column 'age' in the new records lies apart from what the model has learned from" in outcome.err


# --- ``fedct evaluate`` and ``fedct calibrate``: a model on labeled records of one's own


@pytest.fixture(params=["logistic-regression", "mlp"])
def ranking(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    suffix = ".safetensors" if request.param == "mlp" else ".skops"
    return make(tmp_path / f"global{suffix}", request.param)


def of_ages(n: int = 200, **columns: Any) -> pd.DataFrame:
    """Ages of which few are ill, whom the model ranks well and takes to be half of all."""
    rng = np.random.default_rng(1)
    age = rng.integers(20, 80, n)
    ill = rng.random(n) < 1 / (1 + np.exp(-(age - 75) / 6))
    sex, ward = rng.choice(["f", "m"], n), np.where(np.arange(n) < 5, "a", "b")
    label = np.where(ill, "ill", "well")
    return pd.DataFrame({"age": age, "sex": sex, "label": label, "ward": ward, **columns})


def test_a_calibrated_model_decides_as_before_and_states_what_is_observed(
    fedct: Fedct, ranking: Path, tmp_path: Path
) -> None:
    table, new = tmp_path / "own.csv", tmp_path / f"new{ranking.suffix}"
    of_ages().to_csv(table, index=False)
    outcome = fedct("calibrate", table, "--model", ranking, "--output", new)
    assert (outcome.code, outcome.out.count("recalibrated on 200 records")) == (0, 1)
    before, after = (json.loads(fedct("predict", table, "--model", m, "--json").out) for m in (ranking, new))
    assert (before["chances"], after["chances"]) == ("ranks, not chances", "recalibrated on 200 records")
    assert [r["predicted"] for r in before["records"]] == [r["predicted"] for r in after["records"]]
    stated = [np.array([r["probability ill"] for r in each["records"]]) for each in (before, after)]
    assert (np.diff(stated[1][np.argsort(stated[0])]) > -1e-9).all()
    observed = (of_ages().label == "ill").mean()
    assert abs(stated[1].mean() - observed) < 0.01 < abs(stated[0].mean() - observed)
    # Calibrated anew, a model is the same: what it ranks, not what it stated, is taken.
    again = tmp_path / f"again{ranking.suffix}"
    said = fedct("calibrate", table, "--model", new, "--output", again)
    brier = json.loads(fedct("evaluate", table, "--model", new, "--json").out)["groups"][0]["metrics"]["brier"]["value"]
    assert f"the Brier score was {brier:.3f} and is {brier:.3f}" in said.out
    stated_again = json.loads(fedct("predict", table, "--model", again, "--json").out)["records"]
    assert stated_again == after["records"]


def test_scores_by_group_and_gaps(fedct: Fedct, ranking: Path, tmp_path: Path) -> None:
    table = tmp_path / "own.csv"
    of_ages().to_csv(table, index=False)
    document = json.loads(fedct("evaluate", table, "--model", ranking, "--by", "sex", "--json").out)
    check(document, "Evaluation")
    groups = document["groups"]
    assert ([g["group"] for g in groups], sum(g["n"] for g in groups[1:])) == (["", "f", "m"], 200)
    assert groups[0]["metrics"]["intercept"]["high"] < 0
    assert groups[1]["gaps"]["auc"]["value"] == pytest.approx(-groups[2]["gaps"]["auc"]["value"])
    said = fedct("evaluate", table, "--model", ranking, "--by", "ward")
    assert "groups with fewer than 10 records of the rarer class are together in 'others': 'a'" in said.out
    assert "ranks, not chances" in said.out
    of_ages(sex=np.where(of_ages().label == "ill", "f", of_ages().sex)).to_csv(table, index=False)
    said = fedct("evaluate", table, "--model", ranking, "--by", "sex")
    assert "'others' has no record of 'ill': balanced accuracy and AUC are not compared" in said.out


@pytest.mark.parametrize(
    ("codes", "ending", "names"),
    [(["01", "1"], "csv", ["01", "1"]), (["01", "1"], "xlsx", ["01", "1"]), ([1.0, 2.0], "parquet", ["1", "2"])],
)
def test_groups_are_names_and_no_numbers(
    fedct: Fedct, tmp_path: Path, codes: list[Any], ending: str, names: list[str]
) -> None:
    table = of_ages(code=np.where(np.arange(200) % 2, *codes))
    write = {"csv": table.to_csv, "xlsx": table.to_excel, "parquet": table.to_parquet}[ending]
    write(tmp_path / f"own.{ending}", index=False)
    made = make(tmp_path / "m.skops", "logistic-regression")
    document = json.loads(fedct("evaluate", tmp_path / f"own.{ending}", "--model", made, "--by", "code", "--json").out)
    assert [(group["group"], group["n"]) for group in document["groups"]][1:] == [(name, 100) for name in names]


WRONG: dict[str, tuple[dict[str, Any], tuple[str, ...], type[Exception]]] = {
    "one class": ({"label": "ill"}, (), DataError),
    "no class": ({"label": "sick"}, (), DataError),
    "reversed": ({"label": np.where(of_ages().label == "ill", "well", "ill")}, (), DataError),
    "no such column": ({}, ("--label", "outcome"), DataError),
    "another kind": ({}, ("--output", "other.onnx"), ConfigError),
}


@pytest.mark.parametrize(("changed", "more", "code"), WRONG.values(), ids=WRONG)
def test_what_cannot_calibrate_is_one_sentence(
    fedct: Fedct, ranking: Path, tmp_path: Path, changed: dict[str, Any], more: tuple[str, ...], code: Any
) -> None:
    table = tmp_path / "own.csv"
    of_ages(**changed).to_csv(table, index=False)
    outcome = fedct("calibrate", table, "--model", ranking, "--output", tmp_path / f"new{ranking.suffix}", *more)
    assert (outcome.code, bool(outcome.sentence)) == (code.exit_code, True)
    assert not list(tmp_path.glob("new*"))
    assert fedct("evaluate", table, "--model", ranking, "--by", "wards").code == DataError.exit_code


def test_a_group_with_the_name_of_all_small_ones_is_refused(fedct: Fedct, ranking: Path, tmp_path: Path) -> None:
    table = tmp_path / "own.csv"
    of_ages(ward=["a"] * 5 + ["others"] * 195).to_csv(table, index=False)
    said = fedct("evaluate", table, "--model", ranking, "--by", "ward").sentence
    assert "a group is called 'others', as all small groups together are: rename it" in said


@pytest.mark.parametrize(
    ("label", "classes"), [("outcome", ("ill", "well")), ("label", ("01", "1.10"))], ids=["of the run", "as written"]
)
def test_labels_are_read_by_the_runs_column_as_they_are_written(
    fedct: Fedct, tmp_path: Path, label: str, classes: tuple[str, str]
) -> None:
    table = of_ages().rename(columns={"label": label})
    table[label] = table[label].map(dict(zip(("ill", "well"), classes, strict=True)))
    silos, public = {"a": table[:100], "b": table[100:]}, table.drop(columns=label)
    options: dict[str, Any] = {"learner": "naive-bayes", "rounds": 1, "progress": False, "inspect": False}
    simulate(silos, public, label=label, run_dir=tmp_path / "run", save_models=True, **options)
    table.to_csv(tmp_path / "own.csv", index=False)
    said = fedct("evaluate", tmp_path / "run", tmp_path / "own.csv", "--silo", "a", "--json")
    assert json.loads(said.out)["groups"][0]["n"] == 200


@pytest.mark.parametrize(
    "chances",
    [
        {"slope": -1, "intercepts": [0, 1], "records": 9},
        {"slope": 1, "intercepts": [0, 1, 2], "records": 9},
        {"slope": 1, "intercepts": [0, "NaN"], "records": 9},
        "chances",
    ],
)
def test_a_forged_description_is_refused(ranking: Path, chances: object) -> None:
    said = load_model(ranking).description.model_dump(by_alias=True)
    with pytest.raises(ConfigError, match="chances"):
        ModelDescription.read({**said, "chances": chances}, "a test")
