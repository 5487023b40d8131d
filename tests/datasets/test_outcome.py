"""What differs between a study of classes and one of a quantity."""

import numpy as np
import pytest

from fedct_flwr.datasets.schema import Outcome
from fedct_flwr.scoring import BALANCED_ACCURACY, R_SQUARED, Measure
from fedct_flwr.types import DataError

CLASSES, DAYS = Outcome(("0", "1")), Outcome(quantity="days")


@pytest.mark.parametrize(
    ("outcome", "measure", "table"),
    [(CLASSES, BALANCED_ACCURACY, "labels.csv"), (DAYS, R_SQUARED, "values.csv")],
)
def test_models_are_compared_and_decisions_kept_by_outcome(outcome: Outcome, measure: Measure, table: str) -> None:
    assert (outcome.measure, outcome.table) == (measure, table)


def test_answers_are_told_by_the_names_of_classes_or_as_numbers() -> None:
    labels, values = np.int16([1, 0]), np.float64([1.5, 2.0])
    assert (CLASSES.shown(labels), DAYS.shown(values)) == (["1", "0"], [1.5, 2.0])
    assert CLASSES.as_written(labels).tolist() == [1, 0]
    assert DAYS.as_written(values) is values
    assert CLASSES.read(["1", ""]).tolist() == [1, None]
    np.testing.assert_array_equal(DAYS.read(["1.5", ""]), [1.5, np.nan])


def test_a_model_of_classes_says_no_other_class() -> None:
    assert DAYS.check_answers(np.float64([-3.0])).tolist() == [-3.0]
    assert CLASSES.check_answers(np.int16([0, 1])).tolist() == [0, 1]
    for strange in ([2], [-1]):
        with pytest.raises(DataError, match="no class of its own study"):
            CLASSES.check_answers(np.int16(strange))
