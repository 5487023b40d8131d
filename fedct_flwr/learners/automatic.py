"""``learner = "auto"``: each silo picks its learner by cross-validation on its own records.

Candidates are few, from simple to complex: the first that is not worse than the best by more than a standard error is
taken (Breiman et al., "Classification and regression trees", 1984, §3.4.3). Classifiers are compared by Brier's score
with all classes counting the same, and weigh them the same unless the one taken is better by more than a standard error
without; regressors by squared error. The choice is a function of the records and the seed alone, and never leaves.
"""

import contextlib
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Self

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from fedct_flwr.learners.catalog import TFIDF, make
from fedct_flwr.learners.out_of_fold import OwnRecords, OwnValues
from fedct_flwr.learners.sklearn import SklearnLearner, SklearnRegressor, prepare
from fedct_flwr.learners.trained_model import apply
from fedct_flwr.types import Answers, Examples, Features, Groups, HardLabels, LearnerError, TrainingError, generator

FEWEST: Final = 40
"""Records below which nothing is chosen: their out-of-fold scores are noise."""
_FEWEST_OF_CLASS: Final = 5
"""Records of the rarest class, likewise: one in each fold."""
_MOST: Final = 1000
"""Records that candidates are compared on, drawn at random from more."""
_MOST_VALUES: Final = 6_000_000
_LEAST: Final = 300
"""Records times columns that are compared on, if that leaves as many records: forests on more take minutes."""
MOST_WORK: Final = 5_000_000
"""Records times columns times classes up to which boosted trees are tried: beyond, they take minutes."""
_MOST_CLASSES: Final = 10
"""Likewise, as they are trees for each class, however few its records are."""
_TREES: Final = 50
"""Of forests that are compared."""
BOOSTED: Final = "hist-gradient-boosting"
_LINEAR: Final = "ridge"


@dataclass(frozen=True)
class Candidate:
    """A learner that can be chosen: a short name, its parameters, and whether all classes count the same."""

    name: str
    leaf: int = 0
    """Fewest records in a leaf of its trees; 0: the learner's own default."""
    balanced: bool = True
    strength: float = 0.0
    """Inverse strength of a linear model's regularization, its C; 0: the learner's own default."""
    view: str = ""
    """Which view of the records it learns from, where there are several."""

    @property
    def words(self) -> str:
        """Name in a report."""
        seen = f" on {self.view}" if self.view else ""
        return self.name.replace("-", " ") + seen + (", class-balanced" if self.balanced else "")


# Leaves of three records: shares of classes in them mean something, and class weights have an effect.
SAFE: Final = Candidate("random-forest", leaf=3)
"""For silos of one class, or of few records of some class."""
TINY: Final = Candidate("logistic-regression", strength=0.1)
"""For silos of few records, where a forest is no better and takes 30 times as long, unless they learn from others."""
CANDIDATES: Final = (Candidate("logistic-regression"), SAFE, Candidate(BOOSTED))
"""From simple to complex."""


@dataclass(frozen=True)
class Views:
    """Fitted transformers by name (None for none), and what may be chosen on them, from simple to complex.

    ``safe`` is for silos of few records. ``plain`` is the view for models that choose nothing (teachers, students);
    empty where they cannot learn such examples.
    """

    transformers: Mapping[str, Any]
    candidates: tuple[Candidate, ...] = CANDIDATES
    safe: Candidate = SAFE
    plain: str = ""

    def of(self, X: Features) -> dict[str, Any]:
        """Features ``(n, ...)`` by view, as that view's candidates take them: sparse, or dense in C order."""
        found = {name: X if step is None else apply(step, X) for name, step in self.transformers.items()}
        return {name: rows if issparse(rows) else np.ascontiguousarray(rows) for name, rows in found.items()}

    def transform(self, X: Features) -> Any:
        """Examples as models that choose nothing take them. Raises LearnerError where they hold text alone."""
        if not self.plain:
            raise LearnerError(
                "teachers and students learn from numbers and categories, and all columns hold text: choose an "
                f"algorithm such as 'fedct' without a protection, where 'auto' takes {TFIDF!r}"
            )
        return apply(self.transformers[self.plain], X)


def safe_only(y: HardLabels) -> bool:
    """Whether records of these classes are too few to choose by: all of them, or those of the rarest class."""
    counts = np.bincount(y)
    return len(y) < FEWEST or (counts > 0).sum() < 2 or bool(counts[counts > 0].min() < _FEWEST_OF_CLASS)


class OwnChoice(SklearnLearner):
    """A learner that own records decide. Before ``choose``, each ``fit`` chooses for its own examples.

    ``seed`` decides how records are divided, ``random_state`` what the learner draws. ``safe`` is for records that
    cannot tell; ``num_classes`` is 0 for values.
    """

    choice: Candidate | None = None
    """The choice, if there is one."""

    def __init__(self, views: Views, safe: Candidate, seed: int, random_state: int, num_classes: int) -> None:
        self._seen, self._safe, self._seed, self._random_state = views, safe, seed, random_state
        made = estimator(safe, random_state, number=not num_classes)
        super().__init__(made, views.transformers[safe.view], balanced=safe.balanced, num_classes=num_classes)

    def choose(self, private: Examples, groups: Groups | None = None) -> None:
        if self.choice is None:
            self.choice = self._chosen_for(private, groups)
            self._become(self.choice)

    def fit(self, X: Features, y: Answers, sample_weight: NDArray[np.float64] | None = None) -> Self:
        if self.choice is None:
            self._become(self._chosen_for(Examples(X, y)))
        return super().fit(X, y, sample_weight)

    def _become(self, candidate: Candidate) -> None:
        made = estimator(candidate, self._random_state, number=not self._num_classes)
        self._template, self._balanced = self._lightened(made), candidate.balanced
        self._transformer = self._seen.transformers[candidate.view]

    @abstractmethod
    def _chosen_for(self, records: Examples, groups: Groups | None = None) -> Candidate: ...

    def _compared(self, records: Examples, groups: Groups | None, candidates: tuple[Candidate, ...]) -> Candidate:
        """The candidate that suits the records; the safe one if none can learn them."""
        table = _Table(self._seen.of(records.X), records.y, groups)
        found = _chosen(table, candidates, self._num_classes, self._seed)
        table.forget()
        return found or self._safe

    def _some(self, records: Examples, groups: Groups | None) -> tuple[Examples, Groups | None]:
        """All records, or as many as are compared, drawn at random."""
        columns = int(np.prod(records.X.shape[1:]))
        most = min(_MOST, max(_LEAST, _MOST_VALUES // max(1, columns)))
        if records.size <= most:
            return records, groups
        rows = np.sort(generator(self._seed, "automatic", "sample").choice(records.size, most, replace=False))
        return Examples(records.X[rows], records.y[rows]), None if groups is None else groups[rows]


class Automatic(OwnChoice):
    """Whichever classifier among the candidates suits the records.

    ``transformer`` is a fitted one, None for none, or ``Views``. ``balanced``: classes are to weigh the same, which is
    then not chosen.
    """

    def __init__(
        self, num_classes: int, seed: int, random_state: int, transformer: Any = None, *, balanced: bool = False
    ) -> None:
        self._always_balanced = balanced
        views = _views(transformer)
        self._tiny = views.safe if views is transformer else TINY
        super().__init__(views, views.safe, seed, random_state, num_classes)

    def fit(self, X: Features, y: Answers, sample_weight: NDArray[np.float64] | None = None) -> Self:
        if self.choice == TINY:
            self._become(TINY if len(y) < FEWEST else SAFE)
        return super().fit(X, y, sample_weight)

    def _chosen_for(self, records: Examples, groups: Groups | None = None) -> Candidate:
        if safe_only(records.y):
            return self._tiny if records.size < FEWEST else self._safe
        found = self._compared(*self._some(records, groups), self._seen.candidates)
        return replace(found, balanced=found.balanced or self._always_balanced)


class AutomaticRegressor(OwnChoice, SklearnRegressor):
    """Whichever regressor among the candidates suits the records: the arguments are those of ``Automatic``."""

    def __init__(self, seed: int, random_state: int, transformer: Any = None) -> None:
        views = _views(transformer)
        # On few records a forest answers nothing that it has not seen, where a line may lead far away.
        super().__init__(views, _of_numbers(views.safe), seed, random_state, 0)

    def _chosen_for(self, records: Examples, groups: Groups | None = None) -> Candidate:
        some, own = self._some(records, groups)
        if some.size < FEWEST or len(np.unique(some.y)) == 1 or (own is not None and len(np.unique(own)) == 1):
            return self._safe
        return self._compared(some, own, tuple(map(_of_numbers, self._seen.candidates)))


def _views(transformer: Any) -> Views:
    return transformer if isinstance(transformer, Views) else Views({"": transformer})


def _of_numbers(candidate: Candidate) -> Candidate:
    """The same for numbers, of which no class is to be balanced."""
    name = _LINEAR if candidate.name == "logistic-regression" else candidate.name
    return Candidate(name, leaf=candidate.leaf, balanced=False, view=candidate.view)


class _Table:
    """Transformed records, which are the same as others with the same contents."""

    def __init__(self, views: Mapping[str, Any], y: HardLabels, groups: Groups | None) -> None:
        self.views, self.y, self.groups = views, y, groups
        self._digest: str = joblib.hash((dict(views), y, groups))

    def forget(self) -> None:
        """Let the records go: what was chosen for them is kept by what they are known by."""
        self.views = {}

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Table) and self._digest == other._digest


# A silo's own records are met again by the baseline that trains on them alone, pooled records by each silo's.
@lru_cache(maxsize=64)
def _chosen(table: _Table, candidates: tuple[Candidate, ...], num_classes: int, seed: int) -> Candidate | None:
    """The candidate that suits these records; None if none can learn them. Without classes (0) for values."""
    kind = OwnRecords if num_classes else OwnValues
    # The same folds in all views, as they are drawn alike.
    own = {
        view: kind(Examples(X, table.y), generator(seed, "automatic"), table.groups) for view, X in table.views.items()
    }
    predicted: dict[Candidate, NDArray[np.float64]] = {}
    for candidate in candidates:
        work = int(np.prod(table.views[candidate.view].shape)) * max(1, num_classes)
        if candidate.name != BOOSTED or (num_classes <= _MOST_CLASSES and work <= MOST_WORK):
            # A candidate that cannot learn these records is not chosen.
            with contextlib.suppress(TrainingError):
                predicted[candidate] = _predicted(own[candidate.view], candidate, num_classes)
    if not predicted:
        return None
    judge = next(iter(own.values()))
    best = predicted[min(predicted, key=lambda candidate: judge.loss(predicted[candidate]))]
    taken = next(each for each in predicted if judge.compare(best, predicted[each]).errors >= -1.0)
    if num_classes:
        plain = replace(taken, balanced=False)
        with contextlib.suppress(TrainingError):
            if judge.compare(predicted[taken], _predicted(own[taken.view], plain, num_classes)).errors > 1.0:
                return plain
    return taken


def _predicted(own: OwnRecords, candidate: Candidate, num_classes: int) -> NDArray[np.float64]:
    """The candidate's answers about own records, out of fold. Raises TrainingError."""
    made = estimator(candidate, seed=0, number=not num_classes)
    if num_classes:
        return own.predicted(SklearnLearner(made, balanced=candidate.balanced).lighter(_TREES), num_classes)
    regressor = SklearnRegressor(made)
    return own.predictions(lambda records: regressor.fit(*records), regressor.predict)


def estimator(candidate: Candidate, seed: int, *, number: bool = False) -> Any:
    """The candidate's estimator, untrained."""
    params: dict[str, Any] = {"min_samples_leaf": candidate.leaf} if candidate.leaf else {}
    params |= {"C": candidate.strength} if candidate.strength else {}
    return prepare(make(candidate.name, params, number=number), candidate.name, seed, number=number)
