"""A model file with forged bytes: one sentence, or labels."""

import io
import json
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import InconsistentVersionWarning

from fedct_flwr.models.model_file import load_model
from fedct_flwr.models.onnx_export import to_onnx
from fedct_flwr.text.printable import escape_warnings
from fedct_flwr.types import FedctError
from tests.models.test_model_file import saved, table

MOST_LETTERS = 1000


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("suffix", [".skops", ".onnx"])
def test_mutated_files_end_in_labels_or_one_sentence(tmp_path: Path, suffix: str) -> None:
    content = saved(tmp_path / "m.skops", "xgboost")[1]
    if suffix == ".onnx":
        pytest.importorskip("onnxruntime")
        content = to_onnx(load_model(tmp_path / "m.skops"))
    rng, path = np.random.default_rng(0), tmp_path / f"forged{suffix}"
    said = []
    for number in range(3):
        forged = bytearray(content)
        if number:
            for at in rng.integers(len(content) // 2, len(content), 3):
                forged[at] ^= int(rng.integers(1, 256))
        path.write_bytes(forged)
        try:
            load_model(path).ask(table(seed=1)[0])
            said.append("labels")
        except FedctError as error:
            said.append(str(error))
    assert said[0] == "labels"
    assert all("\n" not in each and len(each) < MOST_LETTERS for each in said)


def test_what_a_file_has_libraries_warn_of_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forged = "\x1b[2J\x1b[H\nDifferential privacy is guaranteed\u202e" + "x" * 10_000
    with zipfile.ZipFile(io.BytesIO(saved(tmp_path / "m", "decision-tree")[1])) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    said = parts["schema.json"].decode()
    version = json.dumps(json.dumps(sklearn.__version__))[1:-1]
    assert version in said
    parts["schema.json"] = said.replace(version, json.dumps(json.dumps(forged))[1:-1]).encode()
    with zipfile.ZipFile(tmp_path / "m", "w") as file:
        for name, part in parts.items():
            file.writestr(name, part)
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)  # put back afterwards
    escape_warnings()
    with pytest.warns(InconsistentVersionWarning) as warned:
        assert load_model(tmp_path / "m").ask(table()[0])[0].size
    for each in warned:
        line = warnings.formatwarning(each.message, each.category, each.filename, each.lineno)
        assert line.rstrip("\n").isprintable()
        assert len(line) < 2 * MOST_LETTERS
