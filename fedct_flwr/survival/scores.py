"""All scores of one model of time to an event on one test set."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.consensus.grades import GRADES, grades
from fedct_flwr.scoring import Predictor
from fedct_flwr.scoring.assessment import Assessment, ByGrade
from fedct_flwr.scoring.intervals import Estimate
from fedct_flwr.survival.measures import at_horizon, concordance, kaplan_meier
from fedct_flwr.survival.times import Times, times_of
from fedct_flwr.types import Examples

GRADE_NAMES: Final = tuple(str(grade) for grade in range(1, GRADES + 1))
"""Names of the grades as classes: 1 is the lowest risk."""
AT: Final = "_at_"
"""Between a measure's name and its horizon."""
_FEWEST: Final = 10
"""Test records of one grade on average."""


def assess_times(model: Predictor, test: Examples, horizons: Sequence[float]) -> tuple[NDArray[np.float64], Assessment]:
    """The model's scores ``(n,)`` for a test set with signed times, and how good they are. Raises TrainingError."""
    if not test.size:
        return np.zeros(0), Assessment({})
    risk, times = np.asarray(model.predict(test.X), dtype=np.float64), times_of(test.y)
    found: dict[str, Estimate] = {"concordance": concordance(times, risk).estimate}
    asked: Any = getattr(model, "risks", None)
    stated = None if asked is None else asked(test.X, tuple(horizons))
    for place, horizon in enumerate(horizons):
        chance = None if stated is None else stated[:, place]
        at = at_horizon(times, risk, chance, horizon)
        found |= {f"{name}{AT}{horizon:g}": estimate for name, estimate in at.items()}
    return risk, Assessment(found, grades=_by_grade(times, risk))


def _by_grade(times: Times, risk: NDArray[np.float64]) -> list[ByGrade]:
    """A curve for each grade, of fewer grades where records are few; none where there are not enough for two."""
    parts = min(GRADES, len(risk) // _FEWEST)
    if parts < 2:
        return []
    graded, found = grades(risk, parts), []
    for grade in range(parts):
        own = Times(times.time[graded == grade], times.event[graded == grade])
        curve = kaplan_meier(own)
        last = [float(own.time.max(initial=0.0))]
        steps, share = [0.0, *curve.steps.tolist()], [1.0, *curve.share.tolist()]
        found.append(ByGrade(grade + 1, len(own.time), int(own.event.sum()), steps + last, share + share[-1:]))
    return found
