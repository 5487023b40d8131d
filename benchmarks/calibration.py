"""Chances that are true: silos' co-trained models as they rank, recalibrated, and the same learners alone.

Silos are in one process here, as in ``no_harm``.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from benchmarks import progress, report
from benchmarks.harness import Asked
from benchmarks.natural_silos import NATURAL
from benchmarks.no_harm import Silos
from benchmarks.report import Runs
from fedct_flwr.datasets import LOADERS
from fedct_flwr.datasets.federated import SiloData
from fedct_flwr.learners.base import Learner
from fedct_flwr.learners.out_of_fold import probabilities
from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.scoring.assessment import auc, brier, calibration_curve
from fedct_flwr.scoring.recalibration import Recalibration
from fedct_flwr.types import Examples

LEARNERS: Final = ("auto", "logistic-regression")
PLAIN, ALONE, RANKS, CHANCES = MODELS = ("alone, unweighted", "alone", "co-trained", "recalibrated")
TESTS: Final = ("own", "pooled")
MEASURES: Final = {
    "off": "off", "silo": "off, by silo", "ece": "ECE", "all": "Brier", "brier": "Brier, by silo", "auc": "AUC",
}  # fmt: skip
_SEEDS: Final = 5
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


def run(asked: Asked) -> None:
    """Whether stated chances are true: alone, co-trained, recalibrated, on eight tables with natural silos; 5 seeds."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    seeds, learners = asked.seeds(_SEEDS), asked.of(LEARNERS, LEARNERS, LEARNERS[1:])
    LOADERS.update(NATURAL)
    names = asked.chosen(tuple(NATURAL), ("fractures", "covid-tests"), ("transplants",))
    runs: dict[str, Runs] = {}
    for name in names:
        for learner in learners:
            found = runs.setdefault(f"{name}, {learner}", Runs())
            for seed in range(seeds):
                found.add(**progress.once(f"{name}, {learner}, {seed}", partial(_found, name, learner, seed)))
    text = f"# Chances that are true, {seeds} seeds\n\n{_ABOUT}\n" + "\n".join(
        _table(runs, learners, test) for test in TESTS
    )
    report.write("calibration", text, runs, {"rows": names, "learners": learners, "rounds": _ROUNDS, "seeds": seeds})


def _found(name: str, learner: str, seed: int) -> dict[str, float]:
    return Chances(name, learner, "{}", seed).found()


_ABOUT: Final = (
    f"Each cell: {'; '.join(MODELS)}. Unweighted: the same learner, which weighs no classes, as "
    "`auto` may. Recalibrated: by each silo's own out-of-fold predictions. Off: mean stated chance less the "
    "share observed, without its sign, over the test records of all silos, each by its silo's model. By silo: the mean "
    "over silos, in brackets what true chances would have by luck on as few records. Brier's score likewise. ECE "
    "(expected calibration error, ten bins) and AUC are means over silos.\n"
)


def _table(runs: Mapping[str, Runs], learners: Sequence[str], test: str) -> str:
    lines = [[row, *(_cell([found], test, name) for name in MEASURES)] for row, found in runs.items()]
    for learner in learners:
        every = [found for row, found in runs.items() if row.endswith(f", {learner}")]
        lines.append([f"**mean, {learner}**", *(_cell(every, test, name) for name in MEASURES)])
    return report.table([f"{test} test", *MEASURES.values()], lines)


def _cell(of: Sequence[Runs], test: str, name: str) -> str:
    def mean(model: str, measure: str) -> float:
        return fmean(found.mean(f"{test}, {model}, {measure}") for found in of)

    luck = f" ({mean(CHANCES, 'luck'):.3f})" if name == "silo" else ""
    return " / ".join(f"{mean(model, name):.3f}" for model in MODELS) + luck
