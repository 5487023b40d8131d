"""Speed of what stands between the labels and the way out: ``python -m pytest benchmarks/test_privacy_speed.py``."""

from pathlib import Path

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from pytest_benchmark.fixture import BenchmarkFixture

from fedct_flwr.privacy.budget import Budget
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.privacy.mechanisms import Gaussian, Gumbel, Laplace, Mechanism, RandomizedResponse, Xor
from fedct_flwr.privacy.randomness import SecureNoise

EXAMPLES, CLASSES, TEACHERS = 50_000, 10, 25


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
