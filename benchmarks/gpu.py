"""One GPU in eight minutes: steps of one silo and of many, and whole runs on CPU and GPU. Never run on CUDA yet."""

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import Any, Final
from unittest import mock

import numpy as np
import torch
from sklearn.datasets import load_digits

from benchmarks import report
from benchmarks.federation import Runs
from benchmarks.language import PACKAGE, minilm
from benchmarks.stacked import seconds, steps_of
from fedct_flwr import FedCT, simulate
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import LOADERS
from fedct_flwr.datasets.federated import FederatedDataset, SiloData
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.learners import stacked
from fedct_flwr.learners.meeting import together
from fedct_flwr.learners.networks import fashion_mnist_mlp
from fedct_flwr.types import LABEL_DTYPE, Examples

NOT_MEASURED: Final = "not measured: no GPU"
_HEAD: Final = ("", "CPU", "GPU", "GB on the GPU")
_OF_LABELS: Final = ("labels", "in float32", "another seed")
_GRAPH: Final = "a CUDA graph"
_DEVICES: Final = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
_HOW: Final[dict[str, Any]] = {"baselines": "none", "progress": False, "preprocessing": "none"}


def run(seeds: int | None, fast: bool) -> None:
    """Steps of one silo and of many; networks, DP-SGD, XGBoost, images, text on CPU and GPU; time, memory, labels."""
    turns, steps, whole = seeds or 3, dict[str, Runs](), dict[str, Runs]()
    for device in _DEVICES:
        for name, count, step in _steps(device, 5 if fast or device == "cpu" else 50, 10 if fast else 100):
            found = steps.setdefault(name, Runs())
            if name.endswith(_GRAPH) and device == "cpu":
                continue
            step()  # the data go to the device
            for _ in range(turns):
                spent, memory, _ = _measured(device, step)
                found.add(**{device: 1000 * spent / count, f"{device} memory": memory})
    for name, labels_of in _runs(fast).items():
        labels, found = dict[str, Any](), whole.setdefault(name, Runs())
        ways = {"cpu": ("cpu", 0), "seed": ("cpu", 1), "cuda": ("cuda", 0), "float32": ("cuda", 0)}
        for way, (device, seed) in ways.items():
            if device in _DEVICES:
                plain = mock.patch("torch.autocast", return_value=nullcontext())
                with plain if way == "float32" else nullcontext():
                    spent, memory, labels[way] = _measured(device, partial(labels_of, device, seed))
                same = float(np.mean(labels[way] == labels["cpu"]))
                found.add(**{way: spent, f"{way} memory": memory, f"{way} same": same})
    columns = ("cpu", "cuda", "cuda memory", "cuda same", "float32 same", "seed same")
    text = (
        "# One GPU\n\nMLP 784-512-512-10, batches of 128: milliseconds of a step of all silos, median of turns.\n\n"
        + report.table(_HEAD, [[name, *_cells(one, columns[:3])] for name, one in steps.items()])
        + "\nWhole runs in seconds. Labels of the public set that are those of the CPU: on the GPU, there without "
        "autocast to bfloat16, and on the CPU with another seed.\n\n"
        + report.table([*_HEAD, *_OF_LABELS], [[name, *_cells(one, columns)] for name, one in whole.items()])
    )
    report.write("gpu", text, {**steps, **whole}, {"devices": _DEVICES})


def _measured(device: str, work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds, gigabytes on the GPU at most, and what the work gave."""
    given: list[Any] = []
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    spent = seconds(lambda: given.append(work()))
    return spent, torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0, given[0]


def _cells(found: Runs, names: tuple[str, ...]) -> list[str]:
    return [f"{median(found.values[name]):.3g}" if name in found.values else NOT_MEASURED for name in names]


def _steps(device: str, steps: int, many: int) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """Names, how many steps the work takes, and the work."""
    ways = steps_of(fashion_mnist_mlp, (784,), 64, steps, device)
    yield "bare, float32", steps, ways["bare steps"]

    def bfloat16() -> None:
        with torch.autocast(device, torch.bfloat16):
            ways["bare steps"]()

    yield "bare, bfloat16", steps, bfloat16
    yield "ours", steps, ways["our round"]
    for silos in (5, many):
        rounds = [steps_of(fashion_mnist_mlp, (784,), 64, steps, device)["our round"] for _ in range(silos)]
        ways_of = {"one after the other": (1, steps), "as one": (0, steps), f"as one, {_GRAPH}": (0, stacked._EAGER)}
        for name, (at_once, eager) in ways_of.items():
            yield f"{silos} silos, {name}", steps, partial(_of_all, rounds, at_once, eager)


def _of_all(rounds: list[Callable[[], None]], at_once: int, eager: int) -> None:
    """Rounds of all silos; after ``eager`` steps, one is captured as a graph."""
    with mock.patch.object(stacked, "_EAGER", eager):
        together(rounds, stacked.Stacks(at_once).train)


def _runs(fast: bool) -> dict[str, Callable[[str, int], Any]]:
    """By name: a run on a device with a seed, which gives the labels of the public set."""
    digits = load_digits()
    X, y = (digits.data / 16).astype(np.float32), digits.target.astype(LABEL_DTYPE)
    images = np.kron(X.reshape(-1, 1, 8, 8), np.ones((1, 1, 4, 4), dtype=np.float32))
    texts, some = np.array([["a bad day"], ["a good day"]], dtype=object)[y % 2], slice(None, None, 16 if fast else 1)
    classes, pixels = tuple(map(str, range(10))), tuple(Column(f"x{number}") for number in range(64))
    LOADERS["digits"] = _five_silos(Schema(classes, pixels), X, y)
    LOADERS["large-digits"] = _five_silos(Schema(classes), images[some], y[some])
    LOADERS["days"] = _five_silos(Schema(("bad", "good"), (Column("text", text=True),)), texts[some], y[some] % 2)
    network = {"learner": "mlp", "local_steps": 2 if fast else 50, "rounds": 1 if fast else 6}
    found: dict[str, dict[str, Any]] = {
        "networks": {"silos": "digits", **network},
        "DP-SGD, epsilon 8": {"silos": "digits", **network, "protection": "dp-sgd", "epsilon": 8.0},
        "images": {"silos": "large-digits", **network, "learner": "small-cnn"},
        "XGBoost": {"silos": "digits", "rounds": network["rounds"], "learner": "xgboost"},
    }
    if find_spec(PACKAGE):
        encoder = {"folder": str(minilm()), "max_length": 8}
        text = {"learner": "transformer", "learner_params": json.dumps(encoder), "batch_size": 16}
        found["text, adapters"] = {"silos": "days", **network, **text, "preprocessing": "standard"}
    return {name: partial(_labels, settings) for name, settings in found.items()}


def _labels(settings: dict[str, Any], device: str, seed: int) -> Any:
    on = {"learner_params": json.dumps({"device": device})} if settings["learner"] == "xgboost" else {"device": device}
    return simulate(algorithm=FedCT.paper(), seed=seed, **{**_HOW, **settings, **on}).consensus


def _five_silos(schema: Schema, X: Any, y: Any) -> Callable[[RunConfig], FederatedDataset]:
    """Of a tenth of the examples each; the other half is public."""
    *own, public = np.split(np.arange(len(y)), [len(y) * tenth // 10 for tenth in range(1, 6)])
    silos = [SiloData(f"silo-{n}", Examples(X[rows], y[rows]), Examples(X[:0], y[:0])) for n, rows in enumerate(own)]
    test = Examples(X[public], y[public])
    dataset = FederatedDataset(
        name="one-gpu", schema=schema, public=PublicSet(X[public]), silos=tuple(silos), test=test, truth=test.y
    )
    return lambda config: dataset
