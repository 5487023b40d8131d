"""Which consensus holds where: clean, skewed, low-quality and poisoned silos on four data sets.

One co-training round: every silo labels the public set with its own model, a rule makes targets of the labels, every
silo trains on them too. Bad silos vote; only the models of the others are scored, and only their records pooled.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Final

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import recall_score

from benchmarks import report
from benchmarks.declared import tables
from benchmarks.harness import Settings
from benchmarks.report import Runs
from benchmarks.variants import config_of, relabeled, shifted
from fedct_flwr import datasets
from fedct_flwr.algorithms.fedct import DawidSkene, Plurality, Qualified, Rule
from fedct_flwr.config.run import RunConfig
from fedct_flwr.consensus.counting import Ballot
from fedct_flwr.datasets.federated import FederatedDataset, pool
from fedct_flwr.datasets.partition import split_over_silos
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners.build import build_learner
from fedct_flwr.scoring import balanced_accuracy
from fedct_flwr.silo.personal import cotrain
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Examples, HardLabels, SiloName, generator
from fedct_flwr.wire.content import Query

QUORUM: Final = 0.75
"""Of four silos three; the paper's 0.9 would mean all of them."""
RULES: Final[dict[str, Rule]] = {"majority": Plurality(), "qualified": Qualified(QUORUM), "Dawid-Skene": DawidSkene()}
CORRUPTIONS: Final = ("low quality (random labels)", "shifted labels (y + 1 mod C)", "colluding for class 1")
"""The last learn nothing and vote for one class together (Fang, Cao, Jia, Gong, USENIX Security 2020)."""


def digits(config: RunConfig) -> FederatedDataset:
    """scikit-learn's digits (1,797 x 64): 600 over ten silos, 600 public, the rest for testing."""
    raw = load_digits()
    schema = Schema.numeric(tuple(map(str, raw.target_names)), tuple(f"pixel {n}" for n in range(raw.data.shape[1])))
    records = Examples(raw.data, raw.target.astype(LABEL_DTYPE))
    return split_over_silos("digits", schema, records, private=600, public=600, silos=10, config=config)


def measured(settings: Settings) -> dict[str, float]:
    """Balanced accuracy by method, the mean over the good silos' models.

    ``public RULE`` is that of the rule's labels on the public set.
    """
    # An optimizer that stops at 1,000 steps has learned well enough.
    warnings.simplefilter("ignore", ConvergenceWarning)
    config = config_of({"study": "benchmark", **settings})
    silos = Silos(config, settings.get("bad", ()), settings.get("corruption", ""))
    nothing = silos.nothing
    votes = silos.train(nothing, everybody=True)
    found = {"local": silos.score()}
    for name, rule in RULES.items():
        consensus = rule.consensus(silos.num_classes)
        rng = generator(settings["seed"], "consensus", 1)
        targets, _ = consensus.apply(votes, nothing, consensus.init([silo for silo, _ in votes]), rng)
        known = np.unique(silos.truth)
        found[f"public {name}"] = float(recall_score(silos.truth, targets, labels=known, average="macro"))
        silos.train(targets)
        found[name] = silos.score()
    silos.train(silos.truth)
    found["truth"] = silos.score()
    return {**found, "central": silos.centralized()}


class Silos:
    """The silos of a data set with their learners; ``bad`` ones have a ``corruption``."""

    def __init__(self, config: RunConfig, bad: Sequence[SiloName] = (), corruption: str = "") -> None:
        self._dataset = datasets.load(config)
        classes = len(self._dataset.schema.classes)
        if corruption == CORRUPTIONS[0]:
            own = partial(generator, config.seed, "corruption")
            self._dataset = relabeled(self._dataset, bad, lambda y, silo: own(silo).integers(0, classes, len(y)))
        elif corruption == CORRUPTIONS[1]:
            self._dataset = shifted(self._dataset, bad)
        self._colluders = {*bad} if corruption == CORRUPTIONS[2] else set()
        self._one_learner = len(config.learner) == 1
        self._learners = [
            build_learner(config, self._dataset, n, silo.private.X) for n, silo in enumerate(self._dataset.silos)
        ]
        self._good = [n for n, silo in enumerate(self._dataset.silos) if silo.name not in bad]
        assert self._dataset.truth is not None
        self.truth = self._dataset.truth
        self.nothing = np.full(len(self.truth), ABSTAIN, dtype=LABEL_DTYPE)
        """No label of the public set."""
        self.num_classes = len(self._dataset.schema.classes)

    def train(self, targets: HardLabels, *, everybody: bool = False) -> list[Ballot]:
        """A round of the good silos, or of all; returns their votes on the public set."""
        public = self._dataset.public
        chosen = [(n, self._dataset.silos[n]) for n in (range(len(self._learners)) if everybody else self._good)]
        everything = Query(0, len(public))
        return [
            (silo.name, np.ones(len(public), dtype=LABEL_DTYPE))
            if silo.name in self._colluders
            else (silo.name, cotrain(self._learners[n], silo.private, public, targets, everything))
            for n, silo in chosen
        ]

    def score(self) -> float:
        """Of the good silos' models as they are."""
        return fmean(balanced_accuracy(self._learners[n], self._dataset.test) for n in self._good)

    def centralized(self) -> float:
        """Of models trained on all good silos' records; silos that share a learner share the model."""
        together = pool([self._dataset.silos[n].private for n in self._good])
        models = [self._learners[n] for n in (self._good[:1] if self._one_learner else self._good)]
        return fmean(balanced_accuracy(model.fit(*together), self._dataset.test) for model in models)


_BEFORE, _AFTER = "Four hospitals as they are, ", ", class-weight none"
"""Around the learner, in the names of rows."""


def _recovered(runs: Mapping[str, Runs]) -> str:
    """How much of the distance from local training to pooled data each rule recovers."""
    lines = []
    for name, plain in runs.items():
        for weight in ("none", "balanced") if name.startswith(_BEFORE) and name.endswith(_AFTER) else ():
            local, central = plain.mean("local"), plain.mean("central")
            reached = runs[f"{name.removesuffix('none')}{weight}"]
            shares = [report.share(reached.mean(rule) - local, central - local) for rule in (*RULES, "truth")]
            lines.append([f"{name.removeprefix(_BEFORE).removesuffix(_AFTER)}, {weight}", *shares])
    header = ["Learner, class-weight", *RULES, "true labels"]
    return "\nShare of the distance from local only to centralized, both without class weights:\n\n" + report.table(
        header, lines
    )


TABLES: Final = tables(__file__, {"measured": measured}, loaders={"digits": digits}, after=_recovered)
