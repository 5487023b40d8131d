"""One GPU in eight minutes: steps of one silo and of many, the paper's row, and whole runs on CPU and GPU."""

import json
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, Final
from unittest import mock

import numpy as np
import torch
from sklearn.datasets import load_digits

from benchmarks import progress, report
from benchmarks.harness import FULL, Asked
from benchmarks.language import PACKAGE, minilm
from benchmarks.methods import SETTINGS
from benchmarks.report import Runs
from benchmarks.stacked import seconds, steps_of
from fedct_flwr import FedCT, simulate
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import LOADERS
from fedct_flwr.datasets.federated import FederatedDataset, PublicSet, SiloData
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.flower.loopback import run_in_process
from fedct_flwr.learners import cuda_graph
from fedct_flwr.learners.meeting import together
from fedct_flwr.learners.networks import mlp, small_cnn
from fedct_flwr.learners.stacked import Stacks
from fedct_flwr.learners.trained_network import TrainedNetwork
from fedct_flwr.types import LABEL_DTYPE, Examples

NOT_MEASURED: Final = "not measured: no GPU"
_DEVICES: Final = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
_HOW: Final[dict[str, Any]] = {"baselines": "none", "progress": False, "preprocessing": "none"}
_BEFORE: Final = "one after the other, no graphs, bfloat16"


def run(asked: Asked) -> None:
    """Steps of one silo and of many, the paper's row; networks, DP-SGD, XGBoost, images, text on CPU and GPU."""
    turns, device, fast = asked.seeds(3), _DEVICES[-1], asked.size != FULL
    steps, silos, whole = dict[str, Runs](), dict[str, Runs](), dict[str, Runs]()
    for name, ways in islice(_networks(device, 2 if fast else 50), asked.of(None, None, 1)):
        steps[name] = _timed(name, ways, turns, 2 if fast else 50)
    for count in (2,) if fast else (5, 100):
        name = f"{count} silos"
        silos[name] = _timed(name, _silos(device, count, 5 if fast else 50), 2, 1)
    rounds = 2 if fast else 400
    spent = progress.once("paper", partial(seconds, partial(_paper, device, rounds, asked.of(50_000, 50_000, 500))))
    for name, labels_of in islice(_runs(fast).items(), asked.of(None, None, 1)):
        labels, found = dict[str, Any](), whole.setdefault(name, Runs())
        for way, on, seed in (("cpu", "cpu", 0), ("seed", "cpu", 1), ("cuda", "cuda", 0)):
            if on in _DEVICES:
                measure = partial(_measured, on, partial(labels_of, on, seed))
                time, memory, labels[way] = progress.once(f"{name}, {way}", measure)
                same = float(np.mean(np.equal(labels[way], labels["cpu"])))
                found.add(**{way: time, f"{way} memory": memory, f"{way} same": same})
    bare, bare_16 = "bare, float32", "bare, bfloat16"
    text = (
        f"# One GPU\n\nMeasured on {torch.cuda.get_device_name() if device == 'cuda' else 'a CPU'}, median of turns. "
        "Milliseconds of a step: bare PyTorch's, and ours in a round of 50.\n\n"
        + report.table(
            ["", bare, bare_16, "ours"], [[name, *_cells(one, [bare, bare_16, "ours"])] for name, one in steps.items()]
        )
        + "\nMilliseconds of a round of 50 steps, MLP 784-512-512-10 with batches of 128, of all silos.\n\n"
        + report.table(
            ["", _BEFORE, "as one"], [[name, *_cells(one, [_BEFORE, "as one"])] for name, one in silos.items()]
        )
        + f"\nFedCT as in the paper's Table 1 (5 silos, {rounds} rounds of 50 steps, 50,000 public images, here made "
        f"ones) takes {spent:.1f} s.\n\nWhole runs in seconds, and how many labels of the public set are those of the "
        "CPU: on the GPU, and on the CPU with another seed.\n\n"
        + report.table(
            ["", "CPU", "GPU", "GB on the GPU", "same labels", "another seed"],
            [
                [name, *_cells(one, ["cpu", "cuda", "cuda memory", "cuda same", "seed same"])]
                for name, one in whole.items()
            ],
        )
    )
    report.write("gpu", text, {**steps, **silos, **whole}, {"devices": _DEVICES, "paper": spent})


def _timed(name: str, ways: dict[str, Callable[[], None]], turns: int, steps: int) -> Runs:
    found = Runs()
    for turn in range(turns):
        found.add(**progress.once(f"{name}, {turn}", partial(_times, ways, steps)))
    return found


def _times(ways: dict[str, Callable[[], None]], steps: int) -> dict[str, float]:
    return {way: 1000 * seconds(work) / steps for way, work in ways.items()}


def _measured(device: str, work: Callable[[], Any]) -> tuple[float, float, list[int]]:
    """Seconds, gigabytes on the GPU at most, and what the work gave."""
    given: list[Any] = []
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    spent = seconds(lambda: given.append(work()))
    return spent, torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0, given[0].tolist()


def _cells(found: Runs, names: list[str]) -> list[str]:
    return [f"{median(found.values[name]):.3g}" if name in found.values else NOT_MEASURED for name in names]


def _networks(device: str, steps: int) -> Iterator[tuple[str, dict[str, Callable[[], None]]]]:
    """By name of a network and a batch size: bare steps in both precisions, and ours."""
    networks: dict[str, tuple[Callable[[], Any], tuple[int, ...], bool]] = {
        "MLP 784-512-512-10": (partial(mlp, 784, 10, 512), (784,), False),
        "small CNN, 28 x 28": (partial(small_cnn, 10, 1), (1, 28, 28), False),
    }
    if find_spec(PACKAGE) and device == "cuda":
        from fedct_flwr.learners.transformer import classifier

        networks["MiniLM, adapters, 64 tokens"] = (partial(classifier, str(minilm()), 10), (64,), True)
    for name, (make, shape, tokens) in networks.items():
        for batch in (16, 128):
            ways = steps_of(make, shape, batch // 2, steps, device, tokens=tokens)
            found = {"bare, float32": ways["bare steps"], "ours": ways["our round"]}

            def bfloat16(bare: Callable[[], None] = ways["bare steps"]) -> None:
                with torch.autocast(device, torch.bfloat16):
                    bare()

            yield f"{name}, batch {batch}", {**found, "bare, bfloat16": bfloat16} if device == "cuda" else found


def _silos(device: str, count: int, steps: int) -> dict[str, Callable[[], None]]:
    """A round of all silos: one after the other without graphs, and as one."""
    rounds = [steps_of(partial(mlp, 784, 10, 512), (784,), 64, steps, device)["our round"] for _ in range(count)]

    def before() -> None:
        mixed = mock.patch.object(TrainedNetwork, "precision", return_value=torch.autocast(device, torch.bfloat16))
        with mixed, mock.patch.object(cuda_graph, "_EAGER", -1):
            together(rounds, Stacks(1).train)

    train = Stacks().train

    def as_one() -> None:
        together(rounds, train)

    as_one()  # it is captured
    return {_BEFORE: before, "as one": as_one}


def _paper(device: str, rounds: int, public: int) -> None:
    """The first row of ``fedct-fashion-mnist``, whose images are made here, as none lie on a rented machine."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, (10_000 + public, 28, 28), dtype=np.uint8)
    y = (X.reshape(len(X), -1) @ rng.normal(size=(784, 10)).astype(np.float32)).argmax(1).astype(LABEL_DTYPE)
    images = _five_silos(Schema(tuple(map(str, range(10)))), X, y, 10_000)
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(LOADERS, {"fashion-mnist": images}):
        given = {"device": device, "num-server-rounds": rounds, "run-dir": f"{folder}/run", "seed": 0}
        config = RunConfig.from_flower({**SETTINGS, **given})
        run_in_process(config.to_flower(), 5, Path(folder) / "log", bool, train=Stacks().train)


def _runs(fast: bool) -> dict[str, Callable[[str, int], Any]]:
    """By name: a run on a device with a seed, which gives the labels of the public set."""
    digits = load_digits()
    X, y = (digits.data / 16).astype(np.float32), digits.target.astype(LABEL_DTYPE)
    images = np.kron(X.reshape(-1, 1, 8, 8), np.ones((1, 1, 4, 4), dtype=np.float32))
    texts, some = np.array([["a bad day"], ["a good day"]], dtype=object)[y % 2], slice(None, None, 16 if fast else 4)
    classes, pixels = tuple(map(str, range(10))), tuple(Column(f"x{number}") for number in range(64))
    LOADERS["digits"] = _five_silos(Schema(classes, pixels), X, y, len(y) // 2)
    LOADERS["large-digits"] = _five_silos(Schema(classes), images[some], y[some], len(y[some]) // 2)
    columns = (Column("text", text=True),)
    LOADERS["days"] = _five_silos(Schema(("bad", "good"), columns), texts[some], y[some] % 2, len(y[some]) // 2)
    network = {"learner": "mlp", "local_steps": 2 if fast else 50, "rounds": 1 if fast else 6}
    found: dict[str, dict[str, Any]] = {
        "networks": {"silos": "digits", **network},
        "images": {"silos": "large-digits", **network, "learner": "small-cnn", "local_steps": 5},
    }
    if find_spec("opendp"):
        found["DP-SGD, epsilon 8"] = {"silos": "digits", **network, "protection": "dp-sgd", "epsilon": 8.0}
    if find_spec("xgboost"):
        found["XGBoost"] = {"silos": "digits", "rounds": network["rounds"], "learner": "xgboost"}
    if find_spec(PACKAGE):
        encoder = {"folder": str(minilm()), "max_length": 8}
        text = {"learner": "transformer", "learner_params": json.dumps(encoder), "local_steps": 2, "rounds": 2}
        found["text, adapters"] = {"silos": "days", **network, **text, "preprocessing": "standard"}
    return {name: partial(_labels, settings) for name, settings in found.items()}


def _labels(settings: dict[str, Any], device: str, seed: int) -> Any:
    on = {"learner_params": json.dumps({"device": device})} if settings["learner"] == "xgboost" else {"device": device}
    return simulate(algorithm=FedCT.paper(), seed=seed, **{**_HOW, **settings, **on}).consensus


def _five_silos(schema: Schema, X: Any, y: Any, private: int) -> Callable[[RunConfig], FederatedDataset]:
    """Of equal shares of the first ``private`` examples; the others are public."""
    *own, public = np.split(np.arange(len(y)), [private * fifth // 5 for fifth in range(1, 6)])
    silos = [SiloData(f"silo-{n}", Examples(X[rows], y[rows]), Examples(X[:0], y[:0])) for n, rows in enumerate(own)]
    test = Examples(X[public], y[public])
    dataset = FederatedDataset(
        name="one-gpu", schema=schema, public=PublicSet(X[public]), silos=tuple(silos), test=test, truth=test.y
    )
    return lambda config: dataset
