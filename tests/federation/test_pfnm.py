"""PFNM on four hospitals: silos begin apart, and a global model wider than theirs is scored, kept and loaded."""

import json
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message

from client_app.main import app as client_app
from fedct_flwr import datasets
from fedct_flwr.baselines.pfnm import Layer, Prior, match_networks
from fedct_flwr.config import RunConfig
from fedct_flwr.learners.build import build_learner
from fedct_flwr.learners.torch_net import TorchLearner
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.seeding import generator
from fedct_flwr.wire.weights import to_weights
from tests.federation.conftest import Federation
from tests.federation.test_fedavg import global_weights

PFNM: dict[str, Any] = {
    "algorithm": "pfnm",
    "learner": "tests.federation.learners.network",
    "learner_params": '{"width": 6}',
    "num_server_rounds": 1,
    "local_steps": 100,
    "learning_rate": 0.01,
    "device": "cpu",
    "save_models": True,
}
SILOS = ["budapest", "cleveland", "long-beach", "zurich"]
Seen = dict[str, tuple[dict[str, Any], dict[str, Any]]]


@pytest.fixture
def seen(federation: Federation) -> Seen:
    """By silo, what weights it was sent and which it sent back."""
    found: Seen = {}

    def watch(message: Message, context: Context) -> Message:
        reply = client_app(message, context)
        if message.content.array_records:
            asked, said = (to_weights(one.content.array_records["arrays"]) for one in (message, reply))
            found[str(reply.content.config_records["silo"]["name"])] = asked, said
        return reply

    federation.behave = dict.fromkeys(range(4), watch)
    return found


def build(folder: RunFolder, position: int = 0) -> TorchLearner:
    config = RunConfig.from_flower(folder.settings())
    dataset = datasets.load(config)
    found = build_learner(config, dataset, position, dataset.silos[position].private.X)
    assert isinstance(found, TorchLearner)
    return found


def layers(weights: dict[str, Any]) -> list[Layer]:
    return [Layer(weights[f"{place}.weight"], weights[f"{place}.bias"]) for place in (0, 2)]


def test_one_round_is_what_the_matching_makes_of_networks_that_began_apart(federation: Federation, seen: Seen) -> None:
    folder = federation.run(**PFNM, pfnm_silo_variance=0.5, pfnm_global_variance=4.0, pfnm_gamma=2.0, seed=3)
    (entry,) = folder.rounds()
    assert list(entry["silos"]) == sorted(seen) == SILOS
    config = RunConfig.from_flower(folder.settings())
    for position, silo in enumerate(datasets.load(config).silos):
        expected = build(folder, position).weights()
        assert all((seen[silo.name][0][name] == value).all() for name, value in expected.items())
    first, second = (seen[silo][0]["0.weight"] for silo in SILOS[:2])
    assert (first != second).any()
    networks = [layers(seen[silo][1]) for silo in SILOS]
    matched = match_networks(networks, Prior(0.5, 4.0, 2.0), generator(3, "matching"))
    found = layers(global_weights(folder))
    for layer, expected_layer in zip(found, matched, strict=True):
        np.testing.assert_allclose(layer.weights, expected_layer.weights, rtol=1e-6)
        np.testing.assert_allclose(layer.biases, expected_layer.biases, rtol=1e-6)
    width = len(found[0].biases)
    assert 6 < width <= 24
    assert json.loads((folder.path / "result.json").read_text()) == {"status": "completed", "hidden_widths": [width]}
