"""No silo worse off: each alone, co-trained with plain trust, and with the guard, over real and made sites.

Judged as the promise is worded: by learner and data set, the mean of silos' own-test scores is not more than a standard
error below alone, few silos are significantly worse, and the gain of plain co-training is kept. Silos are in one
process here, without the coordinator's messages, which are no part of the question.
"""

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean, stdev
from typing import Any, Final, TypeAlias

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks import progress, report
from benchmarks.federation import Known
from benchmarks.harness import Asked
from benchmarks.natural_silos import NATURAL
from benchmarks.no_harm_rows import ROWS
from benchmarks.report import Runs
from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.coordinator.algorithm import LabelSharing
from fedct_flwr.datasets import LOADERS
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.learners.base import Learner
from fedct_flwr.learners.build import build_learner
from fedct_flwr.learners.safeguard import Safeguard
from fedct_flwr.scoring import balanced_accuracy
from fedct_flwr.scoring.intervals import CHANCE, verdict
from fedct_flwr.seeding import generator
from fedct_flwr.silo.answers import cotrain
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, HardLabels
from fedct_flwr.wire.content import Query

LEARNERS: Final[dict[str, dict[str, Any]]] = {
    "logistic-regression": {},
    "random-forest": {"n_estimators": 50},
    "hist-gradient-boosting": {"max_iter": 50},
    "auto": {},
}
"""By their short names, with parameters: half as many trees as by default, for the sake of time."""
PLAIN: Final = "plain"
GUARDED: Final = "guarded"
ROUNDS: Final = 3
"""At most: later ones change few labels."""
_DEFAULT_SEEDS: Final = 6
_LATER: Final = ("fractures", "burns", "covid-tests")
"""Tables on which no default was chosen: do not choose by them."""
_FULL: Final = (
    "heart-disease",
    *(name for name in ROWS if not name.startswith("sites-")),
    "sites-prevalence",
    "sites-turned",
    "sites-tiny",
    *_LATER,
)
_FAST: Final = ("heart-disease", "few-adult-by-workclass", "few-mushroom-by-habitat", "few-wine-by-type")

Scores: TypeAlias = dict[str, list[Any]]
"""Balanced accuracies of each silo, NaN for test records of one class: alone and together, own and pooled; verdicts."""


@dataclass
class Row:
    """One data set with one learner and one kind of trust: differences from alone, of each silo with each seed.

    ``own`` has those silos whose test records have two classes or more, ``verdicts`` all that have test records.
    """

    own: list[float] = field(default_factory=list)
    pooled: list[float] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)

    def add(self, scores: Scores) -> None:
        """One seed's silos."""
        self.own += [gain for gain in _gains(scores, "own") if not np.isnan(gain)]
        self.pooled += _gains(scores, "pooled")
        self.verdicts += scores["verdicts"]

    @property
    def gain(self) -> float:
        """Mean gain on own tests."""
        return fmean(self.own)

    @property
    def error(self) -> float:
        """Its standard error, over silos and seeds."""
        return float(stdev(self.own) / len(self.own) ** 0.5) if len(self.own) > 1 else 0.0

    @property
    def lost(self) -> float:
        """The share of silos that are significantly worse off."""
        return fmean(word == "lost" for word in self.verdicts)


class Silos:
    """The silos of a data set; how they do alone is known once, whatever they do then."""

    def __init__(self, name: str, learner: str, params: Mapping[str, Any], seed: int) -> None:
        settings = {
            "study": "benchmark",
            "data": name,
            "learner": learner,
            "learner-params": json.dumps(params),
            "pseudo-weight": "auto",
            "seed": seed,
        }
        self._config = RunConfig.from_flower(settings)
        self._dataset: FederatedDataset = datasets.load(self._config)
        self._num_classes = len(self._dataset.schema.classes)
        self._learners = [
            build_learner(self._config, self._dataset, n, silo.private.X) for n, silo in enumerate(self._dataset.silos)
        ]
        self._nothing = np.full(len(self._dataset.public), ABSTAIN, dtype=LABEL_DTYPE)
        self._first = self._votes(self._nothing, [None] * len(self._learners))
        self._alone = [self._answers(n) for n in range(len(self._learners))]

    def cotrained(self, *, algorithm: str = "fedct-dawid-skene", guarded: bool, rounds: int) -> Scores:
        """Co-train to the fixed point or the last round."""
        config, silos = self._config, self._dataset.silos
        guards = [
            Safeguard(silo.private, self._num_classes, config.seed, silo.name, silo.groups) if guarded else None
            for silo in silos
        ]
        method = RunConfig.from_flower({**config.to_flower(), "algorithm": algorithm}).method
        assert isinstance(method, LabelSharing)
        consensus = method.consensus(self._num_classes)
        state, targets, votes = consensus.init([silo.name for silo in silos]), self._nothing, self._first
        for number in range(1, rounds + 1):
            before = targets
            ballots = [(silo.name, vote) for silo, vote in zip(silos, votes, strict=True)]
            targets, state = consensus.apply(ballots, before, state, generator(config.seed, "consensus", number))
            if np.array_equal(targets, before):
                break  # silos' models do not depend on the round
            votes = self._votes(targets, guards)
        scores: Scores = {"verdicts": []}
        self.guards, self.targets = guards, targets
        for n, silo in enumerate(silos):
            own, pooled = self._answers(n)
            for name, answers in {"alone": self._alone[n], "together": (own, pooled)}.items():
                scores.setdefault(f"{name}_own", []).append(balanced_accuracy(Known(answers[0]), silo.test))
                scores.setdefault(f"{name}_pooled", []).append(balanced_accuracy(Known(answers[1]), self._dataset.test))
            if found := verdict(self._alone[n][0], own, silo.test.y):
                scores["verdicts"].append(found.word)
        return scores

    def _votes(self, targets: HardLabels, guards: Sequence[Safeguard | None]) -> list[HardLabels]:
        public = self._dataset.public
        everything = Query(0, len(public))
        for guard in filter(None, guards):
            guard.before = guard.decision
        return [
            cotrain(learner, silo.private, public, targets, everything, safeguard=guard)
            for learner, silo, guard in zip(self._learners, self._dataset.silos, guards, strict=True)
        ]

    def _answers(self, n: int) -> tuple[HardLabels, HardLabels]:
        """Of a silo's model as it is, on its own test records and on all."""
        learner: Learner = self._learners[n]
        own = self._dataset.silos[n].test
        return (learner.predict(own.X) if own.size else own.y), learner.predict(self._dataset.test.X)


def run(asked: Asked) -> None:
    """Whether any silo is worse off: alone, co-trained, guarded, over real and made sites; 6 seeds."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    seeds, learners = asked.seeds(_DEFAULT_SEEDS), [*LEARNERS][: asked.of(None, None, 1)]
    LOADERS.update({**ROWS, **{name: NATURAL[name] for name in _LATER}})
    names = asked.chosen(_FULL, _FAST, _FAST[:1], {*_FULL, *ROWS, *LOADERS})
    runs: dict[str, Runs] = {}
    found: dict[tuple[str, str, str], Row] = {}
    for name in names:
        for learner in learners:
            for seed in range(seeds):
                both = progress.once(f"{name}, {learner}, {seed}", partial(_both_ways, name, learner, seed))
                for trust, scores in both.items():
                    found.setdefault((name, learner, trust), Row()).add(scores)
                    values = runs.setdefault(f"{name}, {learner}, {trust}", Runs())
                    values.add(**{key: float(np.nanmean(own)) for key, own in scores.items() if key != "verdicts"})
            print(f"{name}, {learner}: {_cell(found[name, learner, GUARDED])}", flush=True)
    tables = f"{_table(names, learners, runs, found)}\n{_criteria(names, learners, found)}"
    text = f"# No silo worse off, {seeds} seeds\n\n{_ABOUT}\n{tables}"
    settings = {"rows": names, "learners": LEARNERS, "rounds": ROUNDS, "seeds": seeds}
    report.write("no-harm", text, runs, settings)


def _both_ways(name: str, learner: str, seed: int) -> dict[str, Scores]:
    silos = Silos(name, learner, LEARNERS[learner], seed)
    return {trust: silos.cotrained(guarded=trust == GUARDED, rounds=ROUNDS) for trust in (PLAIN, GUARDED)}


_ABOUT: Final = (
    "Balanced accuracy. Gain: that of the model that a silo ends with over its own model alone, mean ± standard error "
    "over silos and seeds on their own test records, then on all silos' records. Plain: pseudo-labels count as much as "
    f'own records; guarded: `pseudo-weight = "auto"`. Lost: silos that are significantly worse on their own test '
    f"records (exact test at {CHANCE:.0%}), plain and guarded. The names of real data sets with few records begin with "
    f"`few-`, those of made ones with `sites-`; by {', '.join(_LATER)} nothing was chosen.\n"
)


def _gains(scores: Scores, test: str) -> list[float]:
    pairs = zip(scores[f"together_{test}"], scores[f"alone_{test}"], strict=True)
    return [together - alone for together, alone in pairs]


def _cell(row: Row) -> str:
    return f"{row.gain:+.3f} ± {row.error:.3f} / {fmean(row.pooled):+.3f}"


def _table(
    names: Iterable[str], learners: Sequence[str], runs: dict[str, Runs], rows: dict[tuple[str, str, str], Row]
) -> str:
    header = ["data", "learner", "alone, own / pooled", "gain, plain", "gain, guarded", "lost"]
    lines = []
    for name in names:
        for learner in learners:
            found = runs[f"{name}, {learner}, {GUARDED}"]
            both = [rows[name, learner, trust] for trust in (PLAIN, GUARDED)]
            alone = f"{found.mean('alone_own'):.3f} / {found.mean('alone_pooled'):.3f}"
            lost = ", ".join(f"{row.lost:.0%}" for row in both)
            lines.append([name, learner, alone, *map(_cell, both), lost])
    return report.table(header, lines)


def _criteria(names: Sequence[str], learners: Sequence[str], rows: dict[tuple[str, str, str], Row]) -> str:
    lines = []
    for learner in (*learners, "all"):
        of = [learner] if learner != "all" else learners
        by_trust = {trust: [rows[name, each, trust] for each in of for name in names] for trust in (PLAIN, GUARDED)}
        cells = [learner]
        for found in by_trust.values():
            below = sum(row.gain < -row.error for row in found)
            verdicts = [each for row in found for each in row.verdicts]
            lost = fmean(word == "lost" for word in verdicts)
            cells += [f"{below} of {len(found)}", f"{lost:.1%} of {len(verdicts)}"]
        cells += [_both(by_trust, lambda row: row.gain), _both(by_trust, lambda row: fmean(row.pooled))]
        lines.append(cells)
    header = [
        "learner", "plain: rows more than an error below alone", "plain: silos that lost", "guarded: rows below",
        "guarded: silos that lost", "own test, mean gain of rows: plain, guarded (kept)", "pooled test, likewise",
    ]  # fmt: skip
    return report.table(header, lines)


def _both(by_trust: dict[str, list[Row]], gain: Callable[[Row], float]) -> str:
    plain, guarded = (fmean(gain(row) for row in by_trust[trust]) for trust in (PLAIN, GUARDED))
    kept = f" ({guarded / plain:.0%})" if plain > 0 else ""
    return f"{plain:+.4f}, {guarded:+.4f}{kept}"
