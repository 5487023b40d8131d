"""Each number against scikit-learn, scipy or a closed form; each interval against what chance does."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binomtest, norm
from sklearn.calibration import calibration_curve as sklearns_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    confusion_matrix,
    mean_absolute_error,
    r2_score,
    recall_score,
    roc_auc_score,
    root_mean_squared_error,
)

from fedct_flwr.scoring import accuracy, balanced_accuracy
from fedct_flwr.scoring.assessment import Assessment, Labels, Predicted, assess, auc, calibration_curve, predict
from fedct_flwr.scoring.intervals import Estimate, intercept_and_slope, proportion
from fedct_flwr.scoring.subgroups import subgroups
from fedct_flwr.types import LABEL_DTYPE, Examples, Features, HardLabels, TrainingError

EVERY = {"balanced_accuracy", "accuracy", "auc", "brier"}
CALIBRATION = {"intercept", "slope"}
TWO, THREE, QUANTITY = Labels(2, 1), Labels(3), Labels(0)


def labels(*values: int) -> HardLabels:
    return np.array(values, dtype=LABEL_DTYPE)


def examples(y: NDArray[np.generic]) -> Examples:
    return Examples(np.zeros((len(y), 1)), y)


def shares(positive: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([1 - positive, positive], axis=1)


def drawn(n: int, seed: int, classes: int = 2) -> tuple[HardLabels, NDArray[np.float64]]:
    """Labels, and probabilities with ties that know something of them."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n).astype(LABEL_DTYPE)
    y[:classes] = np.arange(classes)
    raw = rng.integers(1, 9, (n, classes)) + 3.0 * (y[:, np.newaxis] == np.arange(classes))
    return y, raw / raw.sum(axis=1, keepdims=True)


def of(y: HardLabels, probabilities: NDArray[np.float64], wanted: Labels = TWO) -> Assessment:
    answers = probabilities.argmax(axis=1).astype(LABEL_DTYPE)
    return assess(examples(y), Predicted(answers, probabilities), wanted)


def holds(found: Estimate) -> None:
    assert found.low <= found.value <= found.high


# --- values


@given(n=st.integers(2, 60), seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_two_classes_agree_with_scikit_learn(n: int, seed: int) -> None:
    y, p = drawn(n, seed)
    found = of(y, p)
    answers = p.argmax(axis=1)
    matrix = confusion_matrix(y, answers, labels=[0, 1])
    assert found.confusion == matrix.tolist()
    assert found.value("auc") == pytest.approx(roc_auc_score(y, p[:, 1]))
    assert found.value("brier") == pytest.approx(brier_score_loss(y, p[:, 1]))
    assert found.value("sensitivity") == pytest.approx(matrix[1, 1] / matrix[1].sum())
    assert found.value("specificity") == pytest.approx(matrix[0, 0] / matrix[0].sum())
    assert set(found.metrics) == {*EVERY, *CALIBRATION, "sensitivity", "specificity"}
    for name, metric in found.metrics.items():
        assert name == "slope" or metric.low <= metric.value <= metric.high
        assert name in CALIBRATION or 0 <= metric.low <= metric.high <= 1


@given(n=st.integers(3, 60), seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_more_classes_agree_with_scikit_learn(n: int, seed: int) -> None:
    y, p = drawn(n, seed, 3)
    found = of(y, p, THREE)
    assert found.value("auc") == pytest.approx(roc_auc_score(y, p, multi_class="ovr", average="macro"))
    assert found.value("brier") == pytest.approx(np.mean(np.sum((p - np.eye(3)[y]) ** 2, axis=1)))
    assert set(found.metrics) == EVERY
    holds(found.metrics["auc"])
    holds(found.metrics["brier"])


def test_a_class_that_the_test_set_lacks_has_no_part_in_the_auc() -> None:
    y, p = drawn(40, 3, 2)
    p = np.column_stack([p * 0.9, np.full(len(y), 0.1)])
    expected = np.mean([roc_auc_score(y == c, p[:, c]) for c in (0, 1)])
    assert of(y, p, THREE).value("auc") == pytest.approx(expected)


def test_the_positive_class_is_the_one_that_was_named() -> None:
    y, p = drawn(50, 1)
    last, first = of(y, p, Labels(2, 1)), of(y, p, Labels(2, 0))
    assert last.value("sensitivity") == first.value("specificity")
    assert last.value("specificity") == first.value("sensitivity")
    assert last.value("auc") == pytest.approx(first.value("auc"))


@given(n=st.integers(3, 50), seed=st.integers(0, 100))
@settings(max_examples=30, deadline=None)
def test_values_agree_with_scikit_learn(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.normal(50, 3, n)
    predicted = y + rng.normal(size=n)
    found = assess(examples(y), Predicted(predicted), QUANTITY)
    assert found.value("r_squared") == pytest.approx(r2_score(y, predicted))
    assert found.value("mae") == pytest.approx(mean_absolute_error(y, predicted))
    assert found.value("rmse") == pytest.approx(root_mean_squared_error(y, predicted))
    assert found.confusion == []
    slope = found.metrics["slope"]
    assert slope.value == pytest.approx(np.polyfit(predicted, y, 1)[0])
    assert slope.low < slope.value < slope.high


def test_the_interval_of_r_squared_holds_the_truth_and_has_none_without_spread() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        known = rng.normal(size=60)
        y = known + rng.normal(size=60)
        found = assess(examples(y), Predicted(known), QUANTITY).metrics["r_squared"]
        held += found.low <= 0.5 <= found.high
    assert 364 <= held <= 395
    same = assess(examples(np.ones(5)), Predicted(np.ones(5)), QUANTITY).metrics["r_squared"]
    assert math.isnan(same.low)
    assert math.isnan(same.value)


# --- what cannot be computed


@pytest.mark.parametrize("only", [0, 1])
def test_one_class_has_neither_balanced_accuracy_nor_auc(only: int) -> None:
    y = np.full(6, only, dtype=LABEL_DTYPE)
    found = of(y, shares(np.linspace(0.1, 0.9, 6)))
    unknown = {name for name, metric in found.metrics.items() if math.isnan(metric.value)}
    assert unknown == {"balanced_accuracy", "auc", *CALIBRATION, "specificity" if only else "sensitivity"}


def test_probabilities_that_fail_or_are_no_numbers_leave_the_classes() -> None:
    class Failing:
        def predict(self, X: Features) -> HardLabels:
            return labels(*[1] * len(X))

        def probabilities(self, X: Features, num_classes: int) -> NDArray[np.float64]:
            raise TrainingError("no")

    assert predict(Failing(), np.zeros((3, 1)), TWO).probabilities is None
    found = of(labels(0, 1, 1), np.full((3, 2), np.nan))
    assert found.value("accuracy") == pytest.approx(1 / 3)
    assert math.isnan(found.value("auc"))
    assert math.isnan(found.value("brier"))
    assert found.calibration == []


# --- intervals


@pytest.mark.parametrize(("k", "n"), [(0, 1), (0, 7), (3, 7), (7, 7), (50, 100)])
def test_proportions_have_wilsons_interval(k: int, n: int) -> None:
    expected = binomtest(k, n).proportion_ci(method="wilson")
    found = proportion(k, n)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_delongs_variance_is_that_of_its_definition() -> None:
    y, p = drawn(40, 8)
    positive, negative = p[y == 1, 1], p[y == 0, 1]
    above = (positive[:, np.newaxis] > negative) + 0.5 * (positive[:, np.newaxis] == negative)
    variance = above.mean(axis=1).var(ddof=1) / len(positive) + above.mean(axis=0).var(ddof=1) / len(negative)
    area = above.mean()
    half = norm.ppf(0.975) * np.sqrt(variance) / (area * (1 - area))
    found = auc(y, p, 1)
    assert found.value == pytest.approx(area)
    logit = math.log(area / (1 - area))
    assert found.low == pytest.approx(1 / (1 + math.exp(half - logit)))
    assert found.high == pytest.approx(1 / (1 + math.exp(-half - logit)))


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    truth = {"auc": norm.cdf(1.2 / np.sqrt(2)), "balanced_accuracy": norm.cdf(0.6), "sensitivity": norm.cdf(0.6)}
    held = dict.fromkeys(truth, 0)
    for _ in range(400):
        y = labels(*rng.permutation([0] * 25 + [1] * 15))
        score = rng.normal(size=40) + 1.2 * (y == 1)
        found = of(y, shares(1 / (1 + np.exp(-(score - 0.6)))))
        for name, value in truth.items():
            held[name] += found.metrics[name].low <= value <= found.metrics[name].high
    # 95% of 400, within three standard errors, and no interval that always holds.
    assert all(367 <= times <= 395 for times in held.values()), held


@pytest.mark.parametrize("few", [2, 3, 5, 9])
def test_areas_of_few_of_a_class_hold_the_truth_as_well(few: int) -> None:
    rng, held, truth = np.random.default_rng(few), 0, norm.cdf(1.2 / np.sqrt(2))
    y = np.repeat(labels(0, 1), [200, few])
    for _ in range(200):
        found = auc(y, shares(norm.cdf(rng.normal(size=len(y)) + 1.2 * y)), 1)
        held += found.low <= truth <= found.high
    assert 180 <= held < 200


# --- calibration


def test_the_curve_is_scikit_learns_with_counts() -> None:
    y, p = drawn(200, 4)
    observed, predicted = sklearns_curve(y, p[:, 1], n_bins=10)
    found = calibration_curve(y, p, 1)
    assert [part.observed for part in found] == pytest.approx(observed.tolist())
    assert [part.predicted for part in found] == pytest.approx(predicted.tolist())
    assert sum(part.n for part in found) == 200
    for part in found:
        assert part.low <= part.predicted <= part.high
        assert part.observed_low <= part.observed <= part.observed_high


class Answers:
    """Predicts what it was told to."""

    def __init__(self, labels: list[int]) -> None:
        self._labels = np.array(labels, dtype=LABEL_DTYPE)

    def predict(self, X: Features) -> HardLabels:
        assert len(X) == len(self._labels)
        return self._labels


@given(
    truth=st.lists(st.integers(0, 3), min_size=1, max_size=30).filter(lambda labels: len(set(labels)) > 1),
    seed=st.integers(0, 9),
)
def test_numbers_are_scikit_learns_to_the_last_bit(truth: list[int], seed: int) -> None:
    predicted = np.random.default_rng(seed).integers(0, 4, len(truth)).tolist()
    expected = recall_score(truth, predicted, labels=np.unique(truth), average="macro", zero_division=0)
    test = examples(labels(*truth))
    assert balanced_accuracy(Answers(predicted), test) == float(expected)
    assert accuracy(Answers(predicted), test) == float(accuracy_score(truth, predicted))


# --- calibration and groups


@given(n=st.integers(20, 200), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_calibration_agrees_with_scikit_learn(n: int, seed: int) -> None:
    y, p = drawn(n, seed)
    logit = np.log(p[:, 1] / p[:, 0])
    intercept, slope = (of(y, p).metrics[name] for name in ("intercept", "slope"))
    fit = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(logit[:, np.newaxis], y)
    if np.isfinite(slope.value):
        assert slope.value == pytest.approx(fit.coef_.item(), abs=1e-3)
    # With the slope fixed at 1 as many are expected as happened.
    assert (1 / (1 + np.exp(-logit - intercept.value))).sum() == pytest.approx(y.sum(), abs=1e-6)
    holds(intercept)


def test_an_interval_of_the_slope_holds_the_truth_as_often_as_it_says() -> None:
    rng, hits = np.random.default_rng(0), []
    for _ in range(400):
        logit = rng.normal(size=200)
        y = (rng.random(200) < 1 / (1 + np.exp(-0.5 * logit - 1))).astype(LABEL_DTYPE)
        intercept, slope = intercept_and_slope(y == 1, 1 / (1 + np.exp(-logit)))
        hits.append((slope.low <= 0.5 <= slope.high, intercept.low > 0))
    assert np.mean(hits, axis=0) == pytest.approx([0.95, 1.0], abs=0.035)


def test_right_chances_of_a_rare_outcome_are_calibrated() -> None:
    held = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        stated = 1 / (1 + np.exp(-rng.normal(-7.5, 0.5, 20_000)))
        happened = rng.random(len(stated)) < stated
        found, _ = intercept_and_slope(happened, stated)
        held += found.low <= 0 <= found.high
        # A forest's have no logarithm.
        forests = intercept_and_slope(happened, np.where(stated < 4e-4, 0, stated))
        assert all(math.isfinite(each.value) for each in forests)
    assert held >= 17


def test_calibration_is_unknown_where_nothing_can_be_told() -> None:
    separated = intercept_and_slope(np.array([False, True] * 5), np.array([0.2, 0.8] * 5))
    assert (separated[0].value, math.isnan(separated[1].value)) == (pytest.approx(0), True)
    assert math.isnan(intercept_and_slope(np.array([False, True] * 5), np.full(10, 0.3))[1].value)
    assert all(math.isnan(each.value) for each in intercept_and_slope(np.ones(4, np.bool_), np.full(4, 0.3)))
    # All records with the higher chance had the event: the maximum is at infinity.
    half = intercept_and_slope(np.array([False, True] * 4 + [True] * 4), np.repeat([0.01, 0.99], [8, 4]))
    assert math.isnan(half[1].value)


def test_groups_of_few_events_are_together_and_gaps_are_to_all_others() -> None:
    y, p = drawn(120, 5)
    group = np.repeat(["f", "m", "x", "y"], [60, 50, 6, 4]).tolist()
    answers = p.argmax(axis=1).astype(LABEL_DTYPE)
    found = subgroups(examples(y), Predicted(answers, p), group, TWO)
    assert found.small == ["x", "y"]
    assert [(each.group, each.n) for each in found.groups] == [("", 120), ("f", 60), ("m", 50), ("others", 10)]
    # Two classes: those of the positive one, also where it is the more frequent.
    assert [each.events for each in found.groups] == [
        int(y[rows].sum()) for rows in (slice(0, 120), slice(0, 60), slice(60, 110), slice(110, 120))
    ]
    everything, f, *_ = found.groups
    assert everything.metrics == of(y, p).metrics
    assert everything.gaps == {}
    own, rest = proportion(*_right(y[:60], answers[:60])), proportion(*_right(y[60:], answers[60:]))
    gap = f.gaps["accuracy"]
    assert gap.value == pytest.approx(own.value - rest.value)
    assert gap.low == pytest.approx(gap.value - math.hypot(own.value - own.low, rest.high - rest.value))
    alone = subgroups(examples(y), Predicted(answers, p), ["f"] * 120, TWO)
    assert [each.gaps for each in alone.groups] == [{}, {}]
    numbers = subgroups(Examples(np.zeros((120, 1)), p[:, 0]), Predicted(p[:, 0], None), group, QUANTITY)
    assert [(each.n, each.events) for each in numbers.groups] == [(120, None), (60, None), (50, None), (10, None)]


def test_means_over_other_classes_have_no_gap() -> None:
    y = np.repeat(labels(0, 1, 2, 0, 1), 30)
    group = np.repeat(["f", "m"], [90, 60]).tolist()
    answers = np.where(np.arange(150) % 10 < np.array([9, 9, 3])[y], y, (y + 1) % 3).astype(LABEL_DTYPE)
    found = subgroups(examples(y), Predicted(answers, np.eye(3)[answers]), group, THREE)
    assert found.lacking == {"m": [2]}
    # Each group's most frequent class is another one, so records without it are no sum.
    assert [each.events for each in found.groups] == [None] * 3
    for each in found.groups[1:]:
        assert {name for name, gap in each.gaps.items() if math.isnan(gap.value)} == {"balanced_accuracy", "auc"}
    same = subgroups(examples(y), Predicted(answers, np.eye(3)[answers]), ["f", "m"] * 75, THREE)
    assert same.lacking == {}
    assert not any(math.isnan(gap.value) for each in same.groups[1:] for gap in each.gaps.values())


def _right(y: HardLabels, answers: HardLabels) -> tuple[int, int]:
    return int((y == answers).sum()), len(y)
