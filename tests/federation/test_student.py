"""A run that ends with a global model, its card, and its accuracy beside the silos' vote."""

import hashlib
import json
from typing import Any

from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
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
