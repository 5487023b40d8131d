"""A silo's own ranking, its evidence, and the model that starts from the student."""

import numpy as np
import pytest

from fedct_flwr.consensus.grades import GRADES, grades
from fedct_flwr.survival.cox import RidgeCox
from fedct_flwr.survival.measures import concordance
from fedct_flwr.survival.model import PENALTIES, USUAL, OwnRanking, RiskModel
from fedct_flwr.survival.times import Times, check_can_rank, follow_up, times_of, usual_horizon
from fedct_flwr.types import DataError
from tests.survival.made import WEIGHTS, records


def _ranking(size: int = 80, seed: int = 0) -> tuple[np.ndarray, Times, OwnRanking]:
    X, times = records(np.random.default_rng(seed), size)
    return X, times, OwnRanking(RidgeCox(), X, times.signed, None, np.random.default_rng(seed))


def test_signed_times_keep_events_also_at_time_zero() -> None:
    times = Times(np.array([0.0, 0.0, 3.0]), np.array([True, False, False]))
    back = times_of(times.signed)
    assert back.time.tolist() == times.time.tolist()
    assert back.event.tolist() == times.event.tolist()
    assert usual_horizon([times.signed]) == (0.0,)
    assert usual_horizon([np.array([-3.0])]) == ()


@pytest.mark.parametrize(
    ("time", "event", "said"),
    [
        ([1.0, np.nan], [1.0, 0.0], "'days' of here is missing in 1 record"),
        ([1.0, -2.0], [1.0, 0.0], "'days' of here is negative in 1 record"),
        ([1.0, 2.0], [1.0, 2.0], "'died' of here is neither 0 nor 1 in 1 record"),
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
