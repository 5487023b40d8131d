"""Runs of a federation on the loopback over many seeds, beside what it is compared with."""

import math
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import cast

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from benchmarks.harness import Settings
from client_app.main import app as client_app
from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.consensus.counting import plurality, tally
from fedct_flwr.evaluation.references import centralized
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.learners.base import Learner
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring import accuracy, balanced_accuracy
from fedct_flwr.seeding import generator
from fedct_flwr.silo import answers
from fedct_flwr.silo.opening import open_silo_context
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Features, HardLabels, SiloName
from fedct_flwr.wire.content import Scores
from fedct_flwr.wire.kinds import HARD
from server_app.main import app as server_app


def cotrained(settings: Settings) -> dict[str, float]:
    """Co-train to the fixed point with one seed; scores are means over the silos.

    By a majority and with pseudo-labels that count as much as records, the paper's way, unless the settings say
    otherwise. Centralized there is one model for each learner that the settings name, not for each silo.

    Names: method_score_test, e.g. ``fedct_balanced_pooled``. Methods: ``local``, ``once`` (one co-training round),
    ``fedct`` (the fixed point or the last round), ``central``, ``vote`` (of the local models, pooled test only).
    ``seconds`` are those of all rounds together.
    """
    scores: dict[SiloName, list[Scores]] = {}
    alone: dict[SiloName, HardLabels] = {}
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "run"
        fixed = {"run-dir": str(path), "save-models": False}
        paper = {"study": "benchmark", "algorithm": "fedct", "pseudo-weight": 1.0}
        config = RunConfig.from_flower({**paper, **settings, **fixed})
        dataset = datasets.load(config)
        start = time.perf_counter()
        run_loopback(server_app, _scored(scores, alone), config.to_flower(), simulated_nodes(len(dataset.silos)))
        found["seconds"] = time.perf_counter() - start
        rounds = RunFolder(path).rounds()
    for method, number in {"local": 0, "once": 1, "fedct": -1}.items():
        reached = [of_silo[min(number, len(of_silo) - 1)]._asdict() for of_silo in scores.values()]
        for name in reached[0]:
            test, _, kind = name.partition("_")
            if test == "pooled" or dataset.silos[0].test.size:
                found[f"{method}_{kind.split('_')[0]}_{test}"] = _mean(silo[name] for silo in reached)
    together, vote = _centralized(config, dataset), Known(_plurality(alone, dataset, config.seed))
    for kind, score in {"accuracy": accuracy, "balanced": balanced_accuracy}.items():
        found[f"central_{kind}_pooled"] = fmean(score(model, dataset.test) for model in together)
        if dataset.silos[0].test.size:
            own = _mean(score(model, silo.test) for model, silo in zip(together, dataset.silos, strict=True))
            found[f"central_{kind}_own"] = own
        found[f"vote_{kind}_pooled"] = score(vote, dataset.test)
    sent = fmean(entry["bytes_sent"] / len(entry["silos"]) for entry in rounds)
    return {**found, "rounds": len(rounds), "bytes_per_silo_and_round": sent}


def _mean(scores: Iterable[float]) -> float:
    """Over the silos that have a score: a small test set may hold a single class."""
    return fmean(score for score in scores if not math.isnan(score))


def _scored(scores: dict[SiloName, list[Scores]], alone: dict[SiloName, HardLabels]) -> ClientApp:
    """The silo's app, and the scores of its model after every reply: no reply carries them, so bytes are real.

    ``alone`` gets what the model of the first round, trained on private records only, predicts for the pooled test set.
    """
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        reply = client_app(message, context)
        site = open_silo_context(context).site
        found = answers.score(HARD, site.learner, site.own_test, site.pooled_test)
        scores.setdefault(site.silo, []).append(cast(Scores, found))
        if site.silo not in alone:
            alone[site.silo] = site.learner.predict(site.pooled_test.X)
        return reply

    return app


def _centralized(config: RunConfig, dataset: datasets.FederatedDataset) -> list[Learner]:
    """A model for each silo, the same one for all if they share a learner."""
    models = [centralized(config, dataset, position) for position in range(len(config.learner))]
    return models * (len(dataset.silos) // len(models))


def _plurality(votes: dict[SiloName, HardLabels], dataset: datasets.FederatedDataset, seed: int) -> HardLabels:
    """The class with the most votes for each example of the pooled test set."""
    counts = tally(votes.values(), dataset.test.size, len(dataset.schema.classes))
    no_incumbent = np.full(dataset.test.size, ABSTAIN, dtype=LABEL_DTYPE)
    return plurality(counts, no_incumbent, generator(seed, "vote"))


class Known:
    """Predictions that are there already, where a score asks a model."""

    def __init__(self, y: HardLabels) -> None:
        self._y = y

    def predict(self, X: Features) -> HardLabels:
        """The predictions."""
        return self._y
