"""Networks of several silos that train as one learn what they do one after the other."""

import logging
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedct_flwr.config.learner import Training
from fedct_flwr.learners import Correction, networks, stacked
from fedct_flwr.learners.meeting import together
from fedct_flwr.learners.networks import Course, Labeling
from fedct_flwr.learners.stacked import Stacks
from fedct_flwr.learners.torch_net import TorchLearner
from fedct_flwr.types import ABSTAIN, Examples, TrainingError

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(60, 6)).astype(np.float32)
IMAGES = RNG.integers(0, 256, size=(60, 1, 8, 8), dtype=np.uint8)
LABELS = RNG.integers(0, 3, size=60).astype(np.int16)
TARGETS = np.where(np.arange(20) < 15, RNG.integers(0, 3, size=20), ABSTAIN).astype(np.int16)
SHARES = np.where(TARGETS[:, None] == ABSTAIN, 0, RNG.dirichlet(np.ones(3), size=20)).astype(np.float32)
SILOS = 3


def dropping(rate: float = 0.4) -> nn.Module:
    return nn.Sequential(
        nn.Linear(6, 16), nn.ReLU(), nn.BatchNorm1d(16), nn.Dropout(rate), nn.Linear(16, 8), nn.Dropout(0.0), nn.Tanh(),
        nn.Linear(8, 3),
    )  # fmt: skip


def cnn() -> nn.Module:
    """Without a bias before batch norm, which has no gradient but rounding's: Adam would take that for one."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout2d(), nn.Conv2d(4, 8, 3), nn.Dropout(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3),
    )  # fmt: skip


def learners(make: Callable[[], nn.Module], augment: tuple[str, ...] = (), **training: Any) -> list[TorchLearner]:
    values = Training().model_copy(update={"local_steps": 7, "batch_size": 8, "learning_rate": 0.01, **training})
    return [TorchLearner(make, 3, values, augment=augment, seed=seed, device="cpu") for seed in range(SILOS)]


def records(X: np.ndarray[Any, Any], silo: int) -> Examples:
    """Each silo has another number of them."""
    return Examples(X[20 + 10 * silo : 35 + 11 * silo], LABELS[20 + 10 * silo : 35 + 11 * silo])


def learn(
    learner: TorchLearner, X: np.ndarray[Any, Any], silo: int, *, soft: bool = False, corrected: bool = False
) -> bytes:
    """Two rounds and a half: alone, with others' labels, and corrected."""
    private, public = records(X, silo), X[:20]
    learner.advance(private, public, np.full(20, ABSTAIN, dtype=np.int16), 1.0)
    if soft:
        learner.advance_soft(private, public, SHARES, 0.5)
    else:
        learner.advance(private, public, TARGETS, 0.3)
    if corrected:
        shift = {name: np.full(learner.weights()[name].shape, 0.1 * silo, np.float32) for name in learner.parameters}
        learner.advance_corrected(private, Correction(0.5, shift))
    return learner.dump()


def alike(one: TorchLearner, other: TorchLearner) -> None:
    for name, value in one.weights().items():
        np.testing.assert_allclose(other.weights()[name], value, rtol=1e-3, atol=2e-5, err_msg=name)


CORRECTED = {"corrected": True}
WAYS = {
    "mlp": (partial(networks.mlp, 6, 3, 16), TABLE, {}, {}),
    "mlp, sgd": (partial(networks.mlp, 6, 3, 16), TABLE, {"optimizer": "sgd", "learning_rate": 0.1}, CORRECTED),
    "mlp, corrected": (partial(networks.mlp, 6, 3, 16), TABLE, {"weight_decay": 0.01}, CORRECTED),
    "mlp, falling rate": (partial(networks.mlp, 6, 3, 16), TABLE, {"decay_steps": 12}, {}),
    "mlp, balanced": (partial(networks.mlp, 6, 3, 16), TABLE, {"class_weight": "balanced"}, {}),
    "mlp, shares": (partial(networks.mlp, 6, 3, 16), TABLE, {"class_weight": "balanced"}, {"soft": True}),
    "dropout and batch norm": (dropping, TABLE, {}, {}),
    "cnn": (partial(networks.small_cnn, 3, 1, 4), IMAGES, {"optimizer": "sgd", "learning_rate": 0.1}, {}),
    "cnn, dropout, augmentation": (cnn, IMAGES, {"augment": ("flip", "shift", "brightness")}, {}),
}  # fmt: skip


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many networks each stack has trained."""
    found, train = [], stacked.Stack.train

    def counted(stack: stacked.Stack, courses: Sequence[Course]) -> None:
        train(stack, courses)
        found.append(len(courses))

    monkeypatch.setattr(stacked.Stack, "train", counted)
    return found


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """What was logged."""
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    caplog.set_level(logging.INFO, "flwr")
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("way", WAYS)
def test_stacked_networks_learn_what_they_do_one_after_the_other(way: str, stacks: list[int]) -> None:
    make, X, training, how = WAYS[way]
    one, other = learners(make, **training), learners(make, **training)
    for silo, learner in enumerate(one):
        learn(learner, X, silo, **how)
    together([partial(learn, learner, X, silo, **how) for silo, learner in enumerate(other)], Stacks(SILOS).train)
    assert stacks == [SILOS] * (2 + how.get("corrected", False))
    for before, after in zip(one, other, strict=True):
        alike(before, after)
        # Both go on alone, from optimizers in the same state.
        before.advance(records(X, 0), X[:20], TARGETS, 1.0)
        after.advance(records(X, 0), X[:20], TARGETS, 1.0)
        alike(before, after)


def test_a_stack_goes_on_in_the_next_round_and_labels_as_its_networks_do(monkeypatch: pytest.MonkeyPatch) -> None:
    made, make = [], stacked.Stack

    def counted(courses: Sequence[Course]) -> stacked.Stack:
        made.append(len(courses))
        return make(courses)

    monkeypatch.setattr(stacked, "Stack", counted)
    one, other, stacks = learners(dropping), learners(dropping), Stacks(SILOS)

    def round_of(learner: TorchLearner, silo: int) -> None:
        learner.advance(records(TABLE, silo), TABLE[:20], TARGETS, 0.3)

    for _ in range(3):
        together([partial(round_of, learner, silo) for silo, learner in enumerate(other)], stacks.train)
        for silo, learner in enumerate(one):
            round_of(learner, silo)
    assert made == [SILOS]
    for rows in (None, np.arange(3, 9)):
        labelings = [Labeling(learner, torch.from_numpy(TABLE), rows) for learner in reversed(other)]
        for labeling in labelings[1:]:
            labeling.X = labelings[0].X
        assert stacks.train(labelings) == [None] * SILOS
        for before, labeling in zip(reversed(one), labelings, strict=True):
            wanted = before.predict(TABLE if rows is None else TABLE[rows])
            np.testing.assert_array_equal(labeling.labels, wanted)
    labelings[0].learner.network.get_parameter("0.weight").data.fill_(math.nan)
    stacks.train(labelings)
    assert [labeling.labels is None for labeling in labelings] == [True, False, False]


def test_a_marked_network_is_put_back_to_where_it_stood() -> None:
    one, other = learners(dropping)[0], learners(dropping)[0]
    learn(one, TABLE, 0)
    mark, wanted = one.mark(), one.dump()
    assert one.mark() == mark
    learn(one, TABLE, 1)
    other.restore(wanted)
    one.restore(mark)
    assert one.dump() == wanted
    one.restore(mark)
    assert learn(one, TABLE, 1) == learn(other, TABLE, 1) != wanted
    assert one.mark() != mark
    with pytest.raises(TrainingError):
        one.restore(mark)


def test_networks_of_other_shapes_train_by_themselves_and_it_is_said(
    stacks: list[int], said: Callable[[], list[str]]
) -> None:
    narrow, wide = learners(partial(networks.mlp, 6, 3, 4)), learners(partial(networks.mlp, 6, 3, 8))
    mixed = [narrow[0], wide[1], narrow[2]]
    together([partial(learn, learner, TABLE, silo) for silo, learner in enumerate(mixed)], Stacks(SILOS).train)
    assert stacks == [2, 2]
    assert said() == ["Silos' networks differ: those of each architecture train by themselves"]
    for silo, other in enumerate(learners(partial(networks.mlp, 6, 3, width)) for width in (4, 8, 4)):
        learn(other[silo], TABLE, silo)
        alike(other[silo], mixed[silo])


class Drawing(nn.Module):
    """Draws where a stack cannot see it, or has numbers of its own that no state holds."""

    def __init__(self, *, functional: bool) -> None:
        super().__init__()
        self.layer, self.functional = nn.Linear(6, 3), functional
        self.own = [torch.rand(1)]

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layer(X)
        return nn.functional.dropout(logits, 0.5, self.training) if self.functional else logits * self.own[0]


@pytest.mark.parametrize("functional", [True, False])
def test_what_cannot_be_stacked_trains_one_after_the_other_and_it_is_said(
    functional: bool, stacks: list[int], said: Callable[[], list[str]]
) -> None:
    make = partial(Drawing, functional=functional)
    one, other = learners(make), learners(make)
    for silo, learner in enumerate(one):
        learn(learner, TABLE, silo)
    together([partial(learn, learner, TABLE, silo) for silo, learner in enumerate(other)], Stacks(SILOS).train)
    assert stacks == []
    assert len(said()) == 1
    assert "cannot be stacked, so silos' networks train one after the other" in said()[0]
    for before, after in zip(one, other, strict=True):
        assert before.dump() == after.dump()


def test_a_loss_that_is_not_finite_stops_its_silo_alone_in_its_last_good_state() -> None:
    one, other = learners(dropping), learners(dropping)
    learn(one[0], TABLE, 0)
    broken, before = Examples(np.full_like(TABLE, math.nan), LABELS), other[1].dump()
    failed = []

    def fail() -> None:
        with pytest.raises(TrainingError, match="loss is not finite"):
            other[1].advance(broken, TABLE[:20], np.full(20, ABSTAIN, dtype=np.int16), 1.0)
        failed.append(other[1].dump() == before)

    together([partial(learn, other[0], TABLE, 0), fail], Stacks(SILOS).train)
    assert failed == [True]
    alike(one[0], other[0])


def test_only_small_networks_of_full_layers_pay_on_a_cpu(stacks: list[int], said: Callable[[], list[str]]) -> None:
    for make, X in ((partial(networks.mlp, 6, 3, 16), TABLE), (cnn, IMAGES)):
        silos = enumerate(learners(make))
        together([partial(learn, learner, X, silo) for silo, learner in silos], Stacks().train)
    assert stacks == [SILOS] * 2
    assert said() == ["Silos' networks train one after the other, which is faster on a CPU for networks like these"]
