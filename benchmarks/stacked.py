"""Networks next to bare PyTorch, and silos as one next to one by one."""

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, Final

import numpy as np
import torch

from benchmarks import report
from benchmarks.harness import FULL, Asked
from benchmarks.report import Runs
from fedct_flwr import FedCT, simulate
from fedct_flwr.config.learner import Training
from fedct_flwr.learners.networks import mlp, small_cnn
from fedct_flwr.learners.out_of_fold import one_thread
from fedct_flwr.learners.torch_net import TorchLearner
from fedct_flwr.types import LABEL_DTYPE, Examples

_ON_GPU: Final = torch.cuda.is_available()
_NETWORKS: Final[dict[str, tuple[Callable[[], Any], tuple[int, ...]]]] = {
    "MLP 30-64-64-10": (partial(mlp, 30, 10), (30,)),
    "MLP 784-512-512-10": (partial(mlp, 784, 10, 512), (784,)),
    "small CNN, 28 x 28": (partial(small_cnn, 10, 1), (1, 28, 28)),
}


def run(asked: Asked) -> None:
    """A network's round beside bare PyTorch steps; 5 and 100 silos' networks as one beside one after the other."""
    turns, steps, runs = asked.seeds(5), dict[str, Runs](), dict[str, Runs]()
    fast = asked.size != FULL
    for name, (make, shape) in [*_NETWORKS.items()][: asked.of(None, None, 1)]:
        for batch in (64,) if fast else (8, 64):
            ways = steps_of(make, shape, batch, 5 if fast else 50)
            found = steps.setdefault(f"{name}, batch {2 * batch}", Runs())
            for _ in range(turns):
                found.add(**{way: seconds(work) for way, work in ways.items()})
    for silos in (5,) if fast else (5, 100):
        for baselines in ("none", "local")[: asked.of(None, None, 1)]:
            found, labels = runs.setdefault(f"{silos} silos, baselines {baselines}", Runs()), dict[str, Any]()
            for _ in range(turns):
                for way, at_once in {"one after the other": 1, "as one": 0}.items():
                    work = partial(_simulated, labels, way, silos, silos_at_once=at_once, baselines=baselines)
                    found.add(**{way: seconds(work)})
                found.add(same=float(np.mean(labels["as one"] == labels["one after the other"])))
    text = (
        "# Silos' networks as one\n\nProcessor seconds (on CUDA those of the clock), median of turns. First 50 steps "
        "on 2,000 private and 5,000 public examples, bare and as our round. Then runs: tables of 60 records and 30 "
        "features at each silo, 1,000 public examples, MLP 30-64-64-2, five rounds.\n\n"
        + report.table(["seconds", "before", "ours", "ratio", "same labels"], [*_rows(steps), *_rows(runs)])
    )
    report.write("stacked", text, {**steps, **runs}, {"cuda": _ON_GPU})


def steps_of(
    make: Callable[[], Any],
    shape: tuple[int, ...],
    batch: int,
    steps: int,
    device: str = "auto",
    *,
    tokens: bool = False,
) -> dict[str, Callable[[], None]]:
    """Bare steps, and our round of as many, on 2,000 private and 5,000 public examples, which may be of tokens."""
    rng = np.random.default_rng(0)
    X, public = (rng.random((count, *shape), dtype=np.float32) for count in (2000, 5000))
    X, public = (np.floor(1000 + 20_000 * each) if tokens else each for each in (X, public))
    y, targets = (rng.integers(0, 10, count).astype(LABEL_DTYPE) for count in (2000, 5000))
    learner = TorchLearner(make, 10, Training.model_construct(local_steps=steps, batch_size=batch), device=device)
    network, where = make().train().to(learner._device), learner._device
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    both = torch.from_numpy(np.concatenate([X, public])).to(where)
    labels = torch.from_numpy(np.concatenate([y, targets]).astype(np.int64)).to(where)

    def bare() -> None:
        for row in torch.randint(len(both), (steps, 2 * batch)).to(where):
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(network(both[row]), labels[row]).backward()
            optimizer.step()

    ours = partial(learner.advance, Examples(X, y), public, targets, 1.0)
    ours()  # the data go to the device
    return {"bare steps": bare, "our round": ours}


def _simulated(labels: dict[str, Any], way: str, silos: int, **settings: Any) -> None:
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(silos, 60, 30)), rng.normal(size=(silos, 60))
    tables = {f"silo-{n:03}": (X[n], (X[n, :, 0] + noise[n] > 0).astype(int)) for n in range(silos)}
    labels[way] = simulate(
        tables, rng.normal(size=(1000, 30)), algorithm=FedCT.paper(), learner="mlp", rounds=5, local_steps=50,
        preprocessing="none", inspect=False, progress=False, **settings,
    ).consensus  # fmt: skip


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds, or those of the clock where there is a GPU."""
    clock = time.perf_counter if _ON_GPU else time.process_time
    with one_thread():
        start = clock()
        work()
        if _ON_GPU:
            torch.cuda.synchronize()
        return clock() - start


def _rows(found: dict[str, Runs]) -> list[list[str]]:
    rows = []
    for name, runs in found.items():
        before, after, *same = (median(values) for values in runs.values.values())
        equal = f"{same[0]:.1%}" if same else "–"
        rows.append([name, f"{before:.3f}", f"{after:.3f}", f"{after / before:.2f}", equal])
    return rows
