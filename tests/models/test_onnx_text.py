"""Models that read text by an encoder, in ONNX: from tokens to what the model predicts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedct_flwr.config import LearnerSettings, ModelDescription
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners.build import learner_for
from fedct_flwr.learners.encoder_folder import PADDING, load_tokenizer, tokens_of
from fedct_flwr.models.model_file import Model, load_model, save_model
from fedct_flwr.models.onnx_export import to_onnx
from tests.language_models import save_bert
from tests.learners.test_text import SCHEMA, TEXT_ALONE, records

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

LENGTH = 16
"""Tokens that the small encoder reads."""

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning", "ignore::ResourceWarning"
)


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDCT_DATA", str(tmp_path / "data"))
    return save_bert(tmp_path / "bert", length=LENGTH)


def trained(encoder: Path, path: Path, name: str, schema: Schema, X: Any, y: Any) -> Model:
    params: dict[str, Any] = {"folder": str(encoder)}
    quick = {"local-steps": 10, "batch-size": 16, "device": "cpu"} if name == "transformer" else {}
    settings = LearnerSettings.read({"name": name, "params": params, **quick}, "a test")
    learner: Any = learner_for(settings, "a", schema, PublicSet(X[:20]), X[20:])
    learner.fit(X, y)
    said = {
        "study": "s", "classes": schema.classes, "columns": [(one.name, one.categories) for one in schema.columns],
        "text": [one.name for one in schema.columns if one.text], "shape": (X.shape[1],), "learner": name,
        "params": params,
    }  # fmt: skip
    transformer = learner.parts[0] if name == "sentence-embedding" else learner.transformer
    save_model(path, learner, transformer, ModelDescription.read(said, "a test"))
    return load_model(path)


def tokens(encoder: Path, texts: Any) -> Any:
    """``(n, LENGTH)``."""
    found = np.full((len(texts), LENGTH), PADDING)
    for row, some in zip(found, tokens_of(load_tokenizer(encoder), list(texts), LENGTH), strict=True):
        row[: len(some)] = some
    return found


def agrees(model: Model, X: Any, inputs: dict[str, Any]) -> None:
    session = onnxruntime.InferenceSession(to_onnx(model), providers=["CPUExecutionProvider"])
    assert {one.name for one in session.get_inputs()} == set(inputs)
    found = dict(zip([one.name for one in session.get_outputs()], session.run(None, inputs), strict=True))
    expected = model.probabilities(X)
    assert expected is not None
    # An embedding's fourth decimal may be rounded the other way.
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-3)
    sure = np.abs(expected[:, 1] - 0.5) > 1e-3
    assert sure.sum() > 30
    np.testing.assert_array_equal(found["label"][sure], model.predict(X)[sure])


def test_embeddings_stand_beside_the_other_columns(encoder: Path, tmp_path: Path) -> None:
    X, y = records(80)
    model = trained(encoder, tmp_path / "m", "sentence-embedding", SCHEMA, X, y)
    X = X[:50].copy()
    X[:5, 0], X[5:8, 2], X[8, 1] = np.nan, np.nan, ""
    # What stands in the place of a text is not looked at.
    numbers = np.column_stack([X[:, 0], np.full(len(X), np.nan), X[:, 2]]).astype(np.float64)
    agrees(model, X, {"features": numbers, "tokens_1": tokens(encoder, X[:, 1])})


def test_a_network_takes_the_tokens_of_all_columns_together(encoder: Path, tmp_path: Path) -> None:
    X, y = records(80)
    X = X[:, [1, 1]]
    model = trained(encoder, tmp_path / "m", "transformer", TEXT_ALONE, X, y)
    together = ["\n".join(row) for row in X]
    agrees(model, X, {"features": tokens(encoder, together).astype(np.float32)})
