"""FedCT with networks on FashionMNIST: 5 silos with 2,000 images each, 50,000 public ones, an MLP, 50 steps a round.

Abourayya et al., arXiv:2310.05696, Table 1 (FashionMNIST) and Table 11; and what the federation costs beside the bare
training steps.
"""

import logging
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks import report
from benchmarks.federation import Runs
from client_app.main import app as client_app
from fedct_flwr import datasets
from fedct_flwr.baselines import centralized, local_only
from fedct_flwr.config import RunConfig
from fedct_flwr.learners.networks import fashion_mnist_mlp
from fedct_flwr.loopback import run_loopback, simulated_nodes
from fedct_flwr.run_folder import RunFolder
from fedct_flwr.scoring import accuracy
from server_app.main import app as server_app

SETTINGS: dict[str, Any] = {
    "study": "benchmark",
    "data": "fashion-mnist",
    "learner": "fashion-mnist-mlp",
    "preprocessing": "none",
    "save-models": False,
    "device": "cpu",
}
WORKERS = 2
PAPER = "0.84 ± 0.004 / 0.83 ± 0.024 (20,000 steps)"


def run(seeds: int | None, fast: bool) -> None:
    """Accuracy after the same steps, and the time beside bare steps; 3 seeds of 60 rounds, or 20 rounds if ``fast``."""
    seeds, rounds = seeds or 3, 20 if fast else 60
    logging.getLogger("flwr").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    start = time.perf_counter()
    runs = Runs()
    for seed in range(seeds):
        config = RunConfig.from_flower({**SETTINGS, "seed": seed, "num-server-rounds": rounds})
        dataset = datasets.load(config)
        bare = _bare_steps(dataset, rounds * config.local_steps, 2 * config.batch_size)
        seconds, records = _federation(config, scores=False)
        _, scored = _federation(config, scores=True)
        last = [silo["scores"]["pooled_accuracy"] for silo in scored[-1]["silos"].values()]
        models = (local_only(config, dataset, position) for position in range(len(dataset.silos)))
        alone = [accuracy(model, dataset.test) for model in models]
        runs.add(
            fedct=fmean(last),
            spread=float(np.std(last)),
            local=fmean(alone),
            central=accuracy(centralized(config, dataset, 0), dataset.test),
            bare_seconds=bare,
            fedct_seconds=seconds,
            ratio=seconds / bare,
            bytes_per_silo_and_round=fmean(r["bytes_sent"] for r in records) / len(dataset.silos),
        )
    steps = rounds * config.local_steps
    header = ["Accuracy", "local only", "FedCT", "centralized", "paper: FedCT / FedAvg", "bytes a silo sends a round"]
    row = [
        f"after {steps} steps",
        *(report.cell(runs, name) for name in ("local", "fedct", "central")),
        PAPER,
        f"{runs.mean('bytes_per_silo_and_round'):.0f}",
    ]
    text = (
        f"# FedCT on FashionMNIST, MLP 784-512-512-10, 5 silos, {seeds} seeds\n\n"
        + report.table(header, [row])
        + f"\nFedCT takes {runs.mean('fedct_seconds'):.1f} s, the same {steps} training steps of 5 networks alone "
        f"{runs.mean('bare_seconds'):.1f} s: a ratio of {runs.mean('ratio'):.2f} ({WORKERS} threads each).\n"
    )
    report.write(
        "fedct-fashion-mnist", text, {"mlp": runs}, {**SETTINGS, "rounds": rounds}, time.perf_counter() - start
    )
    print(text)


def _federation(config: RunConfig, scores: bool) -> tuple[float, list[dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as temporary:
        settings = {**config.to_flower(), "run-dir": str(Path(temporary) / "run"), "report-scores": scores}
        start = time.perf_counter()
        run_loopback(server_app, client_app, settings, simulated_nodes(5), workers=WORKERS)
        return time.perf_counter() - start, RunFolder(Path(temporary) / "run").rounds()


def _bare_steps(dataset: datasets.FederatedDataset, steps: int, batch: int) -> float:
    """Seconds of nothing but training steps: one network per silo, data in memory."""
    U = torch.from_numpy(dataset.public.X)
    y = torch.randint(10, (len(U),))

    def train(seed: int) -> None:
        network = fashion_mnist_mlp().train()
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
        rows = torch.randint(len(U), (steps, batch), generator=torch.Generator().manual_seed(seed))
        for row in rows:
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(network(U[row]), y[row]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    start = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(train, range(len(dataset.silos))))
    return time.perf_counter() - start
