"""Speed, side by side with a yardstick: ``python -m pytest benchmarks``. Never part of the tests."""

import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from pytest_benchmark.fixture import BenchmarkFixture
from threadpoolctl import threadpool_limits

from fedct_flwr.config import RunConfig
from fedct_flwr.consensus.agreement import agreement
from fedct_flwr.consensus.counting import Ballot, plurality, tally
from fedct_flwr.consensus.dawid_skene import dawid_skene
from fedct_flwr.consensus.trust import similarity, targets_of, trust, uniform
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.silo.site import simulated_site
from fedct_flwr.wire.codec import decode_instruction, encode_reply
from fedct_flwr.wire.content import Reply
from fedct_flwr.wire.messages import from_record, to_record
from server_app.main import app as server_app

SILOS, EXAMPLES, CLASSES = 100, 100_000, 10


@pytest.fixture(scope="module")
def votes() -> np.ndarray[Any, np.dtype[np.int16]]:
    """100 silos' labels."""
    return np.random.default_rng(0).integers(0, CLASSES, (SILOS, EXAMPLES), dtype=np.int16)


@pytest.mark.benchmark(group="plurality of 100 silos x 100,000 examples x 10 classes")
def test_five_passes_of_a_numpy_sum(benchmark: BenchmarkFixture, votes: np.ndarray[Any, Any]) -> None:
    """The yardstick."""
    benchmark(lambda: [votes.sum() for _ in range(5)])


@pytest.mark.benchmark(group="plurality of 100 silos x 100,000 examples x 10 classes")
def test_plurality(benchmark: BenchmarkFixture, votes: np.ndarray[Any, Any]) -> None:
    """Tally and decide."""
    incumbent = np.full(EXAMPLES, -1, dtype=np.int16)
    benchmark(lambda: plurality(tally(votes, EXAMPLES, CLASSES), incumbent, np.random.default_rng(0)))


@pytest.fixture(scope="module")
def crowd() -> list[tuple[str, np.ndarray[Any, np.dtype[np.int16]]]]:
    """100 silos of which each is right on 20% to 50% of 10,000 examples of 10 classes."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, CLASSES, 10_000)
    right = rng.random((SILOS, 10_000)) < rng.uniform(0.1, 0.4, (SILOS, 1))
    votes = np.where(right, truth, rng.integers(0, CLASSES, (SILOS, 10_000))).astype(np.int16)
    return [(f"silo-{number}", vote) for number, vote in enumerate(votes)]


@pytest.mark.benchmark(group="consensus of 100 silos x 10,000 examples x 10 classes")
def test_a_numpy_pass_for_each_class(benchmark: BenchmarkFixture, crowd: list[tuple[str, Any]]) -> None:
    """The yardstick: whoever counts votes with numpy looks at all of them once for each class."""
    votes = np.stack([vote for _, vote in crowd])
    benchmark(lambda: [(votes == c).sum(axis=0) for c in range(CLASSES)])


@pytest.mark.benchmark(group="consensus of 100 silos x 10,000 examples x 10 classes")
@pytest.mark.parametrize("rule", ["dawid-skene", "agreement"])
def test_rules_that_know_their_silos(benchmark: BenchmarkFixture, crowd: list[tuple[str, Any]], rule: str) -> None:
    """A whole round: reading the ballots, estimating the silos, deciding."""
    consensus = dawid_skene(CLASSES) if rule == "dawid-skene" else agreement(CLASSES, trust="static")
    incumbent = np.full(10_000, -1, dtype=np.int16)
    benchmark(lambda: consensus.apply(crowd, incumbent, consensus.init([]), np.random.default_rng(0)))


@pytest.mark.parametrize("rule", ["dawid-skene", "agreement"])
def test_memory_of_rules_that_know_their_silos(rule: str) -> None:
    """100 silos x 50,000 examples x 10 classes: the votes are 5 MB; says the most that a round takes (``-s``)."""
    examples = EXAMPLES // 2
    truth = np.random.default_rng(0).integers(0, CLASSES, examples)

    def ballots() -> Iterator[Ballot]:
        rng = np.random.default_rng(1)
        for number in range(SILOS):
            right = rng.random(examples) < rng.uniform(0.1, 0.4)
            yield f"silo-{number}", np.where(right, truth, rng.integers(0, CLASSES, examples)).astype(np.int16)

    consensus = dawid_skene(CLASSES) if rule == "dawid-skene" else agreement(CLASSES, trust="static")
    incumbent = np.full(examples, -1, dtype=np.int16)
    start = time.perf_counter()
    consensus.apply(ballots(), incumbent, consensus.init([]), np.random.default_rng(0))
    seconds = time.perf_counter() - start
    tracemalloc.start()
    consensus.apply(ballots(), incumbent, consensus.init([]), np.random.default_rng(0))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"\n{rule}: {seconds:.2f} s with drawing the votes, {peak / 1e6:.1f} MB at most")
    # The votes, and up to five tables of examples x classes.
    assert peak < SILOS * examples + 5 * 8 * CLASSES * examples


@pytest.fixture(scope="module")
def probabilities() -> np.ndarray[Any, np.dtype[np.float32]]:
    """100 silos' of 10,000 examples."""
    rng = np.random.default_rng(0)
    return np.stack([rng.dirichlet(np.ones(CLASSES), 10_000).astype(np.float32) for _ in range(SILOS)])


TRUST = "trust of 100 silos x 10,000 examples x 10 classes: at most 3 x a matrix product"


@pytest.mark.benchmark(group=TRUST)
def test_a_numpy_matrix_product(benchmark: BenchmarkFixture, probabilities: np.ndarray[Any, Any]) -> None:
    """The yardstick, in single precision as well, on one core: each silo's row times each other's."""
    rows = probabilities.reshape(SILOS, -1)
    others = rows.copy()  # a product with itself is symmetric, and half the work
    with threadpool_limits(1):
        benchmark(lambda: rows @ others.T)


@pytest.mark.benchmark(group=TRUST)
def test_trust(benchmark: BenchmarkFixture, probabilities: np.ndarray[Any, Any]) -> None:
    """Checking, normalizing, entropies, product; on one core."""
    with threadpool_limits(1):
        matrix = benchmark(lambda: trust(similarity(probabilities)))
    assert np.allclose(matrix.sum(axis=1), 1)


@pytest.mark.benchmark(group=TRUST)
def test_targets(benchmark: BenchmarkFixture, probabilities: np.ndarray[Any, Any]) -> None:
    """Of all silos, beside it."""
    with threadpool_limits(1):
        benchmark(lambda: targets_of(uniform(SILOS), probabilities))


@pytest.mark.benchmark(group="votes of 500 teachers x 4,000 examples: at most 50 ms")
@pytest.mark.parametrize("classes", [2, CLASSES])
def test_teachers_votes(benchmark: BenchmarkFixture, classes: int) -> None:
    """FedKT's, of 50 silos."""
    votes = np.random.default_rng(0).integers(0, classes, (500, 4000), dtype=np.int16)
    counts = benchmark(lambda: tally(votes, 4000, classes))
    assert (counts.sum(axis=1) == 500).all()


@pytest.mark.benchmark(group="100 loopback rounds of 4 silos that do no work: 100 x overhead")
def test_loopback_overhead(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """Everything but training: messages, codec, consensus, checkpoint."""
    settings = {"study": "speed", "data": "heart-disease", "stop-at-fixed-point": False, "num-server-rounds": 100}
    silos = ["cleveland", "budapest", "zurich", "long-beach"]
    terms = simulated_site(RunConfig.from_flower(settings), 0).terms
    app = ClientApp()

    @app.train()
    def idle(message: Message, context: Context) -> Message:
        instruction = decode_instruction(from_record(message.content), terms)
        silo = silos[int(context.node_config["partition-id"])]
        labels = np.zeros(instruction.query.size, dtype=np.int16)
        return Message(to_record(encode_reply(Reply(instruction.round, silo, labels), terms)), reply_to=message)

    number = iter(range(1000))

    def hundred_rounds() -> None:
        run_loopback(server_app, app, {**settings, "run-dir": str(tmp_path / str(next(number)))}, simulated_nodes(4))

    benchmark.pedantic(hundred_rounds, rounds=5, warmup_rounds=1)
