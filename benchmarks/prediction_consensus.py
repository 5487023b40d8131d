"""Prediction consensus with naive, static and dynamic trust, next to hard labels, FedMD and training alone.

``prediction_consensus.toml`` declares the tables.
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
from benchmarks.declared import tables
from benchmarks.harness import Method, Settings
from benchmarks.methods import SETTINGS, one_thread_per_silo, run_federation
from benchmarks.variants import change, config_of
from fedct_flwr import datasets
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.evaluation.references import centralized, local_only
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring import accuracy
from fedct_flwr.silo.simulated import simulated_site
from fedct_flwr.types import SiloName

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
        warm_up = 1 if algorithm == ALONE else self.warm_up
        rounds = self.rounds - (warm_up - 1)
        return {"local-steps": self.steps, "num-server-rounds": rounds, "warm-up-rounds": warm_up}


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


_MIXED: Final[Settings] = {
    "learner": ",".join(["mlp"] * 5 + ["torch.nn.Linear"] * 5),
    "learner-params": json.dumps([{"width": 64}] * 5 + [{"in_features": 784, "out_features": 10}] * 5),
    "groups": {"strong": [1, 2, 3, 4, 5], "weak": [6, 7, 8, 9, 10]},
}
_FIVE: Final[Settings] = {
    "learner": ",".join(name for name, _ in _TWICE),
    "learner-params": json.dumps([params for _, params in _TWICE]),
    "groups": {name: [place, place + 5] for place, name in enumerate(ARCHITECTURES, 1)},
}
_MEASURES: Final[dict[str, Method]] = {
    **{name: partial(consensus, name) for name in METHODS},
    "FedAvg": _averaged,
    "centralized": _pooled,
}
TABLES: Final = tables(__file__, _MEASURES, {"network": SETTINGS, "strong and weak": _MIXED, "five kinds": _FIVE})
