"""What goes with a model whose labels had noise: other votes with the same noisy labels leave the same card and model.

Whatever differs between the two was computed from votes, or from private records, without the noise.
"""

import json
from typing import Any

import numpy as np
import pytest

from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.models.loading import load_model
from fedct_flwr.privacy import tally_noise
from fedct_flwr.runs.run_folder import RunFolder
from tests import hospitals
from tests.federation import conftest
from tests.federation.conftest import Federation

federation = conftest.federation
SILOS = ("budapest", "cleveland", "long-beach", "zurich")
OF_SILOS: dict[str, dict[str, Any]] = {
    "dp-pate": {"algorithm": "dp-pate", "gamma": 2.0},
    "fedkt": {"algorithm": "fedkt", "privacy_level": "L1", "gamma": 0.5, "partitions": 2, "teachers": 2},
}


def released(federation: Federation, name: str, **settings: Any) -> tuple[dict[str, Any], RunFolder]:
    """The card, and the run folder, which stays."""
    folder = federation.run(
        num_server_rounds=1, student="decision-tree", save_models=True, run_dir=str(federation.path / name), **settings
    )
    path = folder.path / folder.read_json("result.json")["global_model"]["file"]
    return json.loads(path.with_suffix(".json").read_text()), folder


@pytest.mark.parametrize("settings", OF_SILOS.values(), ids=OF_SILOS)
def test_other_votes_with_the_same_noisy_labels_leave_the_same_and_no_silo_is_named(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    monkeypatch.setattr(
        tally_noise, "noisy_max", lambda mechanism, counts, noise: (np.arange(len(counts)) % 2).astype(np.int16)
    )
    one, folder = released(federation, "one", **settings)
    other, other_folder = released(federation, "other", **settings, **hospitals.colluding("zurich", "budapest"))
    # The attack has something to see: the coordinator's own files differ.
    agreeing, otherwise = ([line["agreement"] for line in each.rounds()] for each in (folder, other_folder))
    assert agreeing != otherwise
    said = json.dumps(one)
    assert "student" in folder.read_json("result.json")["global_model"]["scores"]
    assert not any(silo in said for silo in SILOS)
    assert "accuracy" not in said
    assert "all votes of one silo are replaced by any others" in said
    assert "took part counts as public" in said
    assert "In a simulation the noise comes from the run's seed, and protects no one." in said
    for facts in (one, other):
        del facts["sha256"], facts["date"]
    assert one == other
    models = [load_model(one.path / "models" / "global.skops") for one in (folder, other_folder)]
    X = datasets.load(RunConfig.from_flower(folder.settings())).public.X
    assert models[0].description == models[1].description
    np.testing.assert_array_equal(models[0].probabilities(X), models[1].probabilities(X))


def test_the_silos_own_noise_covers_no_score_of_their_models_either(federation: Federation) -> None:
    assert "accuracy" not in json.dumps(released(federation, "run", protection="dp-linear", epsilon=5.0)[0])
