"""Prediction consensus with naive, static and dynamic trust, next to hard labels, FedMD and training alone.

D. Fan, C. Mendler-Dünner, M. Jaggi, arXiv:2305.18497, Table 1 and §5.2; D. Li, J. Wang, "FedMD", arXiv:1910.03581. On
FashionMNIST in place of CIFAR10 and CIFAR100. Accuracy is that of the good silos' models on held-out data; the first
paper measures it on the public set, which the silos have learned from.
"""

import json
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

from benchmarks import methods
from benchmarks.harness import Column, Grid, Row, Settings, Table, Words, by_method
from benchmarks.methods import SETTINGS, one_thread_per_silo, run_federation
from benchmarks.variants import BAD, change, config_of
from fedct_flwr import datasets
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.evaluation.references import centralized, local_only
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring import accuracy
from fedct_flwr.silo.simulated import simulated_site
from fedct_flwr.types import SiloName

CONSENSUS: Final[dict[str, Any]] = {
    **SETTINGS,
    "num-silos": 10,
    "private-size": 10_000,
    "public-size": 1000,
    "partition": "dirichlet-by-silo",
    "learner-params": '{"width": 64}',
    "learning-rate": 0.005,
}
ALONE: Final = "alone"
"""In the place of an algorithm: none."""
_DYNAMIC: Final = "prediction consensus, dynamic"
METHODS: Final[dict[str, dict[str, Any]]] = {
    "local only": {"algorithm": ALONE},
    "naive": {"algorithm": "prediction-consensus", "trust": "naive"},
    "hard majority": {"algorithm": "fedct"},
    "static": {"algorithm": "prediction-consensus", "trust": "static"},
    "dynamic": {"algorithm": "prediction-consensus", "trust": "dynamic"},
    _DYNAMIC: {"algorithm": "prediction-consensus", "trust": "dynamic"},
    "FedCT": {"algorithm": "fedct"},
    "FedMD": {"algorithm": "fedmd"},
    "DD": {"algorithm": "dd"},
}


class Length(NamedTuple):
    """``rounds`` of ``steps`` minibatches each; a silo's first answer comes after ``warm_up`` of them."""

    rounds: int
    warm_up: int
    steps: int

    def settings(self, algorithm: str) -> dict[str, Any]:
        """Of the run config."""
        rounds = self.rounds - (0 if algorithm == ALONE else self.warm_up - 1)
        return {"local-steps": self.steps, "num-server-rounds": rounds, "warm-up-rounds": self.warm_up}


def consensus(method: str, settings: Settings) -> dict[str, float]:
    """Held-out accuracy of the good silos and of groups of them, what a silo sends, trust in bad silos.

    ``settings`` has a ``length``, a tuple like ``Length``, and may have ``bad`` silos and ``groups``: numbers by name.
    """
    one_thread_per_silo()
    length, groups, bad = Length(*settings["length"]), settings.get("groups", {}), settings.get("bad", ())
    algorithm = METHODS[method]["algorithm"]
    own = {} if algorithm == ALONE else METHODS[method]
    config = config_of({**settings, **own, **length.settings(algorithm)})
    dataset, start = datasets.load(config), time.perf_counter()
    found: dict[str, float] = {"bytes": 0.0, "bytes in all": 0.0}
    if algorithm == ALONE:
        models = [local_only(config, dataset, place) for place in range(len(dataset.silos))]
    else:
        with tempfile.TemporaryDirectory() as temporary:
            config = change(config, run_dir=f"{temporary}/run")
            rounds, _ = run_federation(config)
            models = [simulated_site(config, place).learner for place in range(len(dataset.silos))]
            trust = RunFolder(Path(config.run_dir)).trust()
        simulated_site.cache_clear()
        sent = [entry["bytes_sent"] / len(entry["silos"]) for entry in rounds]
        found = {"bytes": fmean(sent), "bytes in all": sum(sent)}
        if trust and bad:
            found |= {f"trust in bad, {when}": _given(trust[place], bad) for when, place in _WHEN.items()}
        if trust and "weak" in groups:
            found["weak in strong"] = _between(trust[len(trust) // 2], groups["weak"], groups["strong"])
    found["seconds"] = time.perf_counter() - start
    reached = {silo.name: accuracy(model, dataset.test) for silo, model in zip(dataset.silos, models, strict=True)}
    found["bad silos"] = fmean([reached[silo] for silo in bad] or [0.0])
    return {**found, **_means(reached, dataset, groups, bad)}


_WHEN: Final = {"first": 0, "last": -1}


def _means(
    reached: dict[SiloName, float], dataset: FederatedDataset, groups: dict[str, list[int]], bad: Sequence[SiloName]
) -> dict[str, float]:
    means = {"accuracy": fmean(value for silo, value in reached.items() if silo not in bad)}
    for name, numbers in groups.items():
        own = [reached[silo] for silo in (f"silo-{number}" for number in numbers) if silo in reached]
        means |= {name: fmean(own)} if own else {}
    return means


def _given(line: dict[str, Any], silos: Sequence[SiloName]) -> float:
    """The sum of what all give to one of these silos, on average; 1 if all count the same."""
    columns = zip(line["silos"], zip(*line["matrix"], strict=True), strict=True)
    return fmean(sum(column) for name, column in columns if name in silos)


def _between(line: dict[str, Any], trusting: Sequence[int], trusted: Sequence[int]) -> float:
    """What a silo of the first group gives to one of the second, on average, times the number of silos."""
    place = {name: number for number, name in enumerate(line["silos"])}
    pairs = [(place[f"silo-{one}"], place[f"silo-{other}"]) for one in trusting for other in trusted]
    return len(place) * fmean(line["matrix"][one][other] for one, other in pairs)


def _averaged(settings: Settings) -> dict[str, float]:
    """FedAvg for as many steps, and what a silo sends in all."""
    one_thread_per_silo()
    length = Length(*settings["length"])
    found = methods.METHODS["FedAvg"](config_of({**settings, **length.settings(ALONE)}))
    return {"accuracy": found.accuracy, "bytes in all": length.rounds * found.bytes_per_silo_and_round}


def _pooled(settings: Settings) -> dict[str, float]:
    """Each kind of network, trained on all private records."""
    one_thread_per_silo()
    length, groups = Length(*settings["length"]), settings["groups"]
    config = config_of({**settings, **length.settings(ALONE)})
    dataset = datasets.load(config)
    reached = {
        dataset.silos[place].name: accuracy(centralized(config, dataset, place), dataset.test)
        for place in range(len(groups))
    }
    return _means(reached, dataset, groups, ())


_BAD: Final = {"data": "fashion-mnist-silos-2-and-9-shifted", "bad": BAD}
SCENARIOS: Final[dict[str, dict[str, Any]]] = {
    f"Dirichlet {concentration:g}{name}": {"dirichlet-concentration": concentration, **settings}
    for name, settings in {
        ", silos 2 and 9 bad": _BAD,
        "": {},
        " by class, silos 2 and 9 bad": {**_BAD, "partition": "dirichlet"},
    }.items()
    for concentration in (0.1, 1.0)
}
_PAPER: Final = {
    "Dirichlet 1": {"local only": "0.475", "naive": "0.618", "static": "0.604", "dynamic": "0.612"},
    "Dirichlet 1, silos 2 and 9 bad": {"local only": "0.470", "naive": "0.596", "static": "0.605", "dynamic": "0.608"},
}
_TRUST: Final = ("static", "dynamic")
_COMPARED: Final = ("local only", "naive", "hard majority", "static", "dynamic")
_LENGTH: Final = (25, 5, 80)
_SMOKE: Final[Settings] = {"private-size": 500, "public-size": 60, "length": (3, 2, 2)}
_GROUPS: Final = {"strong": [1, 2, 3, 4, 5], "weak": [6, 7, 8, 9, 10]}
_MIXED: Final[Settings] = {
    **CONSENSUS,
    "dirichlet-concentration": 1.0,
    "learner": ",".join(["mlp"] * 5 + ["torch.nn.Linear"] * 5),
    "learner-params": json.dumps([{"width": 64}] * 5 + [{"in_features": 784, "out_features": 10}] * 5),
    "groups": _GROUPS,
}

_CNN: Final = "benchmarks.prediction_consensus.cnn"
ARCHITECTURES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "CNN of 3 layers": (_CNN, {"channels": [8, 16, 32]}),
    "CNN of 2 layers": (_CNN, {"channels": [8, 16]}),
    "MLP 784-128-128-5": ("mlp", {"width": 128}),
    "MLP 784-32-32-5": ("mlp", {"width": 32}),
    "linear": ("torch.nn.Linear", {"in_features": 784, "out_features": 5}),
}
"""Two silos of each: silo 1 and 6 the first, silo 2 and 7 the second."""
_TWICE: Final = [*ARCHITECTURES.values()] * 2
_SUPERCLASSES: Final = ("local only", "FedMD", "DD", "FedCT", _DYNAMIC)
_EACH: Final = "one subclass of each"
_ALL: Final = (*_SUPERCLASSES, "centralized")


def cnn(num_classes: int, channels: tuple[int, ...] = (8, 16)) -> Any:
    """Rows of 784 pixels to logits; each convolution halves the image: 28, 14, 7, 4. As FedMD's, but smaller.

    >>> sum(parameter.numel() for parameter in cnn(5).parameters())
    5173
    """
    from torch import nn  # not at the top: other tables need no network

    layers: list[nn.Module] = [nn.Unflatten(1, (1, 28, 28))]
    before, side = 1, 28
    for width in channels:
        layers += [nn.Conv2d(before, width, 3, stride=2, padding=1), nn.ReLU()]
        before, side = width, (side + 1) // 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * side**2, num_classes))


TABLES: Final[dict[str, Table]] = {
    "consensus-table1": Table(
        "Prediction consensus, Table 1: FashionMNIST, 10 silos",
        "10,000 private records in all, 1,000 public examples, an MLP 784-64-64-10, Adam with rate .005; lambda .5; 25 "
        "rounds of 80 steps, the first 5 alone. Silos have 1,000 records each, and each draws its classes by itself "
        "(Hsu et al., arXiv:1909.06335); in the rows by class each class is divided by a draw, so that silos have from "
        "tens to thousands of records. The labels of bad silos are shifted by one class. Hard majority is FedCT: "
        "labels in place of probabilities. The paper's accuracy is that on the public set, of a ResNet20 on CIFAR10, "
        "after 50 rounds of 5 epochs, with the one skew that it has. Trust in bad silos: what all silos together give "
        "to one (its column's sum in the trust matrix; 1 is the average).",
        [Row(name, settings, paper=_PAPER.get(name, {})) for name, settings in SCENARIOS.items()],
        {name: partial(consensus, name) for name in _COMPARED},
        [
            Grid("Held-out accuracy of the good silos", by_method(_COMPARED)),
            Grid(
                "Trust in bad silos",
                [Column(f"{when} answer", f"{{}}: trust in bad, {when}", ".2f") for when in _WHEN],
                each=_TRUST,
            ),
        ],
        2,
        settings={**CONSENSUS, "length": _LENGTH},
        fast={"length": (20, 5, 80)},
        smoke=_SMOKE,
        fast_rows=["Dirichlet 0.1, silos 2 and 9 bad", "Dirichlet 1, silos 2 and 9 bad"],
        smoke_rows=["Dirichlet 1, silos 2 and 9 bad", "Dirichlet 1"],
        paper="prediction consensus, Table 1",
        other_data="FashionMNIST",
        words=[
            Words(
                "trust pays where silos are bad",
                ("Dirichlet 1, silos 2 and 9 bad", trust),
                ("Dirichlet 1, silos 2 and 9 bad", "naive"),
            )
            for trust in _TRUST
        ],
    ),
    "consensus-architectures": Table(
        "Prediction consensus with strong and weak networks: FashionMNIST, Dirichlet 1",
        "Figures 4 (right) and 5. Silos 1 to 5 train an MLP 784-64-64-10 (strong), silos 6 to 10 a linear model "
        "(weak). 25 rounds of 40 steps, the first 5 alone. Trust: what a weak silo gives a strong one in the middle of "
        "the run, next to an equal share.",
        [Row("Dirichlet 1")],
        {name: partial(consensus, name) for name in ("local only", "naive", "static", "dynamic")},
        [
            Grid(
                "Held-out accuracy",
                [Column(name, f"{name}: {{}}") for name in ("local only", "naive", "static", "dynamic")],
                each=("strong", "weak"),
            ),
            Grid("Trust", [Column(name, f"{name}: weak in strong") for name in _TRUST]),
        ],
        2,
        settings={**_MIXED, "length": (25, 5, 40)},
        fast={"length": (6, 2, 20)},
        smoke=_SMOKE,
        paper="prediction consensus, Figures 4 and 5",
        other_data="FashionMNIST",
        words=[
            Words("the weak learn from the strong", ("weak", "dynamic"), ("weak", "local only")),
            Words("trust is ahead of a plain mean", ("strong", "dynamic"), ("strong", "naive")),
        ],
    ),
    "consensus-communication": Table(
        "Prediction consensus and communication: FashionMNIST, Dirichlet 1, 10 silos",
        "Figure 6. Held-out accuracy, and what a silo sends in all; rows by period train for the same steps. Warm-up "
        "rounds send nothing. The network is 784-64-64-10. Answers: dynamic trust, one after every 40 steps, more and "
        "more of them.",
        [
            *(
                Row(f"every {length[2]} steps", {"length": length}, (_DYNAMIC, "FedCT", "FedAvg"))
                for length in ((25, 5, 40), (10, 2, 100), (4, 1, 250))
            ),
            *(Row(f"{rounds - 4} answers", {"length": (rounds, 5, 40)}, (_DYNAMIC,)) for rounds in (5, 8, 14, 25)),
        ],
        {_DYNAMIC: partial(consensus, _DYNAMIC), "FedCT": partial(consensus, "FedCT"), "FedAvg": _averaged},
        [
            Grid("Held-out accuracy", by_method((_DYNAMIC, "FedCT", "FedAvg"))),
            Grid("Bytes a silo sends in all", by_method((_DYNAMIC, "FedCT", "FedAvg"), "bytes in all", ",.0f")),
        ],
        2,
        settings={**CONSENSUS, "dirichlet-concentration": 1.0},
        fast={"private-size": 3000},
        smoke={**_SMOKE, "num-silos": 4},
        smoke_rows=["every 40 steps", "1 answers"],
        paper="prediction consensus, Figure 6",
        other_data="FashionMNIST",
        words=[
            Words(
                "few, long rounds cost FedAvg more than prediction consensus",
                ("every 250 steps", _DYNAMIC),
                ("every 250 steps", "FedAvg"),
            )
        ],
    ),
    "fedmd": Table(
        "FedMD's scenario: FashionMNIST's superclasses, 10 silos, five kinds of network",
        "3,000 private records in all, 5,000 public examples, Adam with rate .001. Five superclasses: tops (four "
        "subclasses), shoes (three), trousers, dresses, bags. Each silo has one subclass of tops and one of shoes, or "
        "all of them (iid); all are tested on all. A constant has .4. 17 rounds of 40 steps; silos that share "
        "probabilities train alone for the first 5. FedMD's take as many steps on the public set besides. FedCT is by "
        "majority. Centralized: each network for as many steps on all private records.",
        [
            Row(_EACH, {"data": "fashion-superclasses"}),
            Row("iid", {"data": "fashion-superclasses-iid"}),
        ],
        {**{name: partial(consensus, name) for name in _SUPERCLASSES}, "centralized": _pooled},
        [
            Grid("Held-out accuracy", by_method(_ALL)),
            Grid("By network", [Column(name, f"{name}: {{}}") for name in _ALL], each=tuple(ARCHITECTURES)),
            Grid("Bytes a silo sends in a round", by_method(_SUPERCLASSES[1:], "bytes", ",.0f")),
        ],
        2,
        settings={
            **SETTINGS,
            "learner": ",".join(name for name, _ in _TWICE),
            "learner-params": json.dumps([params for _, params in _TWICE]),
            "length": (17, 5, 40),
            "groups": {name: [place, place + 5] for place, name in enumerate(ARCHITECTURES, 1)},
        },
        fast={"length": (6, 2, 15)},
        smoke={"private-size": 400, "public-size": 60, "length": (3, 2, 2)},
        paper="FedMD, Figure 2",
        other_data="FashionMNIST",
        words=[
            Words("FedMD gains over training alone", (_EACH, "FedMD"), (_EACH, "local only")),
            Words("FedCT is slightly above FedMD", (_EACH, "FedCT"), (_EACH, "FedMD")),
        ],
    ),
}
