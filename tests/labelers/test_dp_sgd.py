"""DP-SGD: clipping, noise and sampling as the event says, and a planted leak that is caught."""

import logging
import math
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from dp_accounting import ComposedDpEvent, NoOpDpEvent
from scipy import stats
from torch import Tensor, nn

from fedct_flwr.labelers import dp_sgd
from fedct_flwr.labelers.dp_sgd import DpSgdLabeler
from fedct_flwr.labelers.labeler import Asked
from fedct_flwr.learners import networks
from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.randomness import SecureNoise, SimulatedNoise
from fedct_flwr.types import ABSTAIN, ConfigError, Examples, TrainingError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int16)
PRIVATE, PUBLIC = Examples(X[:200], Y[:200]), X[200:]
NO_TARGETS = np.full(100, ABSTAIN, dtype=np.int16)
EVERYTHING = np.arange(100)
CALIBRATED = dp_sgd._least_noise


@pytest.fixture(autouse=True)
def _some_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """To calibrate the noise takes seconds."""
    monkeypatch.setattr(dp_sgd, "_least_noise", lambda *plan: 1.2)


@pytest.fixture
def _calibrated(_some_noise: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is calibrated nevertheless."""
    monkeypatch.setattr(dp_sgd, "_least_noise", CALIBRATED)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def labeler(make: Any = network, **settings: Any) -> DpSgdLabeler:
    values: dict[str, Any] = {
        "num_records": 200, "batch_size": 20, "total_steps": 40, "steps_per_round": 10, "learning_rate": 0.01,
        "clipping_norm": 1.0, "epsilon": 2.0, "delta": 1e-5, "seed": 0, "device": "cpu",
    }  # fmt: skip
    return DpSgdLabeler(make, 2, **values | settings)


def asked(private: Examples = PRIVATE, targets: Any = NO_TARGETS, positions: Any = EVERYTHING) -> Asked:
    return Asked(private, PUBLIC, targets, np.zeros(len(positions), np.int16), positions)


def seeded(seed: int = 0) -> SimulatedNoise:
    return SimulatedNoise(np.random.default_rng(seed))


def gradient(model: DpSgdLabeler, X: Any, y: Any) -> Tensor:
    """The clipped gradients' sum as one vector."""
    inputs, labels = torch.from_numpy(np.array(X, np.float32)), torch.from_numpy(np.array(y, np.int64))
    model._ready_to_train()
    gradients = model._clipped_sum(inputs, labels, torch.ones(len(labels)))
    return torch.cat([part.flatten() for part in gradients])


def plain_gradient(module: nn.Module, X: Any, y: Any) -> Tensor:
    """The gradient of the losses' sum, by torch alone."""
    inputs, labels = torch.from_numpy(np.array(X, np.float32)), torch.from_numpy(np.array(y, np.int64))
    loss = nn.functional.cross_entropy(module(inputs), labels, reduction="sum")
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(module.parameters()))])


def same_network(model: DpSgdLabeler, make: Any = network) -> nn.Module:
    """A network with the same weights."""
    plain: nn.Module = make()
    plain.load_state_dict(model._network.state_dict())
    return plain


# --- clipping


CONVOLUTIONS = lambda: nn.Sequential(  # noqa: E731
    nn.Unflatten(1, (1, 2, 2)),
    nn.Conv2d(1, 4, 2, padding=1),
    nn.GroupNorm(2, 4),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(36, 2),
)


@pytest.mark.parametrize("make", [network, CONVOLUTIONS], ids=["layers", "convolutions"])
@pytest.mark.parametrize("norm", [0.01, 0.3, 2.0])
def test_the_gradient_of_each_record_is_clipped_by_itself(make: Any, norm: float) -> None:
    model = labeler(make, clipping_norm=norm)
    plain = same_network(model, make)
    extreme = PRIVATE.X[:12] * np.logspace(-3, 3, 12, dtype=np.float32)[:, None]
    clipped = []
    for x, y in zip(extreme, PRIVATE.y, strict=False):
        own = plain_gradient(plain, x[None], [y])
        clipped.append(own * min(1.0, norm / float(own.norm())))
        alone = gradient(model, x[None], [y])
        assert float(alone.norm()) <= norm
        torch.testing.assert_close(alone, clipped[-1], rtol=1e-3, atol=1e-6)
    together = gradient(model, extreme, PRIVATE.y[:12])
    torch.testing.assert_close(together, torch.stack(clipped).sum(0), rtol=1e-3, atol=1e-5)


def test_dropout_is_left_out_so_that_one_record_less_moves_no_other() -> None:
    wide = lambda: nn.Sequential(nn.Linear(4, 64), nn.Dropout(), nn.Linear(64, 2))  # noqa: E731
    model = labeler(wide, clipping_norm=0.5)
    sums = []
    for first in (0, 1):
        model._ready_to_train()
        torch.manual_seed(0)
        sums.append(gradient(model, PRIVATE.X[first:9], PRIVATE.y[first:9]))
    assert float((sums[0] - sums[1]).norm()) <= 0.5 + 1e-5


def test_weights_that_are_frozen_are_neither_trained_nor_counted() -> None:
    def make() -> nn.Module:
        module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        module[0].weight.requires_grad_(False)
        module[2].bias.requires_grad_(False)
        return module

    model = labeler(make, clipping_norm=0.01)
    before = same_network(model, make)
    # A step that clips: what counts is the norm of the trained weights' gradient alone.
    assert math.isclose(float(gradient(model, X[:1] * 9, Y[:1]).norm()), 0.01, rel_tol=1e-3)
    model.check(PUBLIC)
    model.answer(asked(), seeded())
    same = [torch.equal(a, b) for a, b in zip(model._network.parameters(), before.parameters(), strict=True)]
    assert same == [True, False, False, True]


def test_without_noise_and_clipping_a_round_is_plain_training_on_the_same_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = labeler(clipping_norm=1e6, batch_size=200, steps_per_round=5)  # all records, every step
    model.noise_multiplier = 1e-12
    plain = same_network(model)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.01, momentum=1 - 3 / 40)
    for step in range(5):
        optimizer.zero_grad()
        optimizer.param_groups[0]["lr"] = 0.01 / (1 + 5 * step / 40)
        inputs, labels = torch.from_numpy(PRIVATE.X), torch.from_numpy(PRIVATE.y.astype(np.int64))
        nn.functional.cross_entropy(plain(inputs), labels).backward()
        optimizer.step()
    model.answer(asked(), seeded())
    for ours, theirs in zip(model._network.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


# --- noise and sampling


@pytest.mark.parametrize("norm", [0.1, 3.0])
def test_the_noise_is_normal_with_noise_multiplier_times_clipping_norm(
    norm: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = labeler(
        lambda: nn.Sequential(nn.Linear(4, 14_000), nn.Linear(14_000, 2)), clipping_norm=norm, steps_per_round=1
    )
    taken: list[Tensor] = []

    def step() -> None:
        taken.append(torch.cat([parameter.grad.flatten() for parameter in model._trained]))  # type: ignore[union-attr]

    # What the optimizer is given, times the average batch: the noise alone, as there are no records.
    monkeypatch.setattr(model._optimizer, "step", step)
    model.answer(asked(Examples(X[:0], Y[:0])), SecureNoise())
    assert len(taken) == 1
    drawn = (taken[0] * 20).double().numpy()
    std = model.noise_multiplier * norm
    assert len(drawn) == 5 * 14_000 + 2 * 14_000 + 2
    assert stats.kstest(drawn, "norm", args=(0, std)).pvalue > 1e-4
    # Within 5 standard deviations of the estimate.
    assert math.isclose(drawn.std(), std, rel_tol=5 / math.sqrt(2 * len(drawn)))


def test_records_are_sampled_one_by_one_at_the_planned_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    model = labeler(steps_per_round=2000, total_steps=2000, epsilon=50.0)
    batches: list[Any] = []

    def record(X: Tensor, y: Tensor, weights: Tensor) -> list[Tensor]:
        batches.append(X[:, 0].numpy().copy())
        return [torch.zeros_like(parameter) for parameter in model._trained]

    monkeypatch.setattr(model, "_clipped_sum", record)
    model.answer(asked(), SecureNoise())
    sizes = np.array([len(batch) for batch in batches])
    assert all(len(np.unique(batch)) == len(batch) for batch in batches)
    # Of independent coins, sizes are binomial: their variance tells coins from fixed sizes or from blocks.
    assert abs(sizes.mean() - 20) < 5 * math.sqrt(18 / 2000)
    assert abs(sizes.var() / 18 - 1) < 5 * math.sqrt(2 / 2000)
    values, counts = np.unique(np.concatenate(batches), return_counts=True)
    assert len(values) == 200
    assert stats.chisquare(counts).pvalue > 1e-4


# --- the plan and what it costs


@pytest.mark.parametrize(("rounds", "steps"), [(1, 30), (5, 6), (7, 5), (30, 1), (100, 1)])
@pytest.mark.parametrize(("noise", "far"), [(0.4, 104.0), (0.1, 208.0), (1e-6, 416.0)])
def test_a_plan_has_some_thirty_steps_that_go_equally_far_for_equal_noise(
    rounds: int, steps: int, noise: float, far: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = dp_sgd.plan(rounds)
    assert [*plan.values()] == [steps * rounds, steps]
    # Down an even slope, as steep as the clipping norm allows.
    monkeypatch.setattr(dp_sgd, "_least_noise", lambda *of: noise * math.sqrt(steps * rounds))
    model = labeler(lambda: nn.Linear(4, 2), batch_size=200, clipping_norm=2.0, learning_rate=None, **plan)
    model.check(PUBLIC)
    monkeypatch.setattr(dp_sgd, "gaussians", lambda source, count, std: np.zeros(count, np.float32))
    slope = [torch.full_like(parameter, 2.0) for parameter in model._trained]
    monkeypatch.setattr(model, "_clipped_sum", lambda *of: [part.clone() for part in slope])
    before = model._trained[1].detach().clone()
    for _ in range(rounds):
        model.answer(asked(), seeded())
    assert isinstance(model.event(asked()), NoOpDpEvent)
    torch.testing.assert_close(before - model._trained[1], torch.full((2,), far), rtol=0.06, atol=0)


@pytest.mark.usefixtures("_calibrated")
def test_the_whole_plan_costs_what_was_allowed_and_not_much_less() -> None:
    model = labeler(steps_per_round=15)
    events = []
    while not isinstance(event := model.event(asked()), NoOpDpEvent):
        events.append(event)
        model.answer(asked(), seeded())
    assert [event.count for event in events] == [15, 15, 10]
    spent = epsilon(ComposedDpEvent(events), 1e-5).upper
    assert 1.95 <= spent <= 2.0


# --- networks and states that do not do


def batch_norm(**settings: Any) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8, **settings), nn.Linear(8, 2))


class Buffered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, X: Tensor) -> Tensor:
        return self.layer(X - self.mean)  # type: ignore[no-any-return,operator]


@pytest.mark.parametrize("make", [batch_norm, lambda: batch_norm(affine=False, track_running_stats=False), Buffered])
def test_a_network_that_learns_from_batches_without_noise_is_refused(make: Any) -> None:
    with pytest.raises(ConfigError, match="which DP-SGD cannot train: use group or layer"):
        labeler(make).check(PUBLIC)


def test_a_network_without_gradients_by_example_is_refused() -> None:
    class Random(nn.Linear):
        def forward(self, X: Tensor) -> Tensor:
            return super().forward(X) if not self.training else super().forward(X + torch.rand(4))

    with pytest.raises(ConfigError, match="the network's gradients cannot be clipped"):
        labeler(lambda: Random(4, 2)).answer(asked(), seeded())


class Centered(nn.Module):
    """Each output depends on the whole batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, X: Tensor) -> Tensor:
        return self.layer(X - 0.5 * X.mean(0))  # type: ignore[no-any-return]


class Borrowed(nn.Module):
    """Uses a layer's weight twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.last = nn.Linear(4, 2)

    def forward(self, X: Tensor) -> Tensor:
        return self.last(nn.functional.linear(self.layer(X), 3 * self.layer.weight))  # type: ignore[no-any-return]


@pytest.mark.parametrize("make", [Centered, Borrowed])
def test_one_record_moves_the_sum_by_the_clipping_norm_at_most_whatever_the_network_does(make: Any) -> None:
    model = labeler(make, clipping_norm=0.01)
    model.check(PUBLIC)
    extreme = 100 * PRIVATE.X[:9]
    whole, fewer = gradient(model, extreme, PRIVATE.y[:9]), gradient(model, extreme[1:], PRIVATE.y[1:9])
    assert float((whole - fewer).norm()) <= 0.01 * 1.001


@pytest.mark.parametrize("value", [math.nan, math.inf, -1e300, 1e155, 3e38])
def test_no_value_of_a_record_stops_it_or_moves_the_weights_further_than_another_record(value: float) -> None:
    odd = PRIVATE.X.astype(np.float64)
    odd[0] = value
    model = labeler(seed=3)
    labels = model.answer(asked(Examples(odd, PRIVATE.y)), seeded())
    assert ((labels >= 0) & (labels < 2)).all()
    inputs = model._tensor(odd[:1])
    assert bool(inputs.isfinite().all())
    gradients = model._clipped_sum(inputs, torch.tensor([1]), torch.ones(1))
    assert torch.cat([part.flatten() for part in gradients]).norm() <= 1.0


def test_records_of_another_shape_are_refused_before_anything_is_charged() -> None:
    other = asked(Examples(np.zeros((200, 5), np.float32), PRIVATE.y))
    for refuse in (labeler().event, lambda question: labeler().answer(question, seeded())):
        with pytest.raises(TrainingError, match="shape"):
            refuse(other)


@pytest.mark.parametrize("at_once", [64, 2])
@pytest.mark.parametrize("odd", [0, 3, 6])
def test_an_example_that_the_network_raises_an_exception_for_adds_nothing(at_once: int, odd: int) -> None:
    model = labeler(lambda: nn.Sequential(Codes(), nn.Embedding(5, 4), nn.Flatten(), nn.Linear(16, 2)))
    inputs, labels = torch.full((7, 4), 3.0), torch.from_numpy(PRIVATE.y[:7].astype(np.int64))
    others = torch.arange(7) != odd
    expected = model._clipped_sum(inputs[others], labels[others], torch.ones(6))
    inputs[odd, 1] = 5
    found = model._clipped_sum(inputs, labels, torch.ones(7), at_once)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


class Codes(nn.Module):
    def forward(self, X: Tensor) -> Tensor:
        return X.long()


@pytest.mark.parametrize(
    ("make", "shape"),
    [(partial(networks.mlp, 784, 10, 512), (784,)), (CONVOLUTIONS, (4,)), (network, (4,))],
)
def test_norms_alone_clip_as_each_records_own_gradient_does(
    monkeypatch: pytest.MonkeyPatch, make: Any, shape: tuple[int, ...]
) -> None:
    model = labeler(make, clipping_norm=0.1)
    assert dp_sgd._can_clip_by_norms(model._network)
    model._ready_to_train()
    rng = torch.Generator().manual_seed(0)
    X, weights = torch.randn((70, *shape), generator=rng), torch.rand(70, generator=rng)
    y = torch.randint(2, (70,), generator=rng)
    X[3] = math.nan
    found = model._clipped_sum(X, y, weights)
    monkeypatch.setattr(dp_sgd, "_can_clip_by_norms", lambda network: False)
    for one, other in zip(found, model._clipped_sum(X, y, weights), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    assert not any(parameter.grad is not None for parameter in model._network.parameters())


@pytest.mark.parametrize(
    "layer", [nn.Flatten(0), nn.Unflatten(0, (1, -1)), nn.LSTM(4, 2), nn.Softmax(dim=0), nn.MultiheadAttention(4, 1)]
)
def test_layers_that_may_mix_records_get_a_gradient_for_each(layer: nn.Module) -> None:
    assert not dp_sgd._can_clip_by_norms(nn.Sequential(nn.Linear(4, 4), layer))


def twice() -> nn.Module:
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Linear(4, 2))


def padded() -> nn.Module:
    images = nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular")
    return nn.Sequential(nn.Unflatten(1, (1, 2, 2)), images, nn.Flatten(), nn.Linear(8, 2))


@pytest.mark.parametrize("make", [twice, padded])
def test_weights_in_two_places_and_other_padding_are_clipped_as_any_others(make: Any) -> None:
    model = labeler(make, clipping_norm=0.1)
    plain = same_network(model, make)
    for x, y in zip(PRIVATE.X[:5], PRIVATE.y, strict=False):
        own = plain_gradient(plain, x[None], [y])
        expected = own * min(1.0, 0.1 / float(own.norm()))
        torch.testing.assert_close(gradient(model, x[None], [y]), expected, rtol=1e-3, atol=1e-6)


def test_its_import_leaves_the_root_logger_as_it_was() -> None:
    code = "import logging, fedct_flwr.labelers.dp_sgd; print(logging.root.handlers, logging.root.level)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == f"[] {logging.WARNING}\n"
