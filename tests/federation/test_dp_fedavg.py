"""DP-FedAvg: clipped updates, an average in which every silo counts the same, and noise for all rounds together."""

from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from flwr.app import Context, Message
from safetensors.numpy import load_file

from client_app.main import app as client_app
from fedct_flwr.baselines import dp_fedavg as private_averaging
from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.wire.messages import to_weights
from tests.federation.conftest import Federation

DP_FEDAVG: dict[str, Any] = {
    "algorithm": "dp-fedavg",
    "learner": "tests.federation.learners.network",
    "learner_params": '{"width": 300}',
    "local_steps": 2,
    "learning_rate": 0.01,
    "num_server_rounds": 1,
    "device": "cpu",
    "save_models": True,
}


def global_weights(folder: RunFolder) -> Any:
    stored = load_file(folder.models / "global.safetensors")
    return {name: value for name, value in stored.items() if name.startswith("network.")}


def flat(weights: Any) -> Any:
    return np.concatenate([weights[name].ravel().astype(np.float64) for name in sorted(weights)])


def watched(federation: Federation) -> list[tuple[Any, Any, int]]:
    """What each silo gets and sends back."""
    seen: list[tuple[Any, Any, int]] = []

    def watch(message: Message, context: Context) -> Message:
        reply = client_app(message, context)
        records = reply.content.metric_records["metrics"]["num-examples"]
        arrays = reply.content.array_records["arrays"]
        seen.append((to_weights(message.content.array_records["arrays"]), to_weights(arrays), int(records)))
        return reply

    federation.behave = dict.fromkeys(range(4), watch)
    return seen


@pytest.fixture
def _no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_averaging, "_least_noise", lambda rounds, epsilon, delta: 0.0)


@pytest.mark.usefixtures("_no_noise")
@pytest.mark.parametrize("norm", [0.05, 1e6])
def test_the_update_is_the_plain_average_of_clipped_updates(federation: Federation, norm: float) -> None:
    seen = watched(federation)
    folder = federation.run(**DP_FEDAVG, clipping_norm=norm)
    assert len({records for _, _, records in seen}) > 1
    sent = flat(seen[0][0])
    updates = [flat(weights) - sent for _, weights, _ in seen]
    lengths = [np.linalg.norm(update) for update in updates]
    assert all(length > 0.05 for length in lengths)
    average = np.mean([update * min(1, norm / length) for update, length in zip(updates, lengths, strict=True)], axis=0)
    np.testing.assert_allclose(flat(global_weights(folder)) - sent, average, atol=1e-6)


@pytest.mark.parametrize("rounds", [1, 30])
def test_all_rounds_together_cost_epsilon_for_a_silo_that_is_replaced(rounds: int) -> None:
    multiplier = private_averaging._least_noise(rounds, 2.0, 1e-6)
    # The sum of updates moves by two clipping norms.
    spent = epsilon(SelfComposedDpEvent(GaussianDpEvent(multiplier / 2), rounds), 1e-6).upper
    assert 1.98 <= spent <= 2.0
