"""The model that a silo ends with, for records as the silos have them."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.image_folder import images_in, read_images
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.tables import encode
from fedct_flwr.learners.base import Learner, Probabilistic
from fedct_flwr.simulation.silos import table_of
from fedct_flwr.types import DataError, Features


class SiloModel:
    """A trained learner that reads tables and answers in the study's own names.

    ``learner`` is the learner itself, for features as numbers and classes by their positions in ``schema.classes``.
    """

    def __init__(self, learner: Learner, schema: Schema, label: str = "") -> None:
        self.learner, self.schema, self._label = learner, schema, label

    def predict(self, records: Any) -> NDArray[Any]:
        """The class of each record, or its value, ``(n,)``.

        ``records`` are a DataFrame with the columns that the silos have, an array ``(n, features)`` of numbers, or a
        folder of images, which come by name.
        Raises DataError for columns that do not fit, TrainingError for a model that cannot predict.
        """
        return self.schema.outcome.as_written(self.learner.predict(self._features(records)))

    def predict_proba(self, records: Any) -> NDArray[np.float64]:
        """The probability of each of ``schema.classes``, ``(n, classes)``. Raises DataError if the model knows none."""
        X = self._features(records)
        known = isinstance(self.learner, Probabilistic)
        found = self.learner.probabilities(X, len(self.schema.classes)) if known else None  # type: ignore[attr-defined]
        if found is None:
            raise DataError(f"the model, a {type(self.learner).__name__}, knows no probabilities: use predict")
        probabilities: NDArray[np.float64] = found
        return probabilities

    def __repr__(self) -> str:
        trained = getattr(self.learner, "parts", (None, self.learner))[1]
        return f"SiloModel({trained!r})"

    def _features(self, records: Any) -> Features:
        columns, form = self.schema.columns, self.schema.images
        if form and isinstance(records, str | Path):
            return read_images(images_in(Path(records)), *form)
        if isinstance(records, np.ndarray) and (not columns or records.shape[1:] == (len(columns),)):
            return records
        table = table_of(records, "the table of records")
        if self._label in table.column_names:
            table = table.drop_columns([self._label])
        return encode(table, columns, "the table of records")
