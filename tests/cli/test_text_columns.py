"""Columns of text at the command line: in a simulation, with its global model, and at a real silo."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.model_process import read_here
from tests.cli.silos import Fedct

NEW = "age,note,ward\n50,pain,a\n50,fine,b\n"


def rows(number: int, seed: int, *, labels: bool) -> str:
    """Records in which ``pain`` means ill and nothing else means anything."""
    rng = np.random.default_rng(seed)
    lines = ["age,note,ward" + ",ill" * labels]
    for ill in rng.permutation(np.arange(number) % 2):
        note = f'"{"pain" if ill else "fine"}, word{rng.integers(20)}"'
        label = f",{'yes' if ill else 'no'}" * labels
        lines.append(f"{rng.integers(20, 80)},{note},{rng.choice(['a', 'b'])}{label}")
    return "\n".join(lines) + "\n"


def test_simulate_and_predict(fedct: Fedct, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_here(monkeypatch)
    data = tmp_path / "wards"
    data.mkdir()
    (data / "public.csv").write_text(rows(60, 0, labels=False))
    for seed, silo in enumerate(("north", "south"), start=1):
        (data / f"{silo}.csv").write_text(rows(40, seed, labels=True))
    (data / "data.toml").write_text("text = ['note']\n")
    run = tmp_path / "run"
    done = fedct(
        "simulate", "--data-dir", data, "--label", "ill", "--learner", "tfidf-linear", "--rounds", "1", "--run-dir",
        run, "--set", "student=tfidf-linear", "--in-process", "--no-watch",
    )  # fmt: skip
    assert done.code == 0, done.err
    (tmp_path / "new.csv").write_text(NEW)
    said = fedct("predict", tmp_path / "new.csv", "--model", run / "models" / "global.skops")
    assert said.code == 0, said.err
    header, *lines = (line.split(",") for line in said.out.splitlines())
    assert [line[header.index("predicted")] for line in lines] == ["yes", "no"]
    exported = fedct("export", "--model", run / "models" / "global.skops", "--output", tmp_path / "global.onnx")
    assert exported.code == 2
    assert "fedct predict" in exported.sentence
