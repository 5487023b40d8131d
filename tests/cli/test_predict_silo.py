"""``fedct predict`` and ``fedct export`` with what a run folder holds: the models of simulated silos."""

import csv
import io
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedct_flwr import simulate
from fedct_flwr.simulation.run import Run
from fedct_flwr.types import ConfigError, DataError, RunError
from tests.cli.model_process import read_here
from tests.cli.silos import Fedct


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    read_here(monkeypatch)


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
def records(tmp_path: Path) -> Path:
    path = tmp_path / "new.csv"
    patients(25, 77).drop(columns="label").assign(note="a").to_csv(path, index=False)
    return path


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_silos_model_reads_records_without_the_runs_data(fedct: Fedct, tmp_path: Path, records: Path) -> None:
    run = run_of(tmp_path / "run")
    frame = pd.read_csv(records)
    wanted = run.models["bonn"].predict(frame[["age", "sex"]]).tolist()
    chances = run.models["bonn"].predict_proba(frame[["age", "sex"]])[:, 1]
    folder = shutil.move(tmp_path / "run", tmp_path / "elsewhere")
    for how in (
        (folder, records, "--silo", "bonn"),
        (records, "--model", folder, "--silo", "bonn"),
        (records, "--model", folder / "models" / "bonn.skops"),
    ):
        outcome = fedct("predict", *how)
        assert outcome.code == 0, outcome
        assert [row["predicted"] for row in rows(outcome.out)] == wanted
    np.testing.assert_allclose([float(row["probability well"]) for row in rows(outcome.out)], chances, rtol=1e-5)
    assert rows(outcome.out)[0]["note"] == "a"


def test_what_is_not_there_is_said(fedct: Fedct, tmp_path: Path, records: Path) -> None:
    run = run_of(tmp_path / "run")
    model = run.path / "models" / "bonn.skops"
    for arguments, error, said in (
        ((run.path, records), DataError, "--silo"),
        ((run.path, records, "--silo", "bon"), ConfigError, "'bonn'"),
        ((tmp_path, records, "--silo", "bonn"), RunError, ""),
        ((tmp_path / "no", records), ConfigError, ""),
        ((records,), ConfigError, ""),
        ((run.path, records, "--model", run.path), ConfigError, ""),
        ((run.path, records, records), ConfigError, ""),
        ((records, "--model", model, "--silo", "bonn"), ConfigError, ""),
    ):
        outcome = fedct("predict", *arguments)
        assert (outcome.code, said in outcome.sentence) == (error.exit_code, True), arguments
    unkept = run_of(tmp_path / "unkept", save_models=False)
    outcome = fedct("predict", unkept.path, records, "--silo", "bonn")
    assert outcome.code == DataError.exit_code
    assert "learner 'decision-tree', " in outcome.sentence
    assert "save-models" in outcome.sentence
