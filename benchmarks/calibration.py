"""Chances that are true: silos' co-trained models as they rank, recalibrated, and the same learners alone.

Silos are in one process here, as in ``no_harm``.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from benchmarks import report
from benchmarks.harness import Column, Grid, Row, Settings, Table
from benchmarks.natural_silos import NATURAL
from benchmarks.no_harm import Silos
from benchmarks.report import Runs
from fedct_flwr.datasets.federated import SiloData
from fedct_flwr.learners import Learner
from fedct_flwr.learners.out_of_fold import probabilities
from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.scoring.assessment import Recalibration, auc, brier, calibration_curve
from fedct_flwr.types import Examples

LEARNERS: Final = ("auto", "logistic-regression")
PLAIN, ALONE, RANKS, CHANCES = MODELS = ("alone, unweighted", "alone", "co-trained", "recalibrated")
TESTS: Final = ("own", "pooled")
MEASURES: Final = {
    "off": "off", "silo": "off, by silo", "ece": "ECE", "all": "Brier", "brier": "Brier, by silo", "auc": "AUC",
}  # fmt: skip
_ROUNDS: Final = 3
_Stated: TypeAlias = list[NDArray[np.float64]]
"""Of one silo's model, for its own and for the pooled test records."""


class Chances(Silos):
    """Silos whose models' probabilities are looked at, before and after co-training."""

    def found(self) -> dict[str, float]:
        """Each measure of each model, by test, as a mean over the silos."""
        silos = self._dataset.silos
        alone = list(map(self._stated, self._learners, silos))
        plain = [
            self._stated(_unweighted(learner).fit(*silo.private), silo)
            for learner, silo in zip(self._learners, silos, strict=True)
        ]
        self.cotrained(guarded=True, rounds=_ROUNDS)
        ranks = list(map(self._stated, self._learners, silos))
        chances = []
        for learner, guard, stated in zip(self._learners, self.guards, ranks, strict=True):
            seen = guard.out_of_fold(learner, self._dataset.public.X, self.targets) if guard else None
            how = Recalibration.learned(*seen) if seen else None
            chances.append(stated if how is None else [how.apply(p) for p in stated])
        values: dict[str, Any] = {}
        for model, of_silos in zip(MODELS, (plain, alone, ranks, chances), strict=True):
            for place, test in enumerate(TESTS):
                records = [silo.test if test == "own" else self._dataset.test for silo in silos]
                asked = [(one, p[place]) for one, p in zip(records, of_silos, strict=True) if one.size]
                values |= {f"{test}, {model}, {name}": value for name, value in _measured(asked).items()}
        return values

    def _stated(self, learner: Learner, silo: SiloData) -> _Stated:
        tests = [silo.test, self._dataset.test]
        return [probabilities(learner, X, self._num_classes) if len(X) else np.zeros((0, 2)) for X, _ in tests]


def _unweighted(learner: Any) -> SklearnLearner:
    """The same learner, untrained, for which classes count as often as they are."""
    return SklearnLearner(learner._template, learner.parts[0])


def _measured(asked: Sequence[tuple[Examples, NDArray[np.float64]]]) -> dict[str, float]:
    """Of two classes; ``luck`` is how far off by silo true chances would be on average, on as few records."""
    stated, happened = (np.concatenate(parts) for parts in zip(*((p[:, 1], own.y) for own, p in asked), strict=True))
    by_silo: dict[str, list[float]] = {}
    for (own, p), size in ((one, one[0].size) for one in asked):
        bins = calibration_curve(own.y, p, 1)
        for name, value in {
            "silo": abs(float(p[:, 1].mean() - own.y.mean())),
            "luck": float(np.sqrt(2 / np.pi * (p[:, 1] * p[:, 0]).sum()) / size),
            "ece": sum(part.n * abs(part.predicted - part.observed) for part in bins) / size,
            "brier": brier(own.y, p).value,
            "auc": auc(own.y, p, 1).value,
        }.items():
            by_silo.setdefault(name, []).append(value)
    found = {name: float(np.nanmean(values)) for name, values in by_silo.items()}
    losses = (stated - happened) ** 2
    return {"off": abs(float(stated.mean() - happened.mean())), "all": float(losses.mean()), **found}


def _chances(settings: Settings) -> dict[str, float]:
    warnings.simplefilter("ignore", ConvergenceWarning)
    return Chances(settings["data"], settings["learner"], "{}", settings["seed"]).found()


_ABOUT: Final = (
    f"Each cell: {'; '.join(MODELS)}. Unweighted: the same learner, which weighs no classes, as "
    "`auto` may. Recalibrated: by each silo's own out-of-fold predictions. Off: mean stated chance less the "
    "share observed, without its sign, over the test records of all silos, each by its silo's model. By silo: the mean "
    "over silos, in brackets what true chances would have by luck on as few records. Brier's score likewise. ECE "
    "(expected calibration error, ten bins) and AUC are means over silos."
)


def _cell(of: Sequence[Runs], test: str, name: str) -> str:
    def mean(model: str, measure: str) -> float:
        return fmean(found.mean(f"{test}, {model}, {measure}") for found in of)

    luck = f" ({mean(CHANCES, 'luck'):.3f})" if name == "silo" else ""
    return " / ".join(f"{mean(model, name):.3f}" for model in MODELS) + luck


def _shown(test: str, name: str) -> Callable[[Runs], str]:
    return lambda runs: _cell([runs], test, name)


def _means(runs: Mapping[str, Runs]) -> str:
    lines = [
        [f"{test} test, {learner}", *(_cell(every, test, name) for name in MEASURES)]
        for test in TESTS
        for learner in LEARNERS
        if (every := [found for row, found in runs.items() if row.endswith(f", {learner}")])
    ]
    return f"\n{report.table(['mean over all rows', *MEASURES.values()], lines)}"


TABLES: Final = {
    "calibration": Table(
        "Chances that are true",
        _ABOUT,
        [Row(f"{name}, {learner}", {"data": name, "learner": learner}) for name in NATURAL for learner in LEARNERS],
        {"": _chances},
        [
            Grid(f"{test} test", [Column(title, "", _shown(test, name)) for name, title in MEASURES.items()])
            for test in TESTS
        ],
        5,
        fast_rows=[f"{name}, {learner}" for name in ("fractures", "covid-tests") for learner in LEARNERS],
        smoke_rows=["transplants, logistic-regression"],
        loaders=NATURAL,
        after=_means,
    )
}
