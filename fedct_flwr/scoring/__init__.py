"""How good predictions are: single numbers for comparisons, and all that clinicians ask for, with intervals."""

from fedct_flwr.scoring.measures import (
    BALANCED_ACCURACY,
    R_SQUARED,
    Measure,
    Predictor,
    accuracy,
    balanced_accuracy,
    both_accuracies,
    r_squared,
)

__all__ = [
    "BALANCED_ACCURACY",
    "R_SQUARED",
    "Measure",
    "Predictor",
    "accuracy",
    "balanced_accuracy",
    "both_accuracies",
    "r_squared",
]
