"""From which probability on a record counts as positive, where there are two classes."""

import math
from dataclasses import dataclass
from typing import Annotated, Self, TypeAlias

import numpy as np
import typer
from numpy.typing import NDArray

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.text.printable import quoted
from fedct_flwr.text.suggest import suggest
from fedct_flwr.types import LABEL_DTYPE, ConfigError, HardLabels

ThresholdOption: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        help="Of two classes, predict the positive one from this probability on, in 0..1.",
        show_default="the model's own classes",
    ),
]
PositiveOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--positive",
        help="The class that --threshold is about.",
        show_default="the run's positive-class, or the second one",
    ),
]


@dataclass(frozen=True)
class Threshold:
    """``positive`` is the position of a class; records with at least this probability of it are predicted as such."""

    value: float
    positive: int
    name: str

    @classmethod
    def of(cls, value: float | None, positive: str, schema: Schema, run: RunConfig | None = None) -> Self | None:
        """What the options say of a model with these classes, and of its ``run``, None for no threshold.

        Raises ConfigError.
        """
        if value is not None and run and run.positive_class in schema.classes:
            positive = positive or run.positive_class
        if value is None:
            if positive:
                raise ConfigError("--positive has no effect without --threshold: add that, or leave it out")
            return None
        # A comparison with NaN is always false.
        if math.isnan(value) or not 0 <= value <= 1:
            raise ConfigError(f"--threshold {value:g} is no probability: give a number from 0 to 1")
        schema.outcome.check_classes("--threshold is for classes, and the model predicts a number: leave it out")
        if len(schema.classes) != 2:
            raise ConfigError(
                f"--threshold is for two classes, and the model knows {len(schema.classes)}: leave it out, and decide "
                "by the probabilities"
            )
        if positive and positive not in schema.classes:
            raise ConfigError(f"--positive {quoted(positive)} is no class: {suggest(positive, schema.classes)}")
        position = schema.classes.index(positive) if positive else 1
        return cls(value, position, schema.classes[position])

    def decide(self, probabilities: NDArray[np.float64] | None) -> HardLabels:
        """The class of each record ``(n,)`` by ``probabilities`` ``(n, 2)``. Raises ConfigError if there are none."""
        if probabilities is None:
            raise ConfigError("--threshold needs probabilities, and the model knows none: leave it out")
        is_positive = probabilities[:, self.positive] >= self.value
        return np.where(is_positive, self.positive, 1 - self.positive).astype(LABEL_DTYPE)

    def __str__(self) -> str:
        return f"predicted is {quoted(self.name)} where its probability is {self.value:g} or more"
