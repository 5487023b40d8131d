"""A silo's trained model, for a user's own records; and its scores by groups of records."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

from fedct_flwr import learners, models, survival
from fedct_flwr.datasets.new_records import encode_new, inspect_new, read_unlabeled, sentences, unknown_in
from fedct_flwr.datasets.schema import quantiles
from fedct_flwr.datasets.tables import class_names, map_labels, numbers, with_signed_times
from fedct_flwr.runs.scores import TESTS, Test
from fedct_flwr.scoring import r_squared_of
from fedct_flwr.scoring.assessment import Labels, predict
from fedct_flwr.scoring.intervals import UNKNOWN
from fedct_flwr.scoring.subgroups import subgroups
from fedct_flwr.simulation.silos import as_array, check_aligned, labels_of, named, table_of
from fedct_flwr.text.printable import listed, suggest
from fedct_flwr.types import LABEL_DTYPE, ConfigError, DataError, DataWarning, Features, SiloName

if TYPE_CHECKING:
    from fedct_flwr.datasets.federated import FederatedDataset
    from fedct_flwr.datasets.schema import Schema
    from fedct_flwr.learners import Learner
    from fedct_flwr.scoring.assessment import Recalibration


_TRAINED: Final = "a run's model is trained already: wrap it in sklearn.frozen.FrozenEstimator, or simulate() another"
_OUTCOMES: Final = "the list of outcomes"
_RECORDS: Final = "the table of records"


class SiloModel:
    """A trained learner that reads tables and answers in the study's own names, for scikit-learn's tools an estimator.

    ``learner`` is the learner itself, for features as numbers and classes by their positions in ``schema.classes``.
    ``recalibration`` makes chances of its probabilities; None where they are ranks.
    """

    def __init__(
        self,
        learner: "Learner",
        schema: "Schema",
        label: str = "",
        recalibration: "Recalibration | None" = None,
        learned: Sequence[Features] = (),
    ) -> None:
        self.learner, self.schema, self._label, self.recalibration = learner, schema, label, recalibration
        self._learned_from = learned

    def predict(self, records: Any) -> NDArray[Any]:
        """The class of each record, or its value, ``(n,)``.

        ``records`` are a DataFrame with the columns that the silos have, among others; an array ``(n, features)`` with
        the same cells in the order of ``schema.columns``, the public set's; or a folder of images, which come by name.
        A DataWarning says what is unlike the records that the model has learned from, such as another unit.
        Raises DataError for columns that do not fit, TrainingError for a model that cannot predict.
        """
        X = self._features(records)
        # Most learners refuse to say anything of nothing.
        return self.schema.outcome.as_written(self.learner.predict(X) if len(X) else np.zeros(0, dtype=LABEL_DTYPE))

    def predict_proba(self, records: Any) -> NDArray[np.float64]:
        """The probability of each of ``classes_``, ``(n, classes)``. Raises DataError if the model knows none."""
        X = self._features(records)
        if not len(X):
            return np.zeros((0, len(self.schema.classes)))
        found = models.Recalibrated(self.learner, self.recalibration).probabilities(X, len(self.schema.classes))
        if found is None:
            raise DataError(f"the model, a {type(self.learner).__name__}, knows no probabilities: use predict")
        probabilities: NDArray[np.float64] = found[:, self._order]
        return probabilities

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        """scikit-learn's tools take classes as sorted: as text, "10" comes before "9"."""
        return np.argsort(self.schema.outcome.as_written(np.arange(len(self.schema.classes), dtype=LABEL_DTYPE)))

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes in the order of ``predict_proba``, as ``predict`` writes them."""
        return self.schema.outcome.as_written(self._order.astype(LABEL_DTYPE))

    def score(self, records: Any, outcomes: Any) -> float:
        """The accuracy on records of these classes ``(n,)``, R² on values, or concordance on a pair (times, events)."""
        if self.schema.follow_up:
            if not isinstance(outcomes, tuple | list) or len(outcomes) != 2:
                raise DataError("the outcomes are times of follow-up: give a pair (times, events)")
            for each in outcomes:
                check_aligned(records, each, _RECORDS)
            risk = self.predict(records)
            pair = np.stack([labels_of(each, len(risk), _RECORDS).astype(object) for each in outcomes], axis=1)
            table = with_signed_times(named(pair, ["times", "events"], _OUTCOMES), "times", "events", _OUTCOMES)
            return survival.concordance(survival.times_of(numbers(table, "times", _OUTCOMES)), risk).value
        check_aligned(records, outcomes, _RECORDS)
        predicted = self.predict(records)
        table = named(labels_of(outcomes, len(predicted), _RECORDS)[:, np.newaxis], ["outcome"], _OUTCOMES)
        if self.schema.outcome.number:
            return r_squared_of(numbers(table, "outcome", _OUTCOMES), predicted)
        names = class_names(table.column("outcome"), "outcome", _OUTCOMES)
        truth = map_labels(names, None, self.schema.classes, _OUTCOMES)
        return float(np.mean(self.schema.outcome.as_written(truth) == predicted)) if len(truth) else math.nan

    def chances(self, records: Any, horizons: Sequence[float]) -> NDArray[np.float64]:
        """The chance of the event up to each horizon ``(n, horizons)``; DataError for models of other outcomes.

        NaN, with a warning, after the last time of the silo's own records. Raises ConfigError for negative horizons.
        """
        if not isinstance(self.learner, learners.SurvivalLearner):
            raise DataError("the model is not of time to an event: use predict_proba")
        asked = np.atleast_1d(np.asarray(horizons, dtype=np.float64))
        if not (asked >= 0).all():
            raise ConfigError("horizons are times of 0 or more, in the unit of the study's times: correct them")
        found = self.learner.risks(self._features(records), tuple(asked))
        if beyond := asked[asked > self.learner.followed].tolist():
            what = f"the silo's own records end at {self.learner.followed:g}, so there is no chance up to {beyond[0]:g}"
            warnings.warn(f"{what}: ask for earlier horizons, or another silo's model", DataWarning, stacklevel=2)
        return found

    def fit(self, records: Any, outcomes: Any) -> Self:
        """Raise ConfigError: scikit-learn's tools look for a method of this name, and a run's model is trained."""
        raise ConfigError(_TRAINED)

    def __sklearn_clone__(self) -> NoReturn:
        raise ConfigError(_TRAINED)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        kind: Literal["classifier", "regressor"] = "regressor" if self.schema.outcome.number else "classifier"
        return Tags(kind, TargetTags(required=True), classifier_tags=ClassifierTags(), regressor_tags=RegressorTags())

    def __repr__(self) -> str:
        trained = getattr(self.learner, "parts", (None, self.learner))[1]
        return f"SiloModel({trained!r})"

    def _features(self, records: Any) -> Features:
        columns, form = self.schema.columns, self.schema.images
        if form and isinstance(records, str | Path):
            images = read_unlabeled(self.schema, Path(records))
            for found in images.findings:
                _tell(found.sentence)
            return images.X
        if isinstance(records, np.ndarray) and (not columns or records.shape[1:] == (len(columns),)):
            names = [column.name for column in columns]
            if names != [f"x{number}" for number in range(1, len(names) + 1)]:
                _tell(f"the array's columns have no names, and are read as {listed(names)}: give a DataFrame")
            if records.dtype.kind in "biuf" and not any(column.categories or column.text for column in columns):
                X = as_array(records)
                return np.ma.filled(X.astype(np.float64), np.nan) if isinstance(X, np.ma.MaskedArray) else X
            # The positions of categories are no values that a caller knows.
            records = named(records, names, _RECORDS)
        table = table_of(records, _RECORDS)
        outcome = {self._label, self.schema.follow_up.event if self.schema.follow_up else ""}
        if answers := outcome.intersection(table.column_names):
            table = table.drop_columns([*answers])
        findings, X = inspect_new(table, columns, learned=self._quantiles), encode_new(table, columns, _RECORDS)
        for sentence in sentences(findings, unknown_in(X, columns), X):
            _tell(sentence)
        return X

    @cached_property
    def _quantiles(self) -> dict[str, tuple[float, ...]]:
        return quantiles(self.schema, *self._learned_from)


def _tell(sentence: str) -> None:
    warnings.warn(sentence, DataWarning, stacklevel=4)


def by_group(
    dataset: "FederatedDataset", trained: Mapping[SiloName, SiloModel], column: str, test: Test, positive: str
) -> list[dict[str, Any]]:
    """The lines of ``Run.by_group``, where ``positive`` is the run's positive class. Raises as it does."""
    if test not in TESTS:
        raise ConfigError(f"test = {test!r} is no test set: {suggest(test, TESTS)}")
    schema, lines = dataset.schema, []
    if schema.follow_up:
        raise DataError("scores by group are of classes and numbers, and this run is of time to an event: use scores")
    labels = Labels(len(schema.classes), schema.positive(positive))
    for silo in dataset.silos:
        records = dataset.test if test == "pooled" else silo.test
        of = schema.values(column, records.X)
        if (model := trained.get(silo.name)) is None or not records.size:
            continue
        predicted = predict(models.Recalibrated(model.learner, model.recalibration), records.X, labels)
        for group in subgroups(records, predicted, of, labels).groups:
            counts = {"silo": silo.name, "group": group.group, "n": group.n, "events": group.events}
            for name, found in group.metrics.items():
                gaps = {f"gap_{key}": value for key, value in asdict(group.gaps.get(name, UNKNOWN)).items()}
                lines.append({**counts, "metric": name, **asdict(found), **gaps})
    return lines
