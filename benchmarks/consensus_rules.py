"""Which consensus holds where: clean, skewed, low-quality and poisoned silos on four data sets.

One co-training round: every silo labels the public set with its own model, a rule makes targets of the labels, every
silo trains on them too. Bad silos vote; only the models of the others are scored, and only their records pooled.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, Final, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import recall_score

from benchmarks import report
from benchmarks.harness import Column, Grid, Row, Settings, Table
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
from fedct_flwr.seeding import generator
from fedct_flwr.silo.answers import cotrain
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Examples, HardLabels, SiloName
from fedct_flwr.wire.content import Query

QUORUM: Final = 0.75
"""Of four silos three; the paper's 0.9 would mean all of them."""
RULES: Final[dict[str, Rule]] = {"majority": Plurality(), "qualified": Qualified(QUORUM), "Dawid-Skene": DawidSkene()}
METHODS: Final = ("local", *RULES, "truth", "central")
WEIGHTS: Final = ("none", "balanced")

_LR, _RF = "logistic-regression", "random-forest"
HOSPITALS: Final = {
    "random forest": _RF,
    "logistic regression": _LR,
    "mixed (LR, RF, boosting, LR)": f"{_LR},{_RF},gradient-boosting,{_LR}",
}


class Data(NamedTuple):
    """A data set, which of its silos are bad where some are, and its learners."""

    title: str
    bad: tuple[str, ...]
    seeds: int
    settings: dict[str, Any]


_SPLIT: Final = {"partition": "dirichlet", "dirichlet-concentration": 0.3}

DATA: Final = (
    Data(
        "Four hospitals, mixed learners, 1 of 4 silos bad", ("cleveland",), 5,
        {"data": "heart-disease", "learner": HOSPITALS["mixed (LR, RF, boosting, LR)"]},
    ),
    Data(
        "Breast cancer, mixed learners (LR, RF, LR, RF, LR), 2 of 5 silos bad", ("silo-2", "silo-5"), 10,
        {"data": "breast-cancer", "private-size": 150, "public-size": 250, "learner": ",".join([*[_LR, _RF] * 2, _LR])},
    ),
    Data(
        "Adult, logistic regression, 2 of 5 silos bad", ("silo-2", "silo-5"), 5,
        {"data": "adult", "private-size": 1000, "public-size": 1000, "learner": _LR},
    ),
    Data(
        "Digits, logistic regression, 3 of 10 silos bad", ("silo-2", "silo-5", "silo-9"), 10,
        {"data": "digits", "learner": _LR},
    ),
)  # fmt: skip
CORRUPTIONS: Final = ("low quality (random labels)", "shifted labels (y + 1 mod C)", "colluding for class 1")
"""The last learn nothing and vote for one class together (Fang, Cao, Jia, Gong, USENIX Security 2020)."""


def digits(config: RunConfig) -> FederatedDataset:
    """scikit-learn's digits (1,797 x 64): 600 over ten silos, 600 public, the rest for testing."""
    raw = load_digits()
    schema = Schema.numeric(tuple(map(str, raw.target_names)), tuple(f"pixel {n}" for n in range(raw.data.shape[1])))
    records = Examples(raw.data, raw.target.astype(LABEL_DTYPE))
    return split_over_silos("digits", schema, records, private=600, public=600, silos=10, config=config)


def _scenarios(data: Data) -> dict[str, dict[str, Any]]:
    """Settings for each kind of silos; hospitals cannot be split otherwise."""
    own = data.settings["data"] == "heart-disease"
    clean: dict[str, dict[str, Any]] = {} if own else {"clean": {}, "skewed (Dirichlet 0.3)": _SPLIT}
    split = {} if own else {"partition": "dirichlet", "dirichlet-concentration": 1.0}
    bad = {
        name if own else f"{name}, Dirichlet 1": {**split, "bad": data.bad, "corruption": name} for name in CORRUPTIONS
    }
    return clean | bad


def measured(settings: Settings) -> dict[str, float]:
    """Balanced accuracy by method, the mean over the good silos' models; ``METHODS`` names them.

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


def _recovered(runs: Mapping[str, Runs]) -> str:
    """How much of the distance from local training to pooled data each rule recovers."""
    lines = []
    for name in HOSPITALS:
        plain = runs.get(f"{_HOSPITALS}, {name}, class-weight none")
        for weight in WEIGHTS if plain else ():
            assert plain is not None
            local, central = plain.mean("local"), plain.mean("central")
            reached = runs[f"{_HOSPITALS}, {name}, class-weight {weight}"]
            shares = [report.share(reached.mean(rule) - local, central - local) for rule in (*RULES, "truth")]
            lines.append([f"{name}, {weight}", *shares])
    header = ["Learner, class-weight", *RULES, "true labels"]
    return "\nShare of the distance from local only to centralized, both without class weights:\n\n" + report.table(
        header, lines
    )


_HOSPITALS: Final = "Four hospitals as they are"
_ROWS: Final = [
    *(
        Row(
            f"{_HOSPITALS}, {name}, class-weight {weight}",
            {"data": "heart-disease", "learner": learner, "class-weight": weight},
            seeds=20,
        )
        for name, learner in HOSPITALS.items()
        for weight in WEIGHTS
    ),
    *(
        Row(
            f"{data.title}: {name}, class-weight {weight}",
            {**data.settings, **corrupted, "class-weight": weight},
            seeds=data.seeds,
        )
        for data in DATA
        for name, corrupted in _scenarios(data).items()
        for weight in WEIGHTS
    ),
]
_NAMED: Final = {"local": "local only", "truth": "true labels", "central": "centralized"}
TABLES: Final = {
    "consensus-rules": Table(
        "Consensus rules",
        "Balanced accuracy on the pooled test set. One co-training round; local: before it, truth: with the true "
        "labels of the public set in the place of the consensus, central: all good silos' private records in one "
        f"place. Models of bad silos are not scored. Qualified: quorum {QUORUM}.",
        _ROWS,
        {"": measured},
        [Grid("Silos", [Column(_NAMED.get(method, method), method) for method in METHODS])],
        20,
        smoke_rows=[row.name for row in (*_ROWS[2:4], _ROWS[-2])],
        loaders={"digits": digits},
        after=_recovered,
    )
}
