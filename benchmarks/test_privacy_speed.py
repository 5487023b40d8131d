"""Speed of what stands between the labels and the way out: ``python -m pytest -s benchmarks/test_privacy_speed.py``."""

import time
from pathlib import Path
from statistics import median

import numpy as np
import pytest
import torch
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from pytest_benchmark.fixture import BenchmarkFixture
from torch import nn

from fedct_flwr.labelers.dp_sgd import DpSgdLabeler
from fedct_flwr.labelers.labeler import Asked
from fedct_flwr.learners.networks import fashion_mnist_mlp
from fedct_flwr.learners.torch_net import TorchLearner, Training
from fedct_flwr.privacy.budget import Budget
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.privacy.mechanisms import Gaussian, Gumbel, Laplace, Mechanism, RandomizedResponse, Xor
from fedct_flwr.privacy.randomness import SecureNoise
from fedct_flwr.types import Examples

EXAMPLES, CLASSES, TEACHERS = 50_000, 10, 25
STEPS = 20


@pytest.mark.benchmark(group="50,000 labels of 10 classes: at most 10 ms")
@pytest.mark.parametrize("mechanism", [Xor(CLASSES, 0.5), RandomizedResponse(CLASSES, 1.0)], ids=["xor", "k-rr"])
def test_labels(benchmark: BenchmarkFixture, mechanism: Mechanism) -> None:
    """Secure noise on a silo's labels."""
    labels = np.random.default_rng(0).integers(0, CLASSES, EXAMPLES).astype(np.int16)
    benchmark(mechanism, labels, SecureNoise())


@pytest.mark.benchmark(group="1,000 counts of 25 teachers' votes for 10 classes")
@pytest.mark.parametrize(
    "mechanism", [Laplace(25.0), Gaussian(25.0), Gumbel(25.0)], ids=["laplace", "gaussian", "gumbel"]
)
def test_counts(benchmark: BenchmarkFixture, mechanism: Mechanism) -> None:
    """Secure noise on teachers' votes."""
    counts = np.random.default_rng(0).multinomial(TEACHERS, [1 / CLASSES] * CLASSES, 1000)
    benchmark(mechanism, counts, SecureNoise())


@pytest.mark.benchmark(group="one charge, on the disk: at most 20 ms")
@pytest.mark.parametrize("charged", [0, 1000])
def test_charge(benchmark: BenchmarkFixture, tmp_path: Path, charged: int) -> None:
    """Checked against all charges so far, synced, marked."""
    sgd = SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(2.0)), 10)
    budget = Budget(1000.0, 1e-5)
    with Ledger(tmp_path) as ledger:
        for _ in range(charged):
            ledger.charge("study", "records", budget, pure(0.01))
        benchmark.pedantic(ledger.charge, ("study", "records", budget, sgd), rounds=100, warmup_rounds=2)


def small_network() -> nn.Module:
    """For a table of 30 columns."""
    return nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, CLASSES))


@pytest.mark.parametrize("batch_size", [64, 256])
@pytest.mark.parametrize("network", [fashion_mnist_mlp, small_network])
def test_twenty_steps(benchmark: BenchmarkFixture, network: type[nn.Module], batch_size: int) -> None:
    """DP-SGD, which takes turns with plain steps on minibatches as large: at most 2.5 times as long."""
    torch.set_num_threads(1)
    benchmark.group = f"{STEPS} steps of {network.__name__}, batches of 2 x {batch_size}"
    rng = np.random.default_rng(0)
    width = 28 * 28 if network is fashion_mnist_mlp else 30
    X, public = (rng.normal(size=(2000, width)).astype(np.float32) for _ in range(2))
    y, targets = (rng.integers(0, CLASSES, 2000).astype(np.int16) for _ in range(2))
    asked = Asked(Examples(X, y), public, targets, targets[:1], np.arange(1))
    labeler = DpSgdLabeler(
        network,
        CLASSES,
        num_records=2000,
        batch_size=batch_size,
        total_steps=1000,
        steps_per_round=STEPS,
        learning_rate=1e-3,
        clipping_norm=1.0,
        epsilon=8.0,
        delta=1e-5,
        seed=0,
        device="cpu",
    )
    learner = TorchLearner(network, CLASSES, Training(STEPS, batch_size=batch_size), device="cpu")
    plain: list[float] = []

    def plain_steps() -> None:
        start = time.perf_counter()
        learner.advance(asked.private, public, targets, 1.0)
        plain.append(time.perf_counter() - start)

    benchmark.pedantic(labeler.answer, (asked, SecureNoise()), setup=plain_steps, rounds=20, warmup_rounds=2)
    if benchmark.enabled:
        factor = benchmark.stats["median"] / median(plain)
        benchmark.extra_info["times plain steps"] = factor
        print(f"{benchmark.group}: {factor:.2f} times plain steps")
        assert factor <= 2.5
