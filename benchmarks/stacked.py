"""Networks next to bare PyTorch, and silos as one next to one by one."""

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, Final

import numpy as np
import torch

from benchmarks.harness import Column, Grid, Row, Settings, Table
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


def _steps(settings: Settings) -> dict[str, float]:
    make, shape = _NETWORKS[settings["network"]]
    ways = steps_of(make, shape, settings["batch"] // 2, settings["steps"])
    return {"before": seconds(ways["bare steps"]), "ours": seconds(ways["our round"])}


def _runs(settings: Settings) -> dict[str, float]:
    """Silos one after the other and as one, and the share of the public examples with the same label."""
    rng, silos = np.random.default_rng(0), settings["silos"]
    X, noise = rng.normal(size=(silos, 60, 30)), rng.normal(size=(silos, 60))
    tables = {f"silo-{n:03}": (X[n], (X[n, :, 0] + noise[n] > 0).astype(int)) for n in range(silos)}
    public, labels = rng.normal(size=(1000, 30)), []

    def run(silos_at_once: int) -> None:
        found = simulate(
            tables, public, algorithm=FedCT.paper(), learner="mlp", rounds=5, local_steps=50, preprocessing="none",
            inspect=False, progress=False, silos_at_once=silos_at_once, baselines=settings["baselines"],
        )  # fmt: skip
        labels.append(found.consensus)

    spent = {way: seconds(partial(run, at_once)) for way, at_once in {"before": 1, "ours": 0}.items()}
    return {**spent, "same": float(np.mean(labels[0] == labels[1]))}


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds, or those of the clock where there is a GPU."""
    clock = time.perf_counter if _ON_GPU else time.process_time
    with one_thread():
        start = clock()
        work()
        if _ON_GPU:
            torch.cuda.synchronize()
        return clock() - start


def middle(key: str, form: str) -> Callable[[Runs], str]:
    """The cell with the median of these values."""
    return lambda runs: format(median(runs.values[key]), form) if key in runs.values else "–"


def _ratio(way: str) -> Callable[[Runs], str]:
    def cell(runs: Runs) -> str:
        both = [runs.values.get(f"{way}: {when}") for when in ("ours", "before")]
        return f"{median(both[0]) / median(both[1]):.2f}" if both[0] and both[1] else "–"

    return cell


TABLES: Final = {
    "stacked": Table(
        "Silos' networks as one",
        "Processor seconds (on CUDA those of the clock), median of turns. First {steps} steps on 2,000 private and "
        "5,000 public examples, bare and as our round. Then runs, silos' networks one after the other and as one: "
        "tables of 60 records and 30 features at each silo, 1,000 public examples, MLP 30-64-64-2, five rounds.",
        [
            *(
                Row(f"{name}, batch {batch}", {"network": name, "batch": batch}, ("steps",))
                for name in _NETWORKS
                for batch in (16, 128)
            ),
            *(
                Row(f"{silos} silos, baselines {baselines}", {"silos": silos, "baselines": baselines}, ("runs",))
                for silos in (5, 100)
                for baselines in ("none", "local")
            ),
        ],
        {"steps": _steps, "runs": _runs},
        [
            Grid(
                title,
                [
                    Column("before", f"{way}: before", middle(f"{way}: before", ".3f")),
                    Column("ours", f"{way}: ours", middle(f"{way}: ours", ".3f")),
                    Column("ratio", f"{way}: ours", _ratio(way)),
                    Column("same labels", f"{way}: same", ".1%"),
                ],
            )
            for way, title in {"steps": "steps", "runs": "runs of silos"}.items()
        ],
        5,
        settings={"steps": 50},
        smoke={"steps": 5},
        smoke_rows=["MLP 30-64-64-10, batch 16", "5 silos, baselines none"],
    )
}
