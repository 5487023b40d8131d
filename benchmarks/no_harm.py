"""No silo worse off: each alone, co-trained with plain trust, and with the guard, over real and made sites.

Judged as the promise is worded: by learner and data set, the mean of silos' own-test scores is not more than a standard
error below alone, few silos are significantly worse, and the gain of plain co-training is kept. Silos are in one
process here, without the coordinator's messages, which are no part of the question.
"""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from statistics import fmean
from typing import Any, Final

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks import report
from benchmarks.federation import Known
from benchmarks.harness import Column, Grid, Row, Settings, Table
from benchmarks.natural_silos import NATURAL
from benchmarks.no_harm_rows import ROWS
from benchmarks.report import Runs
from fedct_flwr import datasets
from fedct_flwr.algorithms.fedct import LabelSharing
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.learners import Learner
from fedct_flwr.learners.build import build_learner
from fedct_flwr.learners.safeguard import Safeguard
from fedct_flwr.scoring import balanced_accuracy
from fedct_flwr.scoring.intervals import CHANCE, verdict
from fedct_flwr.silo.personal import cotrain
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, HardLabels, generator
from fedct_flwr.wire.content import Query

LEARNERS: Final[dict[str, dict[str, Any]]] = {
    "logistic-regression": {},
    "random-forest": {"n_estimators": 50},
    "hist-gradient-boosting": {"max_iter": 50},
    "auto": {},
}
"""By their short names, with parameters: half as many trees as by default, for the sake of time."""
TRUST: Final = {"plain": False, "guarded": True}
TESTS: Final = ("own", "pooled")
MUCH: Final = 0.05
ROUNDS: Final = 3
"""At most: later ones change few labels."""
_LATER: Final = ("fractures", "burns", "covid-tests", "transplants")
"""Tables on which no default was chosen: do not choose by them."""
_REAL: Final = ("heart-disease", *(name for name in ROWS if not name.startswith("sites-")))
_FULL: Final = (*_REAL, "sites-prevalence", "sites-turned", "sites-tiny", *_LATER)
_FAST: Final = ("heart-disease", "few-adult-by-workclass", "few-mushroom-by-habitat", "few-wine-by-type")


class Silos:
    """The silos of a data set; how they do alone is known once, whatever they do then."""

    def __init__(self, name: str, learner: str, params: str, seed: int) -> None:
        settings = {"data": name, "learner": learner, "learner-params": params, "seed": seed}
        self._config = RunConfig.from_flower({"study": "benchmark", "pseudo-weight": "auto", **settings})
        self._dataset: FederatedDataset = datasets.load(self._config)
        self._num_classes = len(self._dataset.schema.classes)
        self._learners = [
            build_learner(self._config, self._dataset, n, silo.private.X) for n, silo in enumerate(self._dataset.silos)
        ]
        self._nothing = np.full(len(self._dataset.public), ABSTAIN, dtype=LABEL_DTYPE)
        self._first = self._votes(self._nothing, [None] * len(self._learners))
        self._alone = [self._answers(n) for n in range(len(self._learners))]

    def settle(self) -> None:
        """Let each silo keep the learner that a search has chosen by its own records."""
        for learner in self._learners:
            if chosen := getattr(getattr(learner, "_trained", None), "best_estimator_", None):
                vars(learner)["_template"] = chosen

    def cotrained(self, *, algorithm: str = "fedct-dawid-skene", guarded: bool, rounds: int) -> dict[str, float]:
        """Co-train to the fixed point or the last round; means and numbers of silos, as ``summary`` names them."""
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
        self.guards, self.targets = guards, targets
        return self._summary()

    def _summary(self) -> dict[str, float]:
        """Balanced accuracies alone and together, and silos that lost, by an exact test and by more than 0.05."""
        found: dict[str, list[float]] = {}
        words = []
        for n, silo in enumerate(self._dataset.silos):
            own, pooled = self._answers(n)
            for name, answers in {"alone": self._alone[n], "together": (own, pooled)}.items():
                # NaN of test records of one class: no silo's loss.
                found.setdefault(f"{name}_own", []).append(balanced_accuracy(Known(answers[0]), silo.test))
                found.setdefault(f"{name}_pooled", []).append(balanced_accuracy(Known(answers[1]), self._dataset.test))
            words += [each.word for each in [verdict(self._alone[n][0], own, silo.test.y)] if each]
        values = {name: float(np.nanmean(own)) for name, own in found.items()}
        gains = np.array(found["together_own"]) - found["alone_own"]
        return {
            **values,
            **{f"gain_{test}": values[f"together_{test}"] - values[f"alone_{test}"] for test in TESTS},
            "lost": words.count("lost"),
            "much_worse": int((gains < -MUCH).sum()),
            "silos": len(words),
        }

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


alone: Final = lru_cache(maxsize=1)(Silos)
"""Silos by data set, learner, its parameters as JSON, and seed: trained alone once for all that is done with them."""


def _measured(guarded: bool, settings: Settings) -> dict[str, float]:
    warnings.simplefilter("ignore", ConvergenceWarning)
    silos = alone(settings["data"], settings["learner"], json.dumps(LEARNERS[settings["learner"]]), settings["seed"])
    return silos.cotrained(guarded=guarded, rounds=ROUNDS)


def lost(by: str, method: str) -> Callable[[Runs], str]:
    """The cell that says how many silos of a method lost, over all seeds."""
    return lambda runs: "{:.0f} of {:.0f}".format(*(sum(runs.values[f"{method}: {key}"]) for key in (by, "silos")))


def _criteria(runs: Mapping[str, Runs]) -> str:
    """By learner and over all: rows below alone by more than an error, silos that lost, mean gains and what is kept."""
    learners = [learner for learner in LEARNERS if any(row.endswith(f", {learner}") for row in runs)]
    lines = []
    for learner in (*learners, "all"):
        own = [found for row, found in runs.items() if learner == "all" or row.endswith(f", {learner}")]
        cells = [learner]
        for trust in TRUST:
            below = [found.mean(f"{trust}: gain_own") < -found.standard_error(f"{trust}: gain_own") for found in own]
            silos, worse = (sum(sum(found.values[f"{trust}: {key}"]) for found in own) for key in ("silos", "lost"))
            cells += [f"{sum(below)} of {len(own)}", f"{worse / silos:.1%} of {silos:.0f}"]
        for test in TESTS:
            plain, guarded = (fmean(found.mean(f"{trust}: gain_{test}") for found in own) for trust in TRUST)
            cells.append(f"{plain:+.4f}, {guarded:+.4f}" + (f" ({guarded / plain:.0%})" if plain > 0 else ""))
        lines.append(cells)
    header = [
        "learner", "plain: rows more than an error below alone", "plain: silos that lost", "guarded: rows below",
        "guarded: silos that lost", "own test, mean gain of rows: plain, guarded (kept)", "pooled test, likewise",
    ]  # fmt: skip
    return f"\n{report.table(header, lines)}"


def _rows(names: Sequence[str], learners: Sequence[str] = tuple(LEARNERS)) -> list[Row]:
    return [Row(f"{name}, {learner}", {"data": name, "learner": learner}) for name in names for learner in learners]


TABLES: Final = {
    "no-harm": Table(
        "No silo worse off",
        "Balanced accuracy. Gain: that of the model that a silo ends with over its own model alone, mean over silos, ± "
        "standard error over seeds. Plain: pseudo-labels count as much as own records; guarded: `pseudo-weight = "
        f'"auto"`. Lost: silos that are significantly worse on their own test records (exact test at {CHANCE:.0%}); by '
        f"size: worse by more than {MUCH:g}. Names of real data sets with few records begin with `few-`, those of made "
        f"ones with `sites-`; by {', '.join(_LATER)} nothing was chosen.",
        _rows((*_FULL, *(name for name in ROWS if name not in _FULL))),
        {trust: partial(_measured, guarded) for trust, guarded in TRUST.items()},
        [
            Grid(
                "data, learner",
                [
                    *(Column(f"alone, {test}", f"plain: alone_{test}", ".3f") for test in TESTS),
                    *(Column(f"{trust}, {test}", f"{trust}: gain_{test}") for trust in TRUST for test in TESTS),
                    *(Column(f"lost, {trust}", "", lost("lost", trust)) for trust in TRUST),
                    *(Column(f"lost by size, {trust}", "", lost("much_worse", trust)) for trust in TRUST),
                ],
            )
        ],
        6,
        fast_rows=[row.name for row in _rows(_FAST)],
        smoke_rows=[row.name for row in _rows(_FAST[:1], ("logistic-regression",))],
        loaders={**ROWS, **{name: NATURAL[name] for name in _LATER}},
        after=_criteria,
    )
}
