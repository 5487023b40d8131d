"""FedProx, SCAFFOLD, FedDyn, FedDF, DP-FedAvg against closed forms and the papers' algorithms written out in numpy."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from flwr.app import ArrayRecord, Context, Message, RecordDict
from numpy.typing import NDArray
from safetensors.numpy import load_file
from syrupy.assertion import SnapshotAssertion

from client_app.main import app as client_app
from fedct_flwr import datasets
from fedct_flwr.baselines import dp_fedavg as private_averaging
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import FederatedDataset
from fedct_flwr.learners import Correction
from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.silo import simulated
from fedct_flwr.types import ConfigError, Examples
from fedct_flwr.wire.messages import to_reply, to_weights
from tests.federation.conftest import Federation
from tests.federation.learners import SECRET
from tests.sentences import sentence

Vector = NDArray[np.float64]

STEPS, RATE = 10, 0.05
CURVATURES = np.array([1.0, 4.0, 0.5, 2.0])
OPTIMA = np.array([[0.0, 3.0], [1.0, -1.0], [10.0, 0.0], [-2.0, 5.0]])
FEDAVG: dict[str, Any] = {
    "algorithm": "fedavg",
    "learner": "tests.federation.learners.network",
    "learner_params": "{}",
    "local_steps": 5,
    "learning_rate": 0.01,
    "num_server_rounds": 3,
    "device": "cpu",
}
NETWORK: dict[str, Any] = {**FEDAVG, "optimizer": "sgd", "learning_rate": 0.1, "save_models": True}


class Quadratic:
    """A silo whose loss is ``curvature / 2 * |w - optimum|^2``, by gradient descent: all that it does is known."""

    suffix = ".txt"
    parameters = ("w",)
    reach = STEPS * RATE
    last: Vector

    def __init__(self, curvature: float, optimum: Vector) -> None:
        self.curvature, self.optimum = curvature, optimum
        self.reset()

    def reset(self) -> None:
        self.w = np.zeros(2)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        return self

    def predict(self, X: Any) -> Any:
        return np.zeros(len(X), np.int16)

    def label(self, public: Any, positions: Any) -> Any:
        return np.zeros(len(positions), np.int16)

    def advance(self, private: Any, public: Any, targets: Any, pseudo_weight: float) -> None:
        raise AssertionError("weights are shared here, no labels")

    def advance_corrected(self, private: Examples, correction: Correction) -> None:
        begun = self.w
        for _ in range(STEPS):
            gradient = self.curvature * (self.w - self.optimum) + correction.pull * (self.w - begun)
            self.w = self.w - RATE * (gradient + correction.shift.get("w", 0))

    def weights(self) -> dict[str, NDArray[Any]]:
        return {"w": self.w.copy()}

    def set_weights(self, weights: Any) -> None:
        self.w = np.array(weights["w"])

    def dump(self) -> bytes:
        return self.w.tobytes()

    def restore(self, state: bytes) -> None:
        self.w = np.frombuffer(state)

    def save(self, path: Path) -> None:
        path.write_bytes(self.dump())

    def load(self, path: Path) -> Self:
        self.restore(path.read_bytes())
        return self


@pytest.fixture
def reached(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Vector]:
    """The global weights at the end of a run in which silos' losses are quadratics."""

    def build(config: RunConfig, dataset: FederatedDataset, position: int, private: Any) -> Quadratic:
        return Quadratic(CURVATURES[position], OPTIMA[position])

    monkeypatch.setattr(simulated, "build_learner", build)
    monkeypatch.setattr("fedct_flwr.learners.build_learner", build)

    def run(algorithm: str, rounds: int, **settings: Any) -> Vector:
        path = federation.path / algorithm
        folder = federation.run(
            algorithm=algorithm, num_server_rounds=rounds, save_models=True, run_dir=str(path), **settings
        )
        return np.frombuffer((folder.models / "global.txt").read_bytes())

    return run


def records() -> Vector:
    config = RunConfig.from_flower({"study": "test", "data": "heart-disease"})
    return np.array([silo.private.size for silo in datasets.load(config).silos], dtype=np.float64)


def mean(values: Vector, weights: Vector) -> Vector:
    found: Vector = weights @ values / weights.sum()
    return found


def optimum() -> Vector:
    """Of the loss on all records."""
    return mean(OPTIMA, records() * CURVATURES)


@pytest.mark.parametrize(("algorithm", "mu"), [("fedavg", 0.0), ("fedprox", 1.0)])
def test_fedavg_and_fedprox_end_where_their_drift_balances_and_not_at_the_optimum(
    reached: Callable[..., Vector], algorithm: str, mu: float
) -> None:
    end = reached(algorithm, 40, **({"proximal_mu": mu} if mu else {}))
    # K steps from x go the share 1 - (1 - eta (a + mu))^K of the way to where a (w - b) + mu (w - x) is zero.
    pulls = (1 - (1 - RATE * (CURVATURES + mu)) ** STEPS) * CURVATURES / (CURVATURES + mu)
    np.testing.assert_allclose(end, mean(OPTIMA, records() * pulls), atol=1e-6)
    assert np.abs(end - optimum()).max() > 0.1


@pytest.mark.parametrize(("algorithm", "settings"), [("scaffold", {}), ("feddyn", {"feddyn_alpha": 2.0})])
def test_they_do_so_too_if_a_silo_was_away_for_some_rounds(
    federation: Federation, reached: Callable[..., Vector], algorithm: str, settings: dict[str, Any]
) -> None:
    def away(message: Message, context: Context) -> Message:
        if message.metadata.group_id in {"1", "4", "5"}:
            raise ValueError
        return client_app(message, context)

    federation.behave[2] = away
    np.testing.assert_allclose(reached(algorithm, 35, **settings), optimum(), atol=1e-5)


def test_an_initial_model_is_what_the_first_round_begins_with(federation: Federation) -> None:
    first = federation.run(**NETWORK, run_dir=str(federation.path / "first"))
    sent: list[dict[str, Any]] = []

    def watch(message: Message, context: Context) -> Message:
        sent.append(to_weights(message.content.array_records["arrays"]))
        return client_app(message, context)

    federation.behave[0] = watch
    path = first.models / "global.safetensors"
    federation.run(**{**NETWORK, "algorithm": "fedprox", "optimizer": "adam"}, initial_model=str(path))
    expected = global_weights(first)
    assert all((sent[0][name] == value).all() for name, value in expected.items())
    assert any((sent[1][name] != value).any() for name, value in expected.items())


@pytest.mark.parametrize("kind", ["another network", "no model", "no file"])
def test_an_initial_model_that_does_not_fit_stops_the_run_before_it_begins(
    federation: Federation, kind: str, wording: SnapshotAssertion
) -> None:
    path = federation.path / "m.safetensors"
    if kind == "another network":
        other = federation.run(**{**NETWORK, "learner_params": '{"width": 3}'}, run_dir=str(federation.path / "other"))
        path = other.models / "global.safetensors"
    elif kind == "no model":
        path.write_bytes(b"noise")
    before = len(federation.sent)
    assert sentence(ConfigError, lambda: federation.run(**NETWORK, initial_model=str(path))) == wording
    assert len(federation.sent) == before
    assert not RunFolder(federation.path / "run").exists()


# --- FedAvg, and silos that fail


FAULTY = 1  # budapest


def global_weights(folder: RunFolder) -> dict[str, Any]:
    stored = load_file(folder.models / "global.safetensors")
    prefix = "network."
    return {name.removeprefix(prefix): value for name, value in stored.items() if name.startswith(prefix)}


def raises(message: Message, context: Context) -> Message:
    raise ValueError(SECRET)


def sends(change: Callable[[dict[str, Any]], dict[str, Any]], num_examples: int = 1) -> Any:
    def behave(message: Message, context: Context) -> Message:
        weights = change(to_weights(message.content.array_records["arrays"]))
        return Message(to_reply("budapest", weights, num_examples), reply_to=message)

    return behave


def refuses(message: Message, context: Context) -> Message:
    context.run_config["learner"] = "tests.federation.learners.Raising"
    return client_app(message, context)


@pytest.mark.parametrize(
    "behave",
    [
        raises,
        refuses,
        sends(lambda weights: {name: value * np.nan for name, value in weights.items()}),
        sends(lambda weights: {name: value[:1] for name, value in weights.items()}),
        sends(lambda weights: {"other": np.zeros(3)}),
        sends(lambda weights: weights, num_examples=0),
        lambda message, context: Message(RecordDict({"arrays": ArrayRecord([np.zeros(3)])}), reply_to=message),
        lambda message, context: Message(RecordDict(), reply_to=message),
    ],
    ids=["raises", "refuses", "nan", "other shapes", "other names", "weighs nothing", "nameless", "empty"],
)
def test_a_silo_that_fails_is_left_out_and_its_words_go_no_further(
    federation: Federation, caplog: pytest.LogCaptureFixture, behave: Any, wording: SnapshotAssertion
) -> None:
    def in_the_second_round(message: Message, context: Context) -> Message:
        return (behave if message.metadata.group_id == "2" else client_app)(message, context)

    federation.behave[FAULTY] = in_the_second_round
    with caplog.at_level(logging.INFO, "flwr"):
        folder = federation.run(**{**FEDAVG, "num_server_rounds": 2})
    first, entry = folder.rounds()
    assert first["absent"] == {}
    assert list(entry["silos"]) == ["cleveland", "long-beach", "zurich"]
    assert entry["absent"] == wording
    assert SECRET not in (folder.path / "rounds.jsonl").read_text()
    if behave is not refuses:  # here the silo's own log is the coordinator's
        assert SECRET not in caplog.text


# --- DP-FedAvg: clipped updates, an average in which every silo counts the same, and noise for all rounds together


DP_FEDAVG: dict[str, Any] = {
    **FEDAVG, "algorithm": "dp-fedavg", "learner_params": '{"width": 300}', "local_steps": 2, "num_server_rounds": 1,
    "save_models": True,
}  # fmt: skip


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
