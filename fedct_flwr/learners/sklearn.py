"""Any scikit-learn classifier as a learner that refits from scratch every round."""

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

from fedct_flwr.files import write_atomically
from fedct_flwr.learners.catalog import (
    CLASSIFIERS,
    LIBRARIES,
    NOT_SOFT,
    SOME_REGRESSORS,
    USUAL,
    ModelMemory,
    has_methods,
    models_in_memory,
    package_of,
)
from fedct_flwr.learners.out_of_fold import balanced_weights
from fedct_flwr.learners.trained_model import (
    apply,
    classes_of,
    dumps,
    in_order,
    load_model,
    places_of,
    probabilities_of,
    values_of,
    with_plain_numbers,
)
from fedct_flwr.text.printable import cut, quoted
from fedct_flwr.types import (
    MAX_CLASSES,
    Answers,
    DataWarning,
    Features,
    HardLabels,
    LearnerError,
    TrainingError,
    Values,
)


class Relabeled(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Trains ``estimator`` on ``labels``, one for each class by its number, and predicts these numbers.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, labels = np.array([[0.0], [1.0]]), np.array(["low", "mid", "top"])
    >>> trained = Relabeled(DecisionTreeClassifier(), labels).fit(X, np.array([0, 2]))
    >>> trained.estimator_.predict(X), trained.predict(X)
    (array(['low', 'top'], dtype='<U3'), array([0, 2], dtype=int16))
    """

    def __init__(self, estimator: Any, labels: NDArray[Any]) -> None:
        self.estimator = estimator
        self.labels = labels

    def fit(self, X: Features, y: HardLabels, **fit_params: Any) -> Self:
        # A class of one's own may return None.
        self.estimator_ = copied(self.estimator)
        self.estimator_.fit(X, self.labels[y], **fit_params)
        return self

    def predict(self, X: Features) -> HardLabels:
        return self._numbers(self.estimator_.predict(X), X.shape[0])

    @available_if(lambda self: hasattr(self.estimator_, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Features) -> NDArray[Any]:
        """The probability of each of ``classes_``, ``(n, k)``."""
        probabilities: NDArray[Any] = in_order(self.estimator_.predict_proba(X), self.estimator_.classes_)
        return probabilities

    @property
    def classes_(self) -> HardLabels:
        """The numbers of the classes that the estimator knows, in its order."""
        known = self.estimator_.classes_
        return self._numbers(known, np.size(known))

    def _numbers(self, answer: Any, size: int) -> HardLabels:
        return places_of(answer, self.labels, size, model=type(self.estimator).__name__)


_LONGEST_REASON: Final = 300
_DENSE: Final = ("xgboost", "imodels")
"""Packages whose classifiers take the classes at hand as 0, 1, ... without gaps alone."""
_OF_MANY: Final = ("multiclass", "softmax", "multiclassova", "multiclass_ova", "ova", "ovr")
"""LightGBM's objectives for more than two classes."""
_METRICS_OF_MANY: Final = ("multi", "auc_mu")
"""In the names of its metrics for these."""
_SEARCHED: Final = ("param_grid", "param_distributions")
"""Parameters of scikit-learn's searches: the values that they try."""
_PASSING_ON: Final = {
    "BaseSearchCV", "VotingClassifier", "VotingRegressor", "StackingClassifier", "StackingRegressor",
    "TransformedTargetRegressor",
}  # fmt: skip
"""Estimators without ``sample_weight`` in the signature of ``fit``, which they pass on to those in them."""
_OF_A_TABLE: Final = (IndexError, AttributeError, TypeError)
"""Errors of an array that is asked for columns by name."""
_FORESTS: Final = ("RandomForestClassifier", "ExtraTreesClassifier")
_TREES: Final = 25
"""Of forests that show how good labels of others are."""
_LINEAR: Final = "LogisticRegression"
_TOLERANCE: Final = 1e-3
"""Of a linear model's gradient: finer steps move its probabilities by less than records can tell."""
_BOOSTED: Final = ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor")
_RATE: Final = 0.2
_BINS: Final = 63
"""Of boosted trees: fewer steps, each longer, and fewer limits between values learn as much in less than half the time.
"""


def prepare(estimator: Any, name: str, random_state: int, *, number: bool = False) -> Any:
    """With every ``random_state`` set that was left open, also inside pipelines and among a search's candidates.

    Raises LearnerError, which says ``name``, for what is no classifier, or no regressor where a ``number`` is
    predicted, and for parameters that scikit-learn would refuse once it trains.
    """
    if not is_kind(estimator, is_regressor if number else is_classifier):
        why = "classifier: it must make a scikit-learn classifier or a torch module"
        why = f"regressor, and here a number is predicted: {SOME_REGRESSORS}" if number else why
        kind, mixin = ("regressor", "RegressorMixin") if number else ("classifier", "ClassifierMixin")
        last = last_step(estimator)
        if has_methods(last, "fit", "predict") and is_kind(last, lambda each: get_tags(each).estimator_type is None):
            why = f"{kind}: put {mixin} before BaseEstimator among the bases of {type(last).__name__}"
        raise LearnerError(f"learner {name!r} is no {why}")
    searched = [value for key, value in estimator.get_params(deep=True).items() if key.split("__")[-1] in _SEARCHED]
    for model in (estimator, *(value for value in leaves(searched) if is_estimator(value))):
        own = model.get_params(deep=True)
        # A frozen one returns nothing.
        model.set_params(**{
            key: random_state for key, value in own.items() if key.split("__")[-1] == "random_state" and value is None
        })  # fmt: skip
    _check_params(estimator, name)
    return estimator


def leaves(given: Any) -> Iterator[Any]:
    """The values in containers, however deep."""
    if isinstance(given, Mapping | list | tuple):
        for value in given.values() if isinstance(given, Mapping) else given:
            yield from leaves(value)
    else:
        yield given


def is_estimator(value: Any) -> bool:
    """Whether a value is an estimator, and not a class of such."""
    return hasattr(value, "get_params") and not isinstance(value, type)


def _check_params(estimator: Any, name: str) -> None:
    for part in (estimator, *estimator.get_params(deep=True).values()):
        # Other packages' estimators have no constraints, and check their own parameters.
        if isinstance(part, BaseEstimator) and hasattr(part, "_parameter_constraints"):
            try:
                part._validate_params()
            except ValueError as error:
                raise LearnerError(f"learner {name!r} cannot be trained: {error}") from None


def is_kind(estimator: Any, kind: Callable[[Any], bool]) -> bool:
    """Whether it is an estimator of this kind, such as ``is_classifier``; anything may be asked about."""
    try:
        return hasattr(estimator, "get_params") and kind(estimator)
    except (AttributeError, TypeError):  # what scikit-learn raises on other objects, if it does
        return False


class SklearnLearner:
    """A scikit-learn classifier behind a transformer that is already fitted (or none).

    Satisfies ``Learner`` and ``Saveable``. ``balanced``: all classes that it is trained on count the same. ``packages``
    are those whose types its files may hold, in addition to the catalog's libraries and those that the estimator is
    made of.
    ``num_classes`` are the study's: any other answer than 0..num_classes-1 is refused. ``ways`` are labels for these
    classes to train on, each ``(num_classes,)`` or None for their numbers: the first that the estimator takes is used.
    ``output`` is scikit-learn's ``transform_output`` for the estimator: ``set_config`` holds for one thread.
    Raises LearnerError if it is ``weighted`` or ``balanced`` but takes no sample weights.
    """

    suffix = ".skops"
    _most_trees = 0

    def __init__(
        self,
        estimator: Any,
        transformer: Any = None,
        *,
        weighted: bool = False,
        balanced: bool = False,
        packages: Collection[str] = (),
        num_classes: int = MAX_CLASSES,
        ways: Sequence[NDArray[Any] | None] = (None,),
        output: str = USUAL,
    ) -> None:
        if weighted or balanced:
            weight_parameter(estimator)
        self._balanced = balanced
        self._template, self._ways = estimator, ways
        self._transformer = transformer
        # Own code may train another library's model, which no parameter names.
        self._packages = {*LIBRARIES, *packages, *packages_in(estimator)}
        self._num_classes = num_classes
        self._configured = partial(config_context, transform_output=output)
        self._single = _has_network(estimator)
        self._trained: Any = None

    def fit(self, X: Features, y: Answers, sample_weight: NDArray[np.float64] | None = None) -> Self:
        y = np.asarray(y, dtype=np.int64)
        classes = np.unique(y)
        # One class alone is learned as a constant: most classifiers refuse to.
        alone = len(classes) == 1
        if self._balanced:
            sample_weight = balanced_weights(y, sample_weight)
        weights = {} if sample_weight is None or alone else {weight_parameter(self._template): sample_weight}
        if alone:
            return self._train([DummyClassifier(strategy="most_frequent")], X, y, weights)
        return self._train(self._fresh(classes), X, y, weights)

    def _fresh(self, classes: NDArray[np.int64]) -> Iterator[Any]:
        """Untrained estimators for records of these classes ``(k,)``; the first that can learn them is taken."""
        template, dense = counting(self._template, len(classes)), np.full(classes[-1] + 1, -1)
        dense[classes] = np.arange(len(classes))
        # Whether the estimator, or a part of it, knows classes as 0, 1, ... without gaps alone.
        wants_dense = any(package_of(type(part)) in _DENSE for part in (template, *template.get_params().values()))
        ways: list[NDArray[Any] | None] = (
            [dense if len(dense) > len(classes) else None] if wants_dense else [*self._ways]
        )
        if self._single and classes.tolist() == [0, 1]:
            # The loss of skorch's network for two classes compares them with its output.
            ways.append(np.array([0, 1], dtype=np.float32))
        weighed = _weighed_anew(template, dense, self._ways[0], self._num_classes)
        absent = len(classes) < self._num_classes
        anew = [] if weighed is None else [Relabeled(weighed, dense)]
        # Estimators that number the classes at hand themselves would take the weights of others.
        yield from anew if absent else []
        for labels in ways:
            yield copied(template) if labels is None else Relabeled(template, labels)
        yield from [] if absent else anew

    def _train(self, models: Iterable[Any], X: Features, y: Answers, weights: Mapping[str, Any]) -> Self:
        """Train the first of these models that can be. Raises TrainingError."""
        given: Any = None
        errors: list[Exception] = []
        for model in models:
            try:
                given = self._transform(X) if given is None else given
                with self._configured():
                    model.fit(given, y, **weights)
                _check_search(model)
            except Exception as error:
                errors.append(error)
                continue
            self._trained = model
            names = self._ways[0]
            if errors and names is not None and not self._single:
                _warn_of_numbers(called(self._template), tuple(names.tolist()))
            return self
        reasons = "; with other labels ".join(dict.fromkeys(map(reason_of, errors)))
        hint = self._hint(given, errors[0])
        raise TrainingError(f"{called(self._template)} could not be trained: {reasons}{hint}") from errors[0]

    def _hint(self, given: Any, error: Exception) -> str:
        own = package_of(type(self._template)) not in LIBRARIES and isinstance(given, np.ndarray)
        return " (with preprocessing = 'none' it gets the table)" if own and isinstance(error, _OF_A_TABLE) else ""

    def predict(self, X: Features) -> Answers:
        return classes_of(self._asked("predict", X), X.shape[0], self._num_classes, model=self.name)

    def probabilities(self, X: Features, num_classes: int) -> NDArray[np.float64] | None:
        if not hasattr(self._trained, "predict_proba"):
            return None
        shares, known = self._asked("predict_proba", X), getattr(self._trained, "classes_", None)
        return probabilities_of(shares, known, X.shape[0], num_classes, model=self.name)

    def check_soft(self) -> None:
        """Raise LearnerError unless it can learn soft labels: with ``predict_proba``, and sample weights in ``fit``."""
        classifier = last_step(self._template)
        kind = called(classifier)
        if not hasattr(classifier, "predict_proba"):
            raise LearnerError(f"{kind} knows no probabilities, which this algorithm shares: {_soft_ones()}")
        if why := _unweighted(classifier):
            raise LearnerError(f"{why}, so it cannot learn probabilities: {_soft_ones()}")

    def save(self, path: Path) -> None:
        """Write what ``to_bytes`` gives; a memory that is there keeps what the file may not give back.

        A file has a user's own functions and classes by name, which leads to another one once a notebook has changed
        them. Raises TrainingError if it cannot be written, and no memory is there.
        """
        memory = models_in_memory(path)
        if memory is None:
            write_atomically(path, self.to_bytes())
            return
        memory.pop(path.resolve(), None)
        try:
            write_atomically(path, self.to_bytes())
            readable = self._packages <= {*LIBRARIES, package_of(Relabeled)}
        except TrainingError:
            readable = False
        if not readable:
            memory[path.resolve()] = self._pipeline

    def to_bytes(self) -> bytes:
        """Transformer and classifier as one pipeline in skops format. Raises TrainingError if it cannot be."""
        try:
            if self._single:
                raise ValueError("it holds a network of torch's, which a torch module as the learner would not")
            return dumps(self._pipeline)
        except Exception as error:
            raise TrainingError(f"{self.name} cannot be saved: {error}") from error

    def load(self, path: Path) -> Self:
        """Take over a saved pipeline: its transformer and its classifier. Raises DataError."""
        memory = models_in_memory(path) or ModelMemory()
        return self.take_over(memory.get(path.resolve()) or load_model(path, self._packages))

    def has(self, path: Path) -> bool:
        """Whether ``save`` kept a model under this path."""
        return path.exists() or path.resolve() in (models_in_memory(path) or ())

    @property
    def _pipeline(self) -> Pipeline:
        steps = [("transform", self._transformer)] if self._transformer is not None else []
        return Pipeline([*steps, ("classify", with_plain_numbers(self._trained))])

    def take_over(self, pipeline: Pipeline) -> Self:
        """Predict with the transformer and the classifier of a pipeline such as ``to_bytes`` writes."""
        *transform, (_, self._trained) = pipeline.steps
        self._transformer = transform[0][1] if transform else None
        return self

    def table(self, X: Features) -> Any:
        table = self._transform(X)
        return X if hasattr(table, "iloc") else table

    def lighter(self, trees: int = _TREES) -> Self:
        """The same, untrained, with less effort: enough to compare what it learns.

        A forest has at most ``trees`` trees, a linear model ends sooner, and boosted trees take longer steps.
        """
        light = copy(self)
        light._most_trees, light._trained = trees, None
        light._template = light._lightened(self._template)
        return light

    def _lightened(self, template: Any) -> Any:
        # By its name: to import forests takes a while, and a command may need none.
        lighter = _lighter_params(type(template).__name__, template, self._most_trees) if self._most_trees else {}
        return copied(template).set_params(**lighter) if lighter else template

    @property
    def parts(self) -> tuple[Any, Any]:
        """The transformer (None for none) and the trained classifier."""
        return self._transformer, self._trained

    @property
    def name(self) -> str:
        """The trained model's name in errors."""
        return called(self._trained.estimator if isinstance(self._trained, Relabeled) else self._trained)

    def _asked(self, method: str, X: Features) -> Any:
        """The trained model's raw output for examples. Raises TrainingError where it raises."""
        given = None
        try:
            given = self._transform(X)
            with self._configured():
                return getattr(self._trained, method)(given)
        except TrainingError:
            raise
        except Exception as error:
            hint = self._hint(given, error)
            raise TrainingError(f"{self.name} could not predict: {reason_of(error)}{hint}") from error

    def _transform(self, X: Features) -> Features:
        found = X if self._transformer is None else apply(self._transformer, X)
        return found.astype(np.float32) if self._single and getattr(found, "dtype", None) == np.float64 else found


@cache
def _warn_of_numbers(name: str, classes: Sequence[Any]) -> None:
    """Warn, once in a process, that an estimator learns numbers instead of these classes."""
    numbers = ", ".join(f"{quoted(str(each))} is {number}" for number, each in enumerate(classes))
    what = f"{name} cannot learn these labels, so it learns numbers ({numbers})"
    fix = "if their order or a positive class matters, give numbers as labels, or names that sort so"
    warnings.warn(f"{what}: {fix}", DataWarning, stacklevel=2)


def _check_search(model: Any) -> None:
    """Raise ValueError for a trained search none of whose parameters has a score: it took the first ones."""
    score = getattr(last_step(getattr(model, "estimator_", model)), "best_score_", None)
    if isinstance(score, float) and np.isnan(score):
        raise ValueError("no parameters of the search have a score: scoring does not fit these classes")


def copied(estimator: Any) -> Any:
    """An untrained copy. CatBoost's estimators do not stand scikit-learn's ``clone`` where a parameter is a list."""
    try:
        return clone(estimator)
    except RuntimeError:
        return deepcopy(estimator)


def counting(estimator: Any, classes: int) -> Any:
    """The estimator for this many classes: with two, XGBoost and LightGBM count none, whatever the study has."""
    params = estimator.get_params() if classes == 2 else {}
    changed: dict[str, Any] = {key: None for key in params if key.split("__")[-1] == "num_class"}
    for key, value in params.items():
        if key.split("__")[-1] == "objective" and (str(value).startswith("multi:") or value in _OF_MANY):
            changed[key] = "binary:logistic" if value not in _OF_MANY else "binary"
        if key.split("__")[-1] == "metric" and any(kind in str(value) for kind in _METRICS_OF_MANY):
            changed[key] = None
    return copied(estimator).set_params(**changed) if changed else estimator


def _weighed_anew(estimator: Any, dense: NDArray[np.int64], labels: NDArray[Any] | None, classes: int) -> Any:
    """The estimator with its weights by class for classes as ``dense`` numbers them; None without any.

    ``dense`` ``(k,)`` is -1 for a class that is not at hand. Weights name the ``labels``, or number all ``classes``.
    """
    names, changed = [] if labels is None else labels.tolist(), dict[str, Any]()
    for key, value in estimator.get_params(deep=True).items():
        if key.split("__")[-1] == "class_weight" and isinstance(value, Mapping) and value:
            known = [each for each in (names, range(classes)) if {*value} <= {*each}]
            numbers = dict(zip(known[0], dense.tolist(), strict=False)) if known else {}
            weights = {numbers[name]: weight for name, weight in value.items() if numbers.get(name, -1) >= 0}
            changed |= {key: weights or None} if known else {}
    return copied(estimator).set_params(**changed) if changed else None


def _has_network(estimator: Any) -> bool:
    """Whether an estimator trains a network of torch's, as skorch's do: these take single precision."""
    values = [estimator, *(estimator.get_params(deep=True).values() if hasattr(estimator, "get_params") else ())]
    kinds = [kind for value in values for kind in (value if isinstance(value, type) else type(value)).__mro__]
    return any(package_of(kind) in ("torch", "skorch") for kind in kinds)


def _lighter_params(name: str, template: Any, trees: int) -> dict[str, Any]:
    """Parameters with which an estimator of this type trains faster; none where it is fast."""
    params = template.get_params(deep=False)
    if name in _FORESTS and params["n_estimators"] > trees:
        return {"n_estimators": trees}
    if name == _LINEAR and params["tol"] < _TOLERANCE:
        return {"tol": _TOLERANCE}
    if name in _BOOSTED and params["learning_rate"] < _RATE:
        # As far in all as before: on half the way an own model is weaker, and the safeguard trusts others too much.
        steps = max(1, round(params["max_iter"] * params["learning_rate"] / _RATE))
        return {"max_iter": steps, "learning_rate": _RATE, "max_bins": min(params["max_bins"], _BINS)}
    return {}


def reason_of(error: Exception) -> str:
    """Type and text, without the paragraphs of advice that scikit-learn may add; it may quote a file at any length."""
    return cut(f"{type(error).__name__}: {error}".partition("\n")[0].removesuffix(": "), _LONGEST_REASON)


def called(estimator: Any) -> str:
    """Its type's name in errors, or that of the object that ``plain`` has wrapped."""
    return type(getattr(estimator, "wrapped", estimator)).__name__


def _soft_ones() -> str:
    return f"use a network, or one of {', '.join(sorted(CLASSIFIERS.keys() - NOT_SOFT))}"


def last_step(estimator: Any) -> Any:
    """The estimator at the end of a pipeline, or itself."""
    return last_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def weight_parameter(estimator: Any) -> str:
    """Name of ``fit``'s sample weights. Raises LearnerError for an estimator that takes none."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__{weight_parameter(last)}"
    if why := _unweighted(estimator):
        raise LearnerError(f"{why}: set pseudo-weight = 1.0 and class-weight = 'none'")
    return "sample_weight"


def _unweighted(estimator: Any) -> str:
    """Why its ``fit`` takes no ``sample_weight``, naming the estimator in it that takes none; empty where it does."""
    if has_fit_parameter(estimator, "sample_weight"):
        return ""
    if _PASSING_ON.isdisjoint(kind.__name__ for kind in type(estimator).__mro__):
        return f"{called(estimator)} takes no sample weights"
    params = estimator.get_params(deep=True).items()
    parts = [value for name, value in params if hasattr(value, "fit") and "__" not in name and name != "transformer"]
    if any(isinstance(part, Pipeline) for part in parts):
        # Searches would pass on STEP__sample_weight, but not weigh their scores by it.
        return "a pipeline in {0} gets no sample weights (make {0} its last step)".format(called(estimator))
    return next(filter(None, map(_unweighted, parts)), "")


def packages_in(estimator: Any) -> set[str]:
    """The top packages that an estimator and its parts come from.

    A function of one package may make a pipeline with another's classifier, and its file then holds that one's types.
    """
    if not hasattr(estimator, "get_params"):
        return set()
    parts = [part for part in estimator.get_params(deep=True).values() if hasattr(part, "get_params")]
    parts.append(getattr(estimator, "wrapped", estimator))
    return {package_of(type(part)) for part in (estimator, *parts) if not isinstance(part, type)}


def functions_in(value: Any) -> list[FunctionType]:
    """All Python functions among an estimator's parameters."""
    parts = value.get_params(deep=True) if is_estimator(value) else value
    return [part for part in leaves(parts) if isinstance(part, FunctionType)]


class SklearnRegressor(SklearnLearner):
    """A scikit-learn regressor behind a transformer that is already fitted (or none).

    ``packages`` are those whose types its files may hold, in addition to scikit-learn's.
    """

    def fit(self, X: Features, y: Answers, sample_weight: NDArray[np.float64] | None = None) -> Self:
        weights = {} if sample_weight is None else {weight_parameter(self._template): sample_weight}
        return self._train([copied(self._template)], X, y, weights)

    def predict(self, X: Features) -> Values:
        return values_of(self._asked("predict", X), X.shape[0], model=self.name)

    def probabilities(self, X: Features, num_classes: int) -> None:
        """None: a value is no class."""

    def check_soft(self) -> None:
        """Raise LearnerError unless it takes sample weights."""
        if why := _unweighted(last_step(self._template)):
            raise LearnerError(f"{why}, so it cannot learn others' values: {SOME_REGRESSORS}")
