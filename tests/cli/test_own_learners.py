"""Boosting libraries by import path on the command line: a run, its table, its models, predictions, and ONNX."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.boosting import PARAMS
from tests.cli.model_process import read_here
from tests.cli.silos import Fedct
from tests.messy.patients import LABEL, NUMBERS, SILOS, patients

RUN = ("simulate", "--data-dir", "wards", "--label", LABEL, "--in-process", "--no-watch", "--rounds", "1")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def _records(path: Path) -> None:
    """New records without labels, and without a number halfway between two others.

    At such a one a tree in 32 bits, as ONNX has them, may turn the other way.
    """
    found = patients(9, 30).tables["essen"]
    del found[LABEL]
    for name in NUMBERS:
        found[name] = [f"{float(cell) + 0.0137:.4f}" for cell in found[name]]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(found)
        writer.writerows(zip(*found.values(), strict=True))


def _simulated(fedct: Fedct, learner: str, *options: str) -> dict[str, object]:
    patients(1, 80, 80).write(Path("wards"))
    params = json.dumps(PARAMS[learner])
    of_learner = ("--learner", learner, "--learner-params", params)
    outcome = fedct(*RUN, *of_learner, *options, "--run-dir", "run", "--json")
    assert outcome.code == 0, outcome
    document: dict[str, object] = json.loads(outcome.out)
    return document


@pytest.mark.parametrize("learner", PARAMS)
def test_from_a_run_to_predictions_and_onnx(
    fedct: Fedct, here: Path, learner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = learner.partition(".")[0]
    # Only the project's own tests install LightGBM and CatBoost.
    pytest.importorskip(package, reason=f"{package} is in the extra 'dev' alone: pip install '.[dev]'")
    student = ("--set", f"student={learner}", "--set", f"student-params={json.dumps(PARAMS[learner])}")
    document = _simulated(fedct, learner, *student)
    for row in document["silos"]:  # type: ignore[attr-defined]
        assert {"local", "centralized", "federated"} <= row["pooled"].keys()
    assert {path.stem for path in (here / "run" / "models").glob("*.skops")} == {*SILOS, "global"}
    _records(here / "new.csv")
    packages = ("--package", package)
    for silo in ((), ("--silo", "essen")):
        outcome = fedct("predict", "run", "new.csv", *silo, *packages)
        assert outcome.code == 0, outcome
        # Once in a process of its own, which has to import the package; to start one for each takes seconds.
        read_here(monkeypatch)
        rows = [*csv.DictReader(outcome.out.splitlines())]
        chances = np.array([float(row["probability yes"]) for row in rows])
        assert [row["predicted"] for row in rows] == ["yes" if chance > 0.5 else "no" for chance in chances]
        assert len({*chances}) > 5
        exported = fedct("export", "run", *silo, *packages, "--output", f"{len(silo)}.onnx")
        assert exported.code == 0, exported
        onnxruntime = pytest.importorskip("onnxruntime")
        session = onnxruntime.InferenceSession((here / f"{len(silo)}.onnx").read_bytes())
        columns = json.loads(session.get_modelmeta().custom_metadata_map["fedct"])["columns"]
        X = np.array([[_number(row[name], known) for name, known, *_ in columns] for row in rows])
        found = session.run(None, {"features": X})
        np.testing.assert_allclose(found[1][:, 1], chances, atol=1e-4)
        assert [("no", "yes")[label] for label in found[0]] == [row["predicted"] for row in rows]


def _number(cell: str, known: list[str] | None) -> float:
    """A cell as an exported model reads it: a category by its position."""
    return float(cell) if known is None else float(known.index(cell))
