"""FedCT with networks on FashionMNIST: 5 silos with 2,000 images each, 50,000 public ones, an MLP, 50 steps a round.

Abourayya et al., arXiv:2310.05696, Table 1 (FashionMNIST) and Table 10; and what the federation costs beside the bare
training steps.
"""

import logging
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks import report
from benchmarks.federation import Runs
from benchmarks.methods import METHODS, SETTINGS, WORKERS, one_thread_per_silo
from benchmarks.variants import change
from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.config.run import WHOLE_SET_UP_TO

PAPER = {"local only": "0.79 ± 0.005", "FedCT": "0.84 ± 0.004", "FedAvg": "0.83 ± 0.024"}
COMPARED = ("local only", "FedCT", "FedAvg", "centralized")
HELPED = ("local only", "FedCT", "FedCT (shares)", "FedAvg", "centralized")
"""With a rate that begins higher and falls along a cosine over the whole run."""
RATE = 2e-3


def run(seeds: int | None, fast: bool) -> None:
    """FashionMNIST, 5 silos, an MLP: Table 1, and the time beside bare training steps.

    3 seeds of 60 rounds (3,000 steps), or 20 rounds if ``fast``. Then the same with a rate that falls.
    """
    seeds, rounds = seeds or 3, 20 if fast else 60
    logging.getLogger("flwr").setLevel(logging.ERROR)
    one_thread_per_silo()
    start = time.perf_counter()
    runs = Runs()
    for seed in range(seeds):
        config = RunConfig.from_flower({**SETTINGS, "seed": seed, "num-server-rounds": rounds})
        dataset = datasets.load(config)
        bare = _bare_steps(dataset, rounds * config.local_steps, 2 * config.batch_size)
        measured = {method: METHODS[method](config) for method in COMPARED}
        for method, found in measured.items():
            runs.add(**{f"{method}: {name}": value for name, value in found._asdict().items()})
        seconds = measured["FedCT"].seconds
        falling = change(config, learning_rate=RATE, decay_steps=rounds * config.local_steps)
        for method in HELPED:
            found = METHODS[method](falling)
            runs.add(**{f"{method}, falling rate: {name}": value for name, value in found._asdict().items()})
        runs.add(bare_seconds=bare, ratio=seconds / bare)
    steps = rounds * config.local_steps
    rows = [
        ["accuracy", *(report.cell(runs, f"{method}: accuracy") for method in COMPARED)],
        ["paper, 20,000 steps", *(PAPER.get(method, "-") for method in COMPARED)],
        [
            "bytes a silo sends in a round",
            *(f"{runs.mean(f'{method}: bytes_per_silo_and_round'):,.0f}" for method in COMPARED),
        ],
        ["seconds", *(f"{runs.mean(f'{method}: seconds'):.1f}" for method in COMPARED)],
    ]
    text = (
        f"# FedCT on FashionMNIST, MLP 784-512-512-10, 5 silos, {steps} steps, {seeds} seeds\n\n"
        + report.table(["", *COMPARED], rows)
        + f"\nFedCT takes {runs.mean('FedCT: seconds'):.1f} s, the same {steps} training steps of 5 networks alone "
        f"{runs.mean('bare_seconds'):.1f} s: a ratio of {runs.mean('ratio'):.2f} ({WORKERS} threads each).\n\n"
        f"## A learning rate that falls from {RATE} along a cosine over the whole run\n\n"
        + report.table(["", *HELPED], _helped(runs))
        + "\nShares: silos send labels, and learn the shares of the votes as soft targets; a minibatch then has four "
        "times as many public images.\n"
    )
    report.write(
        "fedct-fashion-mnist", text, {"mlp": runs}, {**SETTINGS, "rounds": rounds}, time.perf_counter() - start
    )


def _helped(runs: Runs) -> list[list[str]]:
    name = "{}, falling rate: {}".format
    return [
        ["accuracy", *(report.cell(runs, name(method, "accuracy")) for method in HELPED)],
        ["seconds", *(f"{runs.mean(name(method, 'seconds')):.1f}" for method in HELPED)],
    ]


def _bare_steps(dataset: datasets.FederatedDataset, steps: int, batch: int) -> float:
    """Seconds of nothing but training steps: one network per silo, on as many examples as it has in a round."""
    import torch
    from torch import nn

    from fedct_flwr.learners.networks import fashion_mnist_mlp

    def train(seed: int) -> None:
        X = torch.from_numpy(np.concatenate([dataset.silos[seed].private.X, dataset.public.X[:WHOLE_SET_UP_TO]]))
        y = torch.randint(10, (len(X),))
        network = fashion_mnist_mlp().train()
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
        rows = torch.randint(len(X), (steps, batch), generator=torch.Generator().manual_seed(seed))
        for row in rows:
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(network(X[row]), y[row]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    start = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(train, range(len(dataset.silos))))
    return time.perf_counter() - start
