"""Cox's model and its measures agree with lifelines."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from lifelines import CoxPHFitter, KaplanMeierFitter, NelsonAalenFitter
from lifelines.datasets import load_rossi
from lifelines.utils import concordance_index
from sklearn.base import clone

from fedct_flwr.consensus.grades import GRADES, grades
from fedct_flwr.survival.cox import RidgeCox, baseline, chances
from fedct_flwr.survival.measures import (
    Times,
    at_horizon,
    better,
    check_can_rank,
    concordance,
    excess,
    follow_up,
    kaplan_meier,
    times_of,
    usual_horizon,
)
from fedct_flwr.survival.model import PENALTIES, USUAL, OwnRanking, RiskModel
from fedct_flwr.types import DataError
from tests.survival.made import WEIGHTS, records

# Weeks of a year, so that many events have one time.
ROSSI: pd.DataFrame = load_rossi()
COLUMNS = ROSSI.drop(columns=["week", "arrest"]).to_numpy(float)
FOLLOW_UP = Times(ROSSI["week"].to_numpy(float), ROSSI["arrest"].to_numpy() == 1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("penalty", [0.0, 0.01, 0.1, 1.0])
def test_coefficients_and_baseline_are_those_of_lifelines(penalty: float) -> None:
    tied = CoxPHFitter(penalizer=penalty).fit(ROSSI, "week", "arrest").params_
    assert RidgeCox(penalty).fit(COLUMNS, FOLLOW_UP.signed).coef_ == pytest.approx(tied.to_numpy(), abs=1e-4)
    # Its baseline hazard has Breslow's ties.
    apart = FOLLOW_UP._replace(time=FOLLOW_UP.time + np.linspace(0, 0.5, len(COLUMNS)))
    theirs = CoxPHFitter(penalizer=penalty).fit(ROSSI.assign(week=apart.time), "week", "arrest")
    steps, hazard = baseline(apart, RidgeCox(penalty).fit(COLUMNS, apart.signed).predict(COLUMNS))
    assert hazard == pytest.approx(theirs.baseline_cumulative_hazard_.iloc[:, 0].loc[steps].to_numpy(), rel=1e-3)


def test_tied_times_give_the_baseline_and_censoring_of_fine_ones() -> None:
    steps, hazard = baseline(FOLLOW_UP, np.zeros(len(COLUMNS)))
    theirs = NelsonAalenFitter(nelson_aalen_smoothing=True).fit(FOLLOW_UP.time, FOLLOW_UP.event)
    assert hazard == pytest.approx(theirs.cumulative_hazard_.iloc[:, 0].loc[steps].to_numpy())
    # Two events in year 1, and then one of two records is censored: fine times say the same.
    years, fine = np.array([1.0, 1.0, 1.0, 2.0]), np.array([0.5, 0.6, 1.0, 2.0])
    event = np.array([True, True, False, True])
    curves = [kaplan_meier(Times(time, event), censoring=True) for time in (years, fine)]
    assert [curve.share.tolist() for curve in curves] == [[0.5], [0.5]]
    assert [curve.at_risk.tolist() for curve in curves] == [[2], [2]]


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


def test_a_record_censored_at_the_horizon_had_no_event_by_then() -> None:
    rng = np.random.default_rng(2)
    X, whole = records(rng, 300, censored=False)
    # One clinic stops at the horizon, another much later: the state of all is known.
    end = np.where(X[:, 0] > 0.5, 9.0, 0.8)
    cut = Times(np.minimum(whole.time, end), whole.time <= end)
    chance = 1 - np.exp(-np.exp(X @ WEIGHTS) * 0.8 * (1 - 0.5 * (X[:, 0] > 0.5)))
    assert at_horizon(cut, X @ WEIGHTS, chance, 0.8) == at_horizon(whole, X @ WEIGHTS, chance, 0.8)
    complete = Times(np.minimum(whole.time, 0.8), whole.time <= 0.8)
    assert set(at_horizon(complete, X @ WEIGHTS, chance, 0.8)) == {"auc", "brier", "calibration"}


@pytest.mark.parametrize("events", [1, 2, 4, 5, 10])
def test_intervals_of_few_events_hold_the_truth(events: int) -> None:
    rng, held = np.random.default_rng(0), []
    for _ in range(200):
        time, noise = np.sort(rng.exponential(size=40)), rng.normal(size=40)
        times = Times(time, np.arange(40) < events)
        found = concordance(times, noise).estimate, at_horizon(times, noise, None, time[events - 1])["auc"]
        held.append([each.low <= 0.5 <= each.high for each in found])
    assert (np.mean(held, axis=0) > 0.88).all()
    perfect = concordance(times, -time).estimate
    assert perfect.value == perfect.high == 1 > perfect.low


def test_a_test_of_few_events_or_none_leaves_doubt_of_true_chances() -> None:
    rng, held = np.random.default_rng(0), []
    for _ in range(300):
        X = rng.normal(size=(20, 1))
        time, end, chance = rng.exponential(10 * np.exp(-X[:, 0])), rng.uniform(0.2, 2, 20), -np.expm1(-np.exp(X) / 20)
        found = at_horizon(Times(np.minimum(time, end), time <= end), X[:, 0], chance[:, 0], 0.5)
        held.append(found["calibration"].low <= 0 <= found["calibration"].high)
        assert 0 <= found["brier"].low < found["brier"].value < found["brier"].high <= 1
    assert np.mean(held) > 0.93
    wrong = at_horizon(Times(np.full(60, 1.0), np.zeros(60, dtype=bool)), np.zeros(60), np.full(60, 0.2), 0.5)
    assert wrong["calibration"].high < 0


def test_chances_follow_the_baseline() -> None:
    found = chances(np.array([1.0, 3.0]), np.array([0.1, 0.4]), np.array([0.0, 1.0]), np.array([0.5, 2.0, 9.0]))
    assert found == pytest.approx(1 - np.exp(-np.array([[0, 0.1, 0.4], [0, 0.1 * np.e, 0.4 * np.e]])))


# --- a silo's own ranking and its model


def _ranking(size: int = 80, seed: int = 0) -> tuple[np.ndarray, Times, OwnRanking]:
    X, times = records(np.random.default_rng(seed), size)
    return X, times, OwnRanking(RidgeCox(), X, times.signed, None, np.random.default_rng(seed))


def test_signed_times_keep_events_also_at_time_zero() -> None:
    times = Times(np.array([0.0, 0.0, 3.0, -0.0, -0.0]), np.array([True, False, False, True, False]))
    back = times_of(times.signed)
    assert back.time.tolist() == times.time.tolist()
    assert back.event.tolist() == times.event.tolist()
    assert usual_horizon([times.signed]) == (0.0,)
    assert usual_horizon([np.array([-3.0])]) == ()


def test_what_is_later_than_the_hazard_says_sums_to_zero() -> None:
    times = Times(np.array([3.0, 1.0, 2.0]), np.array([True, True, False]))
    assert excess(times) == pytest.approx([1 / 3 + 1 - 1, 1 / 3 - 1, 1 / 3])
    assert excess(records(np.random.default_rng(0), 50)[1]).sum() == pytest.approx(0)


@pytest.mark.parametrize(
    ("time", "event", "said"),
    [
        ([1.0, np.nan], [1.0, 0.0], "'days' of here is missing in 1 record"),
        ([1.0, -2.0], [1.0, 0.0], "'days' of here is negative in 1 record"),
        ([1.0, 2.0], [1.0, 2.0], r"'died' of here is neither 0 nor 1 in 1 record.*censored$"),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 0.0], "comes first, such as death, count it as one, too"),
        ([1.0, 2.0], [1.0, np.nan], "'died' of here is neither 0 nor 1 in 1 record"),
        ([1.0, 2.0], [0.0, 0.0], "here has no event"),
        ([2.0, 2.0], [1.0, 0.0], "here has one time for all records"),
    ],
)
def test_columns_that_rank_nobody_are_refused_without_a_value(time: list[float], event: list[float], said: str) -> None:
    with pytest.raises(DataError, match=said):
        check_can_rank(follow_up(np.array(time), np.array(event), ("days", "died"), "here"), "here")


def test_grades_are_parts_of_one_size_and_ties_share_one() -> None:
    risk = np.random.default_rng(0).permutation(100).astype(float)
    assert np.bincount(grades(risk)).tolist() == [20] * GRADES
    assert (np.diff(grades(np.sort(risk))) >= 0).all()
    assert set(grades(np.zeros(10)).tolist()) == {2}


def test_the_penalty_is_chosen_by_evidence_out_of_fold_and_a_named_one_is_kept() -> None:
    X, times, ranking = _ranking()
    assert ranking.estimator.penalty in PENALTIES
    assert 0.6 < ranking.evidence < concordance(times, X @ WEIGHTS).value + 0.05
    named = OwnRanking(RidgeCox(7.0), X, times.signed, None, np.random.default_rng(0))
    assert named.estimator.penalty == 7
    assert all(set(division.folds.tolist()) == {0, 1, 2} for division in ranking.divisions)


def test_records_of_one_group_stay_in_one_fold() -> None:
    X, times = records(np.random.default_rng(0), 60)
    groups = np.repeat(np.arange(20), 3)
    ranking = OwnRanking(RidgeCox(0.1), X, times.signed, groups, np.random.default_rng(0))
    for division in ranking.divisions:
        assert all(len(np.unique(division.folds[groups == group])) == 1 for group in range(20))


def test_noise_and_records_without_an_event_cannot_rank() -> None:
    rng = np.random.default_rng(3)
    X, times = records(rng, 80)
    shuffled = Times(*(part[rng.permutation(80)] for part in times))
    found = [
        OwnRanking(RidgeCox(), X[:, [3]], each.signed, None, np.random.default_rng(seed)).evidence
        for seed, each in enumerate([shuffled, times])
    ]
    assert max(found) < 0.62
    none = OwnRanking(RidgeCox(), X, -times.time, None, np.random.default_rng(0))
    assert np.isnan(none.evidence)
    assert not none.can_rank
    assert (RiskModel(RidgeCox()).fit(X, -times.time, none).chances(X, [1.0]) == 0).all()


@pytest.mark.parametrize(
    ("events", "expected"),
    [(80, [0, 1, 2, 3, 4]), (8, [0, 1, 2, 3, 4]), (7, [0, 1, 2, 3]), (4, [0, 1, 2, 3]), (3, [1, 2, 3]), (1, [1, 2])],
)
def test_a_silo_of_few_events_for_a_column_uses_fewer_grades(events: int, expected: list[int]) -> None:
    X, times = records(np.random.default_rng(0), 80)
    times = times._replace(event=np.arange(80) < events)
    ranking = OwnRanking(RidgeCox(0.1), X, times.signed, None, np.random.default_rng(0))
    given = ranking.grades(X[:, 0])
    assert np.unique(given).tolist() == expected
    assert np.bincount(given, minlength=GRADES)[expected] == pytest.approx(80 / len(expected), abs=1)
    assert (np.diff(given[X[:, 0].argsort()]) >= 0).all()


def test_a_mean_of_grades_weighs_silos_by_their_events() -> None:
    rng = np.random.default_rng(0)
    X, times = records(rng, 400)
    many, few = (OwnRanking(RidgeCox(0.1), X[:n], times.signed[:n], None, np.random.default_rng(0)) for n in (400, 8))
    public = rng.normal(size=(500, 4))
    right, wrong = public @ WEIGHTS, [public @ rng.normal(size=4) for _ in range(2)]
    weighed = np.mean([many.grades(right), *map(few.grades, wrong)], axis=0)
    same = np.mean([*map(grades, [right, *wrong])], axis=0)
    assert np.corrcoef(weighed, right)[0, 1] > np.corrcoef(same, right)[0, 1] + 0.1


def test_a_model_starts_from_a_good_student_and_drops_a_wrong_one() -> None:
    X, times, ranking = _ranking(size=150)
    public = np.random.default_rng(9).normal(size=(400, 4))
    shares = {}
    for name, taught in {"right": public @ WEIGHTS, "wrong": -public @ WEIGHTS}.items():
        model = RiskModel(RidgeCox())
        shares[name] = model.learn(X, times.signed, ranking, public, grades(taught))
    assert shares["right"].share <= USUAL
    assert shares["wrong"].share == 1
    assert shares["wrong"].gain > shares["wrong"].error
    fresh, after = records(np.random.default_rng(5), 500)
    # The last one has the wrong student.
    alone = RiskModel(RidgeCox()).fit(X, times.signed, ranking)
    assert model.predict(fresh) == pytest.approx(alone.predict(fresh))
    right = RiskModel(RidgeCox())
    right.learn(X, times.signed, ranking, public, grades(public @ WEIGHTS))
    assert concordance(after, right.predict(fresh)).value > concordance(after, alone.predict(fresh)).value


def test_stated_chances_are_true_on_new_records() -> None:
    X, times, ranking = _ranking(size=400)
    model = RiskModel(RidgeCox()).fit(X, times.signed, ranking)
    fresh, whole = records(np.random.default_rng(6), 3000, censored=False)
    stated = model.chances(fresh, [0.3, 1.0])
    observed = [(whole.time <= horizon).mean() for horizon in (0.3, 1.0)]
    assert stated.mean(axis=0) == pytest.approx(observed, abs=0.05)
    assert (np.diff(stated, axis=1) >= 0).all()
