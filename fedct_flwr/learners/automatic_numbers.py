"""``learner = "auto"`` where a number is predicted: ridge regression, a forest or boosted trees, by squared error.

The simplest one that is not worse than the best by more than a standard error, as of classes (``automatic``).
"""

import contextlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.learners import preprocessing
from fedct_flwr.learners.automatic import BOOSTED, FEWEST, MOST_WORK, Candidate, OwnChoice, at_most
from fedct_flwr.learners.catalog import make_regressor
from fedct_flwr.learners.out_of_fold import OwnValues
from fedct_flwr.learners.sklearn import SklearnRegressor, prepare_regressor
from fedct_flwr.learners.views import Views
from fedct_flwr.seeding import generator
from fedct_flwr.types import Examples, Groups, TrainingError

_LINEAR: Final = "ridge"
_OF_CLASSES: Final = "logistic-regression"


class AutomaticRegressor(OwnChoice, SklearnRegressor):
    """Whichever regressor among the candidates suits the records.

    ``seed`` decides how records are divided, ``random_state`` what the learner draws. ``transformer`` is a fitted one,
    None for none, or ``Views``. Satisfies ``Choosing``.
    """

    def __init__(self, seed: int, random_state: int, transformer: Any = None) -> None:
        self._seed, self._random_state = seed, random_state
        if isinstance(transformer, Views):
            self._seen, candidates = dict(transformer.transformers), transformer.candidates
            self._candidates, self._safe = tuple(map(_of_numbers, candidates)), _of_numbers(transformer.safe)
        else:
            self._seen = {"": transformer}
            self._candidates = (_named(_LINEAR), _named("random-forest", leaf=3), _named(BOOSTED))
            # On few records a forest answers nothing that it has not seen, where a line may lead far away.
            self._safe = self._candidates[1]
        super().__init__(_regressor(self._safe, random_state), self._seen[self._safe.view])

    def _become(self, candidate: Candidate) -> None:
        self._template, self._transformer = _regressor(candidate, self._random_state), self._seen[candidate.view]

    def _chosen_for(self, records: Examples, groups: Groups | None = None) -> Candidate:
        rows = at_most(records.size, self._seed, int(np.prod(records.X.shape[1:])))
        y, own_groups = records.y[rows], None if groups is None else groups[rows]
        if len(y) < FEWEST or len(np.unique(y)) == 1 or (groups is not None and len(np.unique(groups)) == 1):
            return self._safe
        own: dict[str, OwnValues] = {}
        predicted: dict[Candidate, NDArray[np.float64]] = {}
        for candidate in self._candidates:
            if candidate.view not in own:
                step = self._seen[candidate.view]
                X = records.X[rows] if step is None else preprocessing.apply(step, records.X[rows])
                own[candidate.view] = OwnValues(Examples(X, y), generator(self._seed, "automatic"), own_groups)
            there = own[candidate.view]
            size = int(np.prod(there.records.X.shape))
            if candidate.name != BOOSTED or size <= MOST_WORK:
                learner = SklearnRegressor(_regressor(candidate, 0))
                with contextlib.suppress(TrainingError):
                    predicted[candidate] = there.said(_fitting(learner), learner.predict)
        if not predicted:
            return self._safe
        best = predicted[min(predicted, key=lambda candidate: there.loss(predicted[candidate]))]
        return next(one for one in predicted if there.compare(best, predicted[one]).errors >= -1.0)


def _fitting(learner: SklearnRegressor) -> Callable[[Examples], object]:
    return lambda records: learner.fit(*records)


def _named(name: str, leaf: int = 0, view: str = "") -> Candidate:
    return Candidate(name, leaf=leaf, balanced=False, view=view)


def _of_numbers(candidate: Candidate) -> Candidate:
    """The same for numbers."""
    return _named(_LINEAR if candidate.name == _OF_CLASSES else candidate.name, candidate.leaf, candidate.view)


def _regressor(candidate: Candidate, seed: int) -> Any:
    params: dict[str, Any] = {"min_samples_leaf": candidate.leaf} if candidate.leaf else {}
    return prepare_regressor(make_regressor(candidate.name, params), candidate.name, seed)
