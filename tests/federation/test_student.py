"""A run that ends with a global model, its card, and its accuracy beside the silos' vote."""

import hashlib
import json
from typing import Any

import pytest

from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.learners.build import build_learner
from fedct_flwr.models.model_file import load_model
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring import accuracy, balanced_accuracy
from fedct_flwr.types import ABSTAIN
from tests.federation.conftest import Federation


def learned(federation: Federation, **settings: Any) -> tuple[RunFolder, dict[str, Any]]:
    folder = federation.run(**{"student": "random-forest", "student_params": '{"n_estimators": 10}', **settings})
    return folder, folder.read_json("result.json")["global_model"]


def test_the_student_has_learned_the_final_labels(federation: Federation) -> None:
    folder, told = learned(federation, save_models=True)
    dataset = datasets.load(RunConfig.from_flower(folder.settings()))
    targets = folder.load_checkpoint().targets
    model = load_model(folder.path / told["file"])
    assert told["labels"] == (targets != ABSTAIN).sum()
    assert (model.predict(dataset.public.X) == targets).mean() > 0.95
    assert told["scores"]["student"] == {
        "accuracy": accuracy(model, dataset.test),
        "balanced_accuracy": balanced_accuracy(model, dataset.test),
    }
    assert told["scores"]["student"]["accuracy"] > 0.7
    assert model.schema == dataset.schema


def test_the_card_tells_what_is_known(federation: Federation) -> None:
    folder, told = learned(federation, algorithm="fedct-qualified", quorum=0.9)
    path = folder.path / told["file"]
    card = json.loads(path.with_suffix(".json").read_text())
    assert card["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert card["public-set"] == {"fingerprint": folder.read_json("config.json")["public_fingerprint"], "examples": 228}
    assert card["labels"]["used"] + card["labels"]["without"] == 228
    assert card["labels"]["without"] > 0
    assert card["labels"]["silos"] == ["budapest", "cleveland", "long-beach", "zurich"]
    assert (card["labels"]["rounds"], card["labels"]["quorum"]) == (len(folder.rounds()), 0.9)
    text = path.with_suffix(".md").read_text()
    assert "Nothing is promised" in text
    assert all(word in text for word in (card["sha256"], "random-forest", "quorum of 0.9", "cleveland"))


def test_a_network_that_others_go_on_from(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend("examples")
    folder, told = learned(
        federation,
        student="own_network.make",
        student_params='{"width": 8}',
        num_server_rounds=1,
        local_steps=100,
        learning_rate=0.01,
    )
    config = RunConfig.from_flower(
        {**folder.settings(), "learner": "own_network.make", "learner-params": '{"width": 8}', "device": "cpu"}
    )
    dataset = datasets.load(config)
    assert told["file"] == "models/global.safetensors"
    model = load_model(folder.path / told["file"], ["own_network"])
    assert told["scores"]["student"]["accuracy"] == accuracy(model, dataset.test)
    silos = build_learner(config, dataset, 0, dataset.silos[0].private.X)
    silos.load(folder.path / told["file"])  # type: ignore[attr-defined]
    assert accuracy(silos, dataset.test) > 0.6
