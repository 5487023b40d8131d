"""Runs of a federation on the loopback over many seeds, beside what it is compared with."""

import logging
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from client_app.main import app as client_app
from fedct_flwr import datasets
from fedct_flwr.baselines import centralized, local_only
from fedct_flwr.config import RunConfig
from fedct_flwr.consensus import plurality, tally
from fedct_flwr.loopback import run_loopback, simulated_nodes
from fedct_flwr.run_folder import RunFolder
from fedct_flwr.scoring import accuracy, balanced_accuracy
from fedct_flwr.seeding import generator
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Features, HardLabels
from server_app.main import app as server_app


@dataclass
class Runs:
    """One setting over several seeds: a list of values, one for each seed, under each name."""

    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, **measured: float) -> None:
        """Add one seed's values."""
        for name, value in measured.items():
            self.values.setdefault(name, []).append(value)

    def mean(self, name: str) -> float:
        """Mean over the seeds."""
        return fmean(self.values[name])

    def standard_error(self, name: str) -> float:
        """Standard error of the mean."""
        return float(stdev(self.values[name]) / len(self.values[name]) ** 0.5)


def measure(settings: dict[str, Any], seeds: Iterable[int]) -> Runs:
    """Co-train to the fixed point for each seed; scores are means over the silos.

    Names: method_score_test, e.g. ``fedct_balanced_pooled``. Methods: ``local``, ``once`` (one co-training round),
    ``fedct`` (the fixed point or the last round), ``central``, ``vote`` (of the local models, pooled test only).
    """
    logging.getLogger("flwr").setLevel(logging.ERROR)
    runs = Runs()
    for seed in seeds:
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / "run"
            fixed = {"seed": seed, "run-dir": str(path), "report-scores": True, "save-models": False}
            config = RunConfig.from_flower({"study": "benchmark", **settings, **fixed})
            dataset = datasets.load(config)
            run_loopback(server_app, client_app, config.to_flower(), simulated_nodes(len(dataset.silos)))
            rounds = RunFolder(path).rounds()
        for method, entry in {"local": rounds[0], "once": rounds[1], "fedct": rounds[-1]}.items():
            reported = [silo["scores"] for silo in entry["silos"].values()]
            for name in reported[0]:
                test, _, kind = name.partition("_")
                runs.add(**{f"{method}_{kind.split('_')[0]}_{test}": fmean(scores[name] for scores in reported)})
        positions = range(len(dataset.silos))
        together = [centralized(config, dataset, position) for position in positions]
        vote = _LocalVote(config, dataset)
        for kind, score in {"accuracy": accuracy, "balanced": balanced_accuracy}.items():
            runs.add(**{f"central_{kind}_pooled": fmean(score(model, dataset.test) for model in together)})
            if dataset.silos[0].test.size:
                own = fmean(score(model, silo.test) for model, silo in zip(together, dataset.silos, strict=True))
                runs.add(**{f"central_{kind}_own": own})
            runs.add(**{f"vote_{kind}_pooled": score(vote, dataset.test)})
        silos = len(rounds[0]["silos"])
        runs.add(rounds=len(rounds), bytes_per_silo_and_round=rounds[0]["bytes_sent"] / silos)
    return runs


class _LocalVote:
    """The plurality of the silos' local models."""

    def __init__(self, config: RunConfig, dataset: datasets.FederatedDataset) -> None:
        self._models = [local_only(config, dataset, position) for position in range(len(dataset.silos))]
        self._classes, self._seed = len(dataset.schema.classes), config.seed

    def predict(self, X: Features) -> HardLabels:
        """The class with the most votes."""
        counts = tally((model.predict(X) for model in self._models), len(X), self._classes)
        no_incumbent = np.full(len(X), ABSTAIN, dtype=LABEL_DTYPE)
        return plurality(counts, no_incumbent, generator(self._seed, "vote"))
