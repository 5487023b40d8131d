"""One GPU in eight minutes: steps of one silo and of many, the paper's row, and whole runs on CPU and GPU."""

import tempfile
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from unittest import mock

import numpy as np
import torch
from sklearn.datasets import load_digits

from benchmarks.harness import Column, Grid, Row, Settings, Table
from benchmarks.language import PACKAGE, minilm
from benchmarks.methods import SETTINGS
from benchmarks.stacked import middle, seconds, steps_of
from fedct_flwr import FedCT, simulate
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import LOADERS, schema
from fedct_flwr.datasets.federated import FederatedDataset, PublicSet, SiloData
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.flower.loopback import run_in_process
from fedct_flwr.learners import networks
from fedct_flwr.learners.meeting import together
from fedct_flwr.learners.networks import mlp, small_cnn
from fedct_flwr.learners.stacked import Stacks
from fedct_flwr.learners.trained_network import TrainedNetwork
from fedct_flwr.types import LABEL_DTYPE, Examples

_ON_GPU: Final = torch.cuda.is_available()
_DEVICE: Final = "cuda" if _ON_GPU else "cpu"
_BEFORE: Final = "one after the other, no graphs, bfloat16"
_MLP: Final = partial(mlp, 784, 10, 512)
_NETWORKS: Final[dict[str, tuple[Callable[[], Any], tuple[int, ...]]]] = {
    "MLP 784-512-512-10": (_MLP, (784,)),
    "small CNN, 28 x 28": (partial(small_cnn, 10, 1), (1, 28, 28)),
}
_TOKENS: Final = "MiniLM, adapters, 64 tokens"


def _adapters() -> Any:
    from fedct_flwr.learners.transformer import classifier

    return classifier(str(minilm()), 10)


def _steps(settings: Settings) -> dict[str, float]:
    """Milliseconds of a step: bare PyTorch's in both precisions, and ours in a round."""
    name, steps = settings["network"], settings["steps"]
    make, shape = _NETWORKS.get(name, (_adapters, (64,)))
    ways = steps_of(make, shape, settings["batch"] // 2, steps, _DEVICE, tokens=name == _TOKENS)

    def bfloat16() -> None:
        with torch.autocast(_DEVICE, torch.bfloat16):
            ways["bare steps"]()

    measured = {"float32": ways["bare steps"], "ours": ways["our round"], **({"bfloat16": bfloat16} if _ON_GPU else {})}
    return {way: 1000 * seconds(work) / steps for way, work in measured.items()}


def _silos(settings: Settings) -> dict[str, float]:
    """Milliseconds of a round of all silos: one after the other without graphs, and as one."""
    count, steps = settings["silos"], settings["steps"]
    rounds = [steps_of(_MLP, (784,), 64, steps, _DEVICE)["our round"] for _ in range(count)]
    mixed = mock.patch.object(TrainedNetwork, "precision", return_value=torch.autocast(_DEVICE, torch.bfloat16))
    with mixed, mock.patch.object(networks, "_EAGER", -1):
        before = seconds(partial(together, rounds, Stacks(1).train))
    train = Stacks().train
    together(rounds, train)  # it is captured
    return {_BEFORE: 1000 * before, "as one": 1000 * seconds(partial(together, rounds, train))}


def _paper(settings: Settings) -> dict[str, float]:
    """Seconds of the first row of ``fedct-fashion-mnist``, on images made here, as none lie on a rented machine."""
    rng, public = np.random.default_rng(0), settings["public"]
    X = rng.integers(0, 256, (10_000 + public, 28, 28), dtype=np.uint8)
    y = (X.reshape(len(X), -1) @ rng.normal(size=(784, 10)).astype(np.float32)).argmax(1).astype(LABEL_DTYPE)
    images = _five_silos(Schema(tuple(map(str, range(10)))), X, y, 10_000)
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(LOADERS, {"fashion-mnist": images}):
        given = {"device": _DEVICE, "num-server-rounds": settings["rounds"], "run-dir": f"{folder}/run", "seed": 0}
        config = RunConfig.from_flower({**SETTINGS, **given}).to_flower()
        run = partial(run_in_process, config, 5, Path(folder) / "log", bool, train=Stacks().train)
        return {"seconds": seconds(run)}


_OF_RUNS: Final[dict[str, dict[str, Any]]] = {
    "networks": {"silos": "digits", "learner": "mlp"},
    "images": {"silos": "large-digits", "learner": "small-cnn"},
    "DP-SGD, epsilon 8": {"silos": "digits", "learner": "mlp", "protection": "dp-sgd", "epsilon": 8.0},
    "XGBoost": {"silos": "digits", "learner": "xgboost"},
    "text, adapters": {"silos": "days", "learner": "transformer", "preprocessing": "standard"},
}
_NEEDS: Final = {"DP-SGD, epsilon 8": "opendp", "XGBoost": "xgboost", "text, adapters": PACKAGE, _TOKENS: PACKAGE}


def _whole(settings: Settings) -> dict[str, float]:
    """Seconds of a run on CPU and GPU, its gigabytes there, and the shares of labels that are the CPU's."""
    own, found, labels = _OF_RUNS[settings["of"]], dict[str, float](), list[Any]()
    for way, device, seed in (("CPU", "cpu", 0), ("another seed", "cpu", 1), ("GPU", "cuda", 0))[: 2 + _ON_GPU]:
        encoder = {"folder": str(minilm()), "max_length": 8} if own["learner"] == "transformer" else {}
        params = {"device": device} if own["learner"] == "xgboost" else encoder
        on = {} if own["learner"] == "xgboost" else {"device": device, "local_steps": settings["steps"]}
        given = {"baselines": "none", "progress": False, "preprocessing": "none", **own, **on}
        run = partial(simulate, algorithm=FedCT.paper(), seed=seed, rounds=settings["rounds"], **given)
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        found[way] = seconds(lambda run=run, params=params: labels.append(run(learner_params=params).consensus))  # type: ignore[misc]
        found[f"{way}, same"] = float(np.mean(np.equal(labels[-1], labels[0])))
    return found | ({"GB": torch.cuda.max_memory_allocated() / 2**30} if _ON_GPU else {})


@cache
def _data(name: str) -> Callable[[RunConfig], FederatedDataset]:
    """Digits as rows of pixels, enlarged digits, or texts of three words."""
    raw, classes = load_digits(), tuple(map(str, range(10)))
    X, y, some = (raw.data / 16).astype(np.float32), raw.target.astype(LABEL_DTYPE), slice(None, None, 4)
    if name == "digits":
        columns = tuple(schema.Column(f"x{number}") for number in range(64))
        return _five_silos(Schema(classes, columns), X, y, len(y) // 2)
    if name == "large-digits":
        images = np.kron(X[some].reshape(-1, 1, 8, 8), np.ones((1, 1, 4, 4), dtype=np.float32))
        return _five_silos(Schema(classes), images, y[some], len(images) // 2)
    texts = np.array([["a bad day"], ["a good day"]], dtype=object)[y[some] % 2]
    return _five_silos(
        Schema(("bad", "good"), (schema.Column("text", text=True),)), texts, y[some] % 2, len(texts) // 2
    )


def _five_silos(classes: Schema, X: Any, y: Any, private: int) -> Callable[[RunConfig], FederatedDataset]:
    """Of equal shares of the first ``private`` examples; the others are public."""
    *own, public = np.split(np.arange(len(y)), [private * fifth // 5 for fifth in range(1, 6)])
    silos = [SiloData(f"silo-{n}", Examples(X[rows], y[rows]), Examples(X[:0], y[:0])) for n, rows in enumerate(own)]
    test = Examples(X[public], y[public])
    dataset = FederatedDataset(
        name="one-gpu", schema=classes, public=PublicSet(X[public]), silos=tuple(silos), test=test, truth=test.y
    )
    return lambda config: dataset


def _columns(method: str, titles: dict[str, str]) -> list[Column]:
    return [Column(title, f"{method}: {key}", middle(f"{method}: {key}", ".3g")) for title, key in titles.items()]


_ROWS: Final = [
    *(
        Row(f"{name}, batch {batch}", {"network": name, "batch": batch}, ("steps",))
        for name in (*_NETWORKS, _TOKENS)[: 2 + _ON_GPU]
        for batch in (16, 128)
    ),
    *(Row(f"{silos} silos", {"silos": silos}, ("silos",), seeds=2) for silos in (5, 100)),
    Row("the paper's", {"rounds": 400}, ("paper",), seeds=1),
    *(Row(name, {"of": name, "rounds": 6}, ("whole",), seeds=1) for name in _OF_RUNS),
]
TABLES: Final = {
    "gpu": Table(
        f"One GPU ({torch.cuda.get_device_name() if _ON_GPU else 'not measured: there is none, and this is the CPU'})",
        "Median of turns. Milliseconds of a step: bare PyTorch's, and ours in a round of {steps}. Milliseconds of a "
        "round of all silos, MLP 784-512-512-10 with batches of 128. Seconds of FedCT as in the paper's Table 1 (5 "
        "silos, 50 steps a round, made images). Whole runs in seconds, and shares of the public set's labels that are "
        "those of the CPU: on the GPU, and on the CPU with another seed.",
        [row for row in _ROWS if find_spec(_NEEDS.get(row.name.partition(", batch")[0], "numpy"))],
        {"steps": _steps, "silos": _silos, "paper": _paper, "whole": _whole},
        [
            Grid("steps", _columns("steps", {"bare": "float32", "bare, bfloat16": "bfloat16", "ours": "ours"})),
            Grid("round", _columns("silos", {_BEFORE: _BEFORE, "as one": "as one"})),
            Grid("run", _columns("paper", {"seconds": "seconds"})),
            Grid(
                "whole run",
                _columns(
                    "whole",
                    {
                        "CPU": "CPU", "GPU": "GPU", "GB on the GPU": "GB", "same labels": "GPU, same",
                        "another seed": "another seed, same",
                    },
                ),
            ),
        ],
        3,
        settings={"steps": 50, "public": 50_000},
        fast={"steps": 5, "rounds": 2},
        smoke={"steps": 2, "public": 500},
        smoke_rows=["MLP 784-512-512-10, batch 16", "5 silos", "the paper's", "networks"],
        loaders={name: lambda config, name=name: _data(name)(config) for name in ("digits", "large-digits", "days")},
    )
}  # fmt: skip
