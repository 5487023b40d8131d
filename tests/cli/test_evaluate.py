"""``fedct evaluate`` and ``fedct calibrate``: a model on labeled records of one's own."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedct_flwr.models.loading import load_model
from fedct_flwr.models.model_file import ModelDescription
from fedct_flwr.simulation.simulate import simulate
from fedct_flwr.types import ConfigError, DataError
from tests.cli.documents import check
from tests.cli.model_process import read_here
from tests.cli.silos import Fedct
from tests.cli.test_predict import make


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    read_here(monkeypatch)


@pytest.fixture(params=["logistic-regression", "mlp"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    suffix = ".safetensors" if request.param == "mlp" else ".skops"
    return make(tmp_path / f"global{suffix}", request.param)


def patients(n: int = 200, **columns: Any) -> pd.DataFrame:
    """Ages of which few are ill, whom the model ranks well and takes to be half of all."""
    rng = np.random.default_rng(1)
    age = rng.integers(20, 80, n)
    ill = rng.random(n) < 1 / (1 + np.exp(-(age - 75) / 6))
    sex, ward = rng.choice(["f", "m"], n), np.where(np.arange(n) < 5, "a", "b")
    label = np.where(ill, "ill", "well")
    return pd.DataFrame({"age": age, "sex": sex, "label": label, "ward": ward, **columns})


def test_a_calibrated_model_decides_as_before_and_states_what_is_observed(
    fedct: Fedct, model: Path, tmp_path: Path
) -> None:
    table, new = tmp_path / "own.csv", tmp_path / f"new{model.suffix}"
    patients().to_csv(table, index=False)
    outcome = fedct("calibrate", table, "--model", model, "--output", new)
    assert (outcome.code, outcome.out.count("recalibrated on 200 records")) == (0, 1)
    before, after = (json.loads(fedct("predict", table, "--model", m, "--json").out) for m in (model, new))
    assert (before["chances"], after["chances"]) == ("ranks, not chances", "recalibrated on 200 records")
    assert [r["predicted"] for r in before["records"]] == [r["predicted"] for r in after["records"]]
    stated = [np.array([r["probability ill"] for r in each["records"]]) for each in (before, after)]
    assert (np.diff(stated[1][np.argsort(stated[0])]) > -1e-9).all()
    observed = (patients().label == "ill").mean()
    assert abs(stated[1].mean() - observed) < 0.01 < abs(stated[0].mean() - observed)
    # Calibrated anew, a model is the same: what it ranks, not what it stated, is taken.
    again = tmp_path / f"again{model.suffix}"
    said = fedct("calibrate", table, "--model", new, "--output", again)
    brier = json.loads(fedct("evaluate", table, "--model", new, "--json").out)["groups"][0]["metrics"]["brier"]["value"]
    assert f"the Brier score was {brier:.3f} and is {brier:.3f}" in said.out
    stated_again = json.loads(fedct("predict", table, "--model", again, "--json").out)["records"]
    assert stated_again == after["records"]


def test_scores_by_group_and_gaps(fedct: Fedct, model: Path, tmp_path: Path) -> None:
    table = tmp_path / "own.csv"
    patients().to_csv(table, index=False)
    document = json.loads(fedct("evaluate", table, "--model", model, "--by", "sex", "--json").out)
    check(document, "Evaluation")
    groups = document["groups"]
    assert ([g["group"] for g in groups], sum(g["n"] for g in groups[1:])) == (["", "f", "m"], 200)
    assert groups[0]["metrics"]["intercept"]["high"] < 0
    assert groups[1]["gaps"]["auc"]["value"] == pytest.approx(-groups[2]["gaps"]["auc"]["value"])
    said = fedct("evaluate", table, "--model", model, "--by", "ward")
    assert "groups with fewer than 10 records of the rarer class are together in 'others': 'a'" in said.out
    assert "ranks, not chances" in said.out
    patients(sex=np.where(patients().label == "ill", "f", patients().sex)).to_csv(table, index=False)
    said = fedct("evaluate", table, "--model", model, "--by", "sex")
    assert "'others' has no record of 'ill': balanced accuracy and AUC are not compared" in said.out


@pytest.mark.parametrize(
    ("codes", "ending", "names"),
    [(["01", "1"], "csv", ["01", "1"]), (["01", "1"], "xlsx", ["01", "1"]), ([1.0, 2.0], "parquet", ["1", "2"])],
)
def test_groups_are_names_and_no_numbers(
    fedct: Fedct, tmp_path: Path, codes: list[Any], ending: str, names: list[str]
) -> None:
    table = patients(code=np.where(np.arange(200) % 2, *codes))
    write = {"csv": table.to_csv, "xlsx": table.to_excel, "parquet": table.to_parquet}[ending]
    write(tmp_path / f"own.{ending}", index=False)
    model = make(tmp_path / "m.skops", "logistic-regression")
    document = json.loads(fedct("evaluate", tmp_path / f"own.{ending}", "--model", model, "--by", "code", "--json").out)
    assert [(group["group"], group["n"]) for group in document["groups"]][1:] == [(name, 100) for name in names]


WRONG: dict[str, tuple[dict[str, Any], tuple[str, ...], type[Exception]]] = {
    "one class": ({"label": "ill"}, (), DataError),
    "no class": ({"label": "sick"}, (), DataError),
    "reversed": ({"label": np.where(patients().label == "ill", "well", "ill")}, (), DataError),
    "no such column": ({}, ("--label", "outcome"), DataError),
    "another kind": ({}, ("--output", "other.onnx"), ConfigError),
}


@pytest.mark.parametrize(("changed", "more", "code"), WRONG.values(), ids=WRONG)
def test_what_cannot_calibrate_is_one_sentence(
    fedct: Fedct, model: Path, tmp_path: Path, changed: dict[str, Any], more: tuple[str, ...], code: Any
) -> None:
    table = tmp_path / "own.csv"
    patients(**changed).to_csv(table, index=False)
    outcome = fedct("calibrate", table, "--model", model, "--output", tmp_path / f"new{model.suffix}", *more)
    assert (outcome.code, bool(outcome.sentence)) == (code.exit_code, True)
    assert not list(tmp_path.glob("new*"))
    assert fedct("evaluate", table, "--model", model, "--by", "wards").code == DataError.exit_code


def test_a_group_with_the_name_of_all_small_ones_is_refused(fedct: Fedct, model: Path, tmp_path: Path) -> None:
    table = tmp_path / "own.csv"
    patients(ward=["a"] * 5 + ["others"] * 195).to_csv(table, index=False)
    said = fedct("evaluate", table, "--model", model, "--by", "ward").sentence
    assert "a group is called 'others', as all small groups together are: rename it" in said


def test_the_label_column_is_that_of_the_run(fedct: Fedct, tmp_path: Path) -> None:
    table = patients().rename(columns={"label": "outcome"})
    silos, public = {"a": table[:100], "b": table[100:]}, table.drop(columns="outcome")
    options: dict[str, Any] = {"learner": "naive-bayes", "rounds": 1, "progress": False, "inspect": False}
    simulate(silos, public, label="outcome", run_dir=tmp_path / "run", save_models=True, **options)
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
def test_a_forged_description_is_refused(model: Path, chances: object) -> None:
    said = load_model(model).description.model_dump(by_alias=True)
    with pytest.raises(ConfigError, match="chances"):
        ModelDescription.read({**said, "chances": chances}, "a test")
