"""Learners that read text by a language model from a folder."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load

from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners import Averageable, SoftTrainable
from fedct_flwr.learners import transformer as encoders
from fedct_flwr.learners.build import learner_for
from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.learners.torch_net import TorchLearner
from fedct_flwr.models.loading import load_model
from fedct_flwr.models.model_file import ModelDescription, save_model
from fedct_flwr.types import ABSTAIN, DataError, Examples, LearnerError, TrainingError
from tests.language_models import save_bert, save_gpt2
from tests.learners.test_text import SCHEMA, TEXT_ALONE, records

QUICK: dict[str, Any] = {"local-steps": 30, "batch-size": 16, "learning-rate": 3e-3, "device": "cpu"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    path = tmp_path_factory.mktemp("models")
    return {"bert": save_bert(path / "bert"), "gpt2": save_gpt2(path / "gpt2")}


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where embeddings are kept; nothing is known from elsewhere."""
    monkeypatch.setenv("FEDCT_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(encoders, "_known", {})
    return tmp_path / "data"


def settings(name: str, folder: Path | str, **params: Any) -> LearnerSettings:
    quick = QUICK if name == "transformer" else {}
    return LearnerSettings.read({"name": name, "params": {"folder": str(folder), **params}, **quick}, "a test")


def embedding(folder: Path, **params: Any) -> SklearnLearner:
    X, _ = records()
    found = learner_for(settings("sentence-embedding", folder, **params), "a", SCHEMA, PublicSet(X[:20]), X[20:])
    assert isinstance(found, SklearnLearner)
    return found


def transformer(folder: Path | str, schema: Schema = TEXT_ALONE, **params: Any) -> TorchLearner:
    X = notes()[0]
    found = learner_for(settings("transformer", folder, **params), "a", schema, PublicSet(X[:20]), X[20:])
    assert isinstance(found, TorchLearner)
    return found


def notes() -> tuple[Any, Any]:
    """Texts of two columns; ``pain`` in the first means ill."""
    X, y = records(80)
    return X[:, [1, 1]], y


def advance(learner: TorchLearner) -> None:
    X, y = notes()
    learner.advance(Examples(X[20:], y[20:]), X[:20], np.full(20, ABSTAIN, dtype=np.int16), 1.0)


# --- sentence-embedding


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_a_linear_model_learns_from_embeddings_and_the_other_columns(
    kind: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    X, y = records(100)
    learner = embedding(folders[kind]).fit(X, y)
    assert (learner.predict(X) == y).mean() > 0.95
    assert learner.parts[1].n_features_in_ == 2 * 16 + 1 + 3
    shares = learner.probabilities(X, 2)
    assert shares is not None
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    learner.save(tmp_path / "model.skops")
    again = embedding(folders[kind]).load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict(X), learner.predict(X))


def test_a_text_is_embedded_once_and_nothing_is_written(
    folders: dict[str, Path], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = records(60)
    asked: list[str] = []
    original = encoders.tokens_of

    def counted(tokenizer: Any, texts: list[str], length: int) -> Any:
        asked.extend(texts)
        return original(tokenizer, texts, length)

    monkeypatch.setattr(encoders, "tokens_of", counted)
    learner = embedding(folders["bert"]).fit(X, y)
    learner.predict(X)
    assert len(asked) == len(set(asked)) == len(set(X[:, 1]))
    assert not (data / "embeddings").exists()


def test_a_model_file_of_embeddings_needs_the_same_encoder(folders: dict[str, Path], tmp_path: Path) -> None:
    X, y = records(80)
    other = tmp_path / "data" / "models" / "encoder"
    shutil.copytree(folders["bert"], other)
    # By its name under the data folder.
    learner = embedding(Path("encoder")).fit(X, y)
    columns = [(column.name, column.categories) for column in SCHEMA.columns]
    said = {"study": "s", "classes": SCHEMA.classes, "columns": columns, "text": ["note"], "shape": (3,)}
    said |= {"learner": "sentence-embedding", "params": {"folder": "encoder"}}
    save_model(tmp_path / "m.skops", learner, learner.parts[0], ModelDescription.read(said, "a test"))
    np.testing.assert_array_equal(load_model(tmp_path / "m.skops").predict(X), learner.predict(X))
    with (other / "tokenizer_config.json").open("a") as file:
        file.write("\n")
    with pytest.raises(TrainingError, match="not the one"):
        load_model(tmp_path / "m.skops").predict(X)


# --- transformer


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
@pytest.mark.parametrize("train", ["lora", "last", "full"])
def test_a_transformer_trains_on_and_keeps_what_is_trained_alone(
    kind: str, train: str, folders: dict[str, Path]
) -> None:
    X, y = notes()
    learner, again = (transformer(folders[kind], train=train, rank=2) for _ in range(2))
    assert isinstance(learner, Averageable)
    assert isinstance(learner, SoftTrainable)
    before = learner.weights()
    advance(learner)
    again.restore(learner.dump())
    np.testing.assert_array_equal(again.predict(X), learner.predict(X))
    for each in (learner, again):
        advance(each)
    assert again.dump() == learner.dump()
    after = learner.weights()
    assert before.keys() == after.keys() == set(learner.parameters)
    assert all((before[name] != after[name]).any() for name in before if "wpe" not in name and "position" not in name)
    size = sum(value.size for value in after.values())
    whole = sum(weight.numel() for weight in learner._network.parameters())
    assert size == whole if train == "full" else size < 0.65 * whole
    if train != "lora":
        assert (learner.predict(X) == y).mean() > 0.9


def test_a_model_file_holds_adapters_and_needs_the_same_folder(folders: dict[str, Path], tmp_path: Path) -> None:
    X, _ = notes()
    shutil.copytree(folders["bert"], tmp_path / "m")
    learner = transformer(tmp_path / "m")
    advance(learner)
    said = {"study": "s", "classes": TEXT_ALONE.classes, "columns": [("note", None), ("plan", None)], "shape": (2,)}
    said |= {"learner": "transformer", "params": {"folder": str(tmp_path / "m")}, "text": ["note", "plan"]}
    path = tmp_path / "global.safetensors"
    content = save_model(path, learner, learner.transformer, ModelDescription.read(said, "a test"))
    assert all("lora" in name or "classifier" in name for name in load(content) if name.startswith("network."))
    model = load_model(path)
    np.testing.assert_array_equal(model.predict(X), learner.predict(X))
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    (tmp_path / "m" / "config.json").write_text(json.dumps({**config, "hidden_act": "relu"}))
    with pytest.raises(DataError, match="not the one"):
        load_model(path)


# --- what is said and refused


@pytest.mark.parametrize("name", ["transformer", "sentence-embedding"])
@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda folder: shutil.rmtree(folder), "nothing is downloaded"),
        (lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"), "can run code"),
        (lambda folder: (folder / "modeling_own.py").write_text("raise SystemExit"), "can run code"),
        (
            lambda folder: (folder / "config.json").write_text('{"auto_map": {"AutoModel": "x--y.Z"}}'),
            "cannot be loaded",
        ),
        (
            lambda folder: (folder / "model.safetensors.index.json").write_text(
                '{"weight_map": {"a": "../x.safetensors"}}'
            ),
            "no file of it",
        ),
    ],
)
def test_folders_that_cannot_be_trusted_are_refused(
    name: str, change: Any, word: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(folders["bert"], folder)
    change(folder)
    X = notes()[0]
    with pytest.raises(LearnerError, match=word):
        learner_for(settings(name, folder), "a", TEXT_ALONE, PublicSet(X[:20]), X[20:])
