"""The network learner: the paper's networks, devices, losses that explode, states from elsewhere."""

import math
import threading
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.preprocessing import FunctionTransformer
from torch import nn

from fedct_flwr.config.learner import LearnerSettings, Training
from fedct_flwr.learners import networks
from fedct_flwr.learners.build import untrained
from fedct_flwr.learners.catalog import make
from fedct_flwr.learners.networks import AUGMENTATIONS, augmented
from fedct_flwr.learners.torch_net import TorchLearner
from fedct_flwr.types import ABSTAIN, ConfigError, Examples, TrainingError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int16)
PRIVATE, PUBLIC = Examples(X[:20], Y[:20]), X[20:]
UNLABELED = np.full(20, ABSTAIN, dtype=np.int16)


def training(**values: Any) -> Training:
    return Training().model_copy(update={"batch_size": 8, **values})


def small(local_steps: int = 20, **values: Any) -> TorchLearner:
    told = training(local_steps=local_steps, **{"learning_rate": 0.01, **values})
    return TorchLearner(lambda: nn.Linear(4, 2), 2, told, device="cpu")


def test_the_papers_network_has_the_papers_size() -> None:
    network = networks.mlp(784, 10, 512)
    assert sum(p.numel() for p in network.parameters()) == 401_920 + 262_656 + 5_130


def test_a_loss_that_is_not_finite_stops_the_silo_in_its_last_good_state() -> None:
    learner = small()
    learner.advance(PRIVATE, PUBLIC, UNLABELED, 1.0)
    before = learner.dump()
    broken = Examples(np.full_like(PRIVATE.X, math.nan), PRIVATE.y)
    with pytest.raises(TrainingError, match="loss is not finite"):
        learner.advance(broken, PUBLIC, UNLABELED, 1.0)
    assert learner.dump() == before


@pytest.mark.parametrize("state", [b"", b"noise", b"\x80\x04N.", small().dump()[:-8]])
def test_a_state_that_is_damaged_or_a_pickle_is_refused(state: bytes) -> None:
    with pytest.raises(TrainingError, match="stored state"):
        small().restore(state)


def test_weights_taken_out_and_put_back_predict_the_same_and_leave_the_optimizer_alone() -> None:
    one, other = small(), small()
    one.advance(PRIVATE, PUBLIC, UNLABELED, 1.0)
    other.advance(PRIVATE, PUBLIC, UNLABELED, 1.0)
    other.advance(PRIVATE, PUBLIC, UNLABELED, 1.0)
    taken, optimizer = one.weights(), _tensors(other.dump())
    other.set_weights(taken)
    np.testing.assert_array_equal(other.predict(X), one.predict(X))
    after = _tensors(other.dump())
    assert all(torch.equal(after[name], optimizer[name]) for name in after if not name.startswith("network."))
    one.advance(PRIVATE, PUBLIC, UNLABELED, 1.0)
    np.testing.assert_array_equal(taken["weight"], other.weights()["weight"])


@pytest.mark.parametrize("weights", [{}, {"weight": np.zeros((2, 5)), "bias": np.zeros(2)}])
def test_weights_of_another_network_are_refused(weights: dict[str, Any]) -> None:
    with pytest.raises(TrainingError, match="do not fit"):
        small().set_weights(weights)


def test_an_output_that_is_not_one_logit_per_class_is_a_settings_error() -> None:
    learner = TorchLearner(lambda: nn.Linear(4, 7), 3, Training(), device="cpu")
    with pytest.raises(ConfigError, match=r"shape \(2, 7\).*3 classes"):
        learner.check_output(X)


@pytest.mark.parametrize(
    ("last", "told"),
    [(nn.Softmax(dim=1), True), (nn.Sigmoid(), True), (nn.LogSoftmax(dim=1), False), (nn.ReLU(), False)],
)
def test_outputs_that_are_probabilities_are_named(last: nn.Module, told: bool) -> None:
    learner = TorchLearner(lambda: nn.Sequential(nn.Linear(4, 2), last), 2, Training(), device="cpu")
    learner.check_output(X)
    assert ("leave out its last Softmax" in learner.remark) is told


def test_features_that_do_not_fit_are_named_as_preprocessing_made_them() -> None:
    wider = FunctionTransformer(lambda X: np.c_[X, X[:, :1]])
    learner = TorchLearner(lambda: nn.Linear(4, 2), 2, Training(), device="cpu", transformer=wider)
    with pytest.raises(ConfigError, match=r"shape \(5,\), which preprocessing made of \(4,\) \(preprocessing = 'none'"):
        learner.check_output(X)
    with pytest.raises(ConfigError, match=r"shape \(3,\), use one"):
        small().check_output(X[:, :3])


def test_a_network_begins_the_same_while_other_threads_train_and_make_networks() -> None:
    def fresh() -> Any:
        return TorchLearner(lambda: nn.Linear(4, 500), 500, Training(), device="cpu").weights()["weight"]

    alone, over = fresh(), threading.Event()

    def train() -> None:
        learner = small(local_steps=1)
        while not over.is_set():
            learner.advance(PRIVATE, PUBLIC, UNLABELED, 1.0)

    def look() -> None:
        while not over.is_set():
            make("fedct_flwr.learners.networks.mlp", {"num_features": 784, "num_classes": 10, "width": 8})

    others = [threading.Thread(target=work) for work in (train, look)]
    for thread in others:
        thread.start()
    try:
        assert all((fresh() == alone).all() for _ in range(300))
    finally:
        over.set()
        for thread in others:
            thread.join()


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_rate_that_falls_is_the_same_where_training_goes_on_from_a_stored_state(optimizer: str) -> None:
    settings = {"local_steps": 5, "decay_steps": 12, "learning_rate": 0.1, "optimizer": optimizer}
    whole = small(**settings)
    resumed = small(**settings)
    for _ in range(4):
        whole.advance(PRIVATE, PUBLIC, UNLABELED, 1.0)
        state, resumed = resumed.dump(), small(**settings)
        resumed.restore(state)
        resumed.advance(PRIVATE, PUBLIC, UNLABELED, 1.0)
    assert whole.dump() == resumed.dump()
    weights = whole.weights()
    whole.advance(PRIVATE, PUBLIC, UNLABELED, 1.0)
    moved = max(np.abs(value - weights[name]).max() for name, value in whole.weights().items())
    # A hundredth is left of a rate of .1, and no step goes further than the rate times a few.
    assert 0 < moved < 0.1 * 0.01 * 5 * 5


def _tensors(state: bytes) -> dict[str, torch.Tensor]:
    from safetensors.torch import load

    return load(state)


# --- images changed at random while a network trains


IMAGES = torch.rand(64, 3, 16, 24, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_all_kinds_keep_shape_and_follow_the_seed() -> None:
    first = augmented(IMAGES, AUGMENTATIONS)
    torch.manual_seed(0)
    assert torch.equal(first, augmented(IMAGES, AUGMENTATIONS))
    assert first.shape == IMAGES.shape
    assert not torch.equal(first, augmented(IMAGES, AUGMENTATIONS))
    assert augmented(IMAGES, []) is IMAGES


def test_a_network_is_trained_on_changed_images_and_predicts_from_those_that_are() -> None:
    X = np.zeros((40, 1, 28, 28), dtype=np.uint8)
    X[::2, ..., :8] = 255  # told apart by the side alone, which flips hide
    X[1::2, ..., -8:] = 255
    y = np.tile(np.array([0, 1], dtype=np.int16), 20)
    scores = []
    for params in ({}, {"augment": "flip"}):
        settings = LearnerSettings(name="mlp", params=params, device="cpu")
        learner = untrained(settings, 0, ("a", "b"), X[:2], None, total_steps=60)
        scores.append((learner.fit(X, y).predict(X) == y).mean())
    assert scores[0] == 1.0
    assert scores[1] < 1.0
