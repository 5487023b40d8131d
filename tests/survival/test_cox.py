"""Cox's model and its measures agree with lifelines."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from lifelines import CoxPHFitter, KaplanMeierFitter
from lifelines.datasets import load_rossi
from lifelines.utils import concordance_index
from sklearn.base import clone

from fedct_flwr.survival.cox import RidgeCox, breslow, chances
from fedct_flwr.survival.measures import at_horizon, better, concordance, kaplan_meier
from fedct_flwr.survival.times import Times
from tests.survival.made import WEIGHTS, records

# Weeks of a year, so that many events have one time.
ROSSI: pd.DataFrame = load_rossi()
COLUMNS = ROSSI.drop(columns=["week", "arrest"]).to_numpy(float)
FOLLOW_UP = Times(ROSSI["week"].to_numpy(float), ROSSI["arrest"].to_numpy() == 1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("penalty", [0.0, 0.01, 0.1, 1.0])
def test_coefficients_and_baseline_are_those_of_lifelines_with_tied_times(penalty: float) -> None:
    theirs = CoxPHFitter(penalizer=penalty).fit(ROSSI, "week", "arrest")
    ours = RidgeCox(penalty).fit(COLUMNS, FOLLOW_UP.signed)
    assert ours.coef_ == pytest.approx(theirs.params_.to_numpy(), abs=1e-4)
    steps, hazard = breslow(FOLLOW_UP, ours.predict(COLUMNS))
    baseline = theirs.baseline_cumulative_hazard_.iloc[:, 0]
    assert hazard == pytest.approx(baseline.loc[steps].to_numpy(), rel=1e-3)


def test_a_constant_column_and_no_event_give_no_weight() -> None:
    X, times = records(np.random.default_rng(0), 50)
    X[:, 1] = 7.0
    assert RidgeCox(0.1).fit(X, times.signed).coef_[1] == 0
    censored = Times(times.time, np.zeros(50, dtype=bool))
    assert (RidgeCox(0.1).fit(X, censored.signed).predict(X) == 0).all()


def test_weights_are_found_from_many_records() -> None:
    X, times = records(np.random.default_rng(1), 4000)
    assert clone(RidgeCox(0.0)).fit(X, times.signed).coef_ == pytest.approx(WEIGHTS, abs=0.08)


def test_concordance_is_that_of_lifelines_and_its_error_that_of_resampling() -> None:
    risk = -ROSSI["age"].to_numpy(float)
    found = concordance(FOLLOW_UP, risk)
    assert found.value == pytest.approx(concordance_index(FOLLOW_UP.time, -risk, FOLLOW_UP.event))
    rng, drawn = np.random.default_rng(0), []
    for _ in range(200):
        at = rng.integers(0, len(risk), len(risk))
        drawn.append(concordance(Times(FOLLOW_UP.time[at], FOLLOW_UP.event[at]), risk[at]).value)
    assert found.error == pytest.approx(np.std(drawn), rel=0.2)
    assert found.estimate.low < found.value < found.estimate.high


def test_pairs_of_one_fold_alone_count_where_folds_are_given() -> None:
    times = Times(np.array([1.0, 2.0, 1.0, 2.0]), np.ones(4, dtype=bool))
    risk, folds = np.array([2.0, 1.0, 0.2, 0.1]), np.array([0, 0, 1, 1])
    assert concordance(times, risk).value == 0.75
    assert concordance(times, risk, folds).value == 1
    assert np.isnan(concordance(Times(times.time, np.zeros(4, dtype=bool)), risk).value)
    assert better(times, risk, risk, folds) == (0, 0)


def test_kaplan_meier_is_that_of_lifelines() -> None:
    theirs = KaplanMeierFitter().fit(FOLLOW_UP.time, FOLLOW_UP.event).survival_function_.iloc[:, 0]
    curve = kaplan_meier(FOLLOW_UP)
    assert curve.share == pytest.approx(theirs.loc[curve.steps].to_numpy())
    assert curve.at(np.array([0.5])) == 1
    assert all(before >= after for before, after in pairwise(curve.at_risk))


def test_scores_at_a_horizon_undo_censoring_and_chances_of_the_true_model_are_calibrated() -> None:
    rng = np.random.default_rng(2)
    X, whole = records(rng, 6000, censored=False)
    end = rng.exponential(2.0, 6000)
    cut = Times(np.minimum(whole.time, end), whole.time <= end)
    true = 1 - np.exp(-np.exp(X @ WEIGHTS) * 0.8)
    known, weighed = (at_horizon(times, X @ WEIGHTS, true, 0.8) for times in (whole, cut))
    for name in ("auc", "brier", "calibration"):
        assert weighed[name].value == pytest.approx(known[name].value, abs=0.02)
        assert weighed[name].low < known[name].value < weighed[name].high
    assert weighed["calibration"].low < 0 < weighed["calibration"].high
    assert at_horizon(cut, X @ WEIGHTS, true + 0.1, 0.8)["calibration"].high < 0


def test_chances_follow_the_baseline() -> None:
    found = chances(np.array([1.0, 3.0]), np.array([0.1, 0.4]), np.array([0.0, 1.0]), np.array([0.5, 2.0, 9.0]))
    assert found == pytest.approx(1 - np.exp(-np.array([[0, 0.1, 0.4], [0, 0.1 * np.e, 0.4 * np.e]])))
