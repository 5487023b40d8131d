"""A patient with several records changes what leaves no more than one record does, in every labeler."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedct_flwr import simulate
from fedct_flwr.datasets.federated import check_protected
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.labelers.dp_linear import RESIDUAL, SENSITIVITY, DpLinearLabeler, gradient, sharing
from fedct_flwr.labelers.joint_linear import JointLinear, plan_for
from fedct_flwr.labelers.labeler import Asked
from fedct_flwr.labelers.public_features import NORM, PublicFeatures
from fedct_flwr.labelers.students import Transfer
from fedct_flwr.privacy.budget import Budget, PrivacyUnit
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.privacy.ledger_file import LedgerError
from fedct_flwr.privacy.mechanisms import ON_COUNTS
from fedct_flwr.privacy.randomness import SimulatedNoise
from fedct_flwr.types import ABSTAIN, ConfigError, DataError, Examples, TrainingError

SCHEMA = Schema.numeric(("a", "b"), ("x", "y", "z"))
PUBLIC = np.random.default_rng(0).normal(size=(200, 3))
VISITS = 5
LONE = np.arange(100, 140)
"""Patients with one record each, next to which a patient with five comes or goes."""


def length(matrix: np.ndarray) -> float:
    return math.sqrt(sum(int(entry) ** 2 for entry in matrix.ravel()))


def visits(seed: int) -> tuple[Examples, np.ndarray]:
    """Forty patients with one record each, and one with five records that all say the same."""
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(40, 3)), np.repeat(10 * rng.normal(size=(1, 3)), VISITS, axis=0)])
    y = np.append(rng.integers(0, 2, 40), [seed % 2] * VISITS).astype(np.int16)
    return Examples(X, y), np.append(LONE, [7] * VISITS)


@pytest.mark.parametrize("seed", range(20))
def test_five_records_of_a_patient_change_the_gradient_by_no_more_than_one(seed: int) -> None:
    features = PublicFeatures(PUBLIC, SCHEMA, num_components=3, kind="linear", seed=0)
    (X, y), groups = visits(seed)
    vectors, point = features(X), 5 * np.random.default_rng(seed).normal(size=(features.size, 2))
    point[:, 1 - y[-1]] += 9 * vectors[-1] / NORM  # it is told the wrong class, with certainty
    without = gradient(vectors[:40], y[:40], point, sharing(LONE))
    moved = length(gradient(vectors, y, point, sharing(groups)) - without)
    assert 0.5 * SENSITIVITY < moved <= SENSITIVITY
    # The planted fault: as records of their own they change it five times as much.
    assert length(gradient(vectors, y, point) - without) > 2 * SENSITIVITY


@pytest.mark.parametrize("columns", [0, 3], ids=["linear", "additive"])
@pytest.mark.parametrize("seed", range(10))
def test_so_in_the_sums_of_the_joint_labelers(seed: int, columns: int) -> None:
    plan = plan_for(45, 2, epsilon=1.0, delta=1e-5, honest=3, additive_columns=columns)
    labeler = JointLinear(plan, PUBLIC, SCHEMA, seed=0)
    (X, y), groups = visits(seed)
    vectors, zeros = labeler.vectors(X), labeler.start.weights
    without = labeler.gradient(vectors[:40], y[:40], zeros, sharing(LONE))
    moved = length(labeler.gradient(vectors, y, zeros, sharing(groups)) - without)
    assert moved <= NORM * plan.clip <= NORM * math.sqrt(2) * RESIDUAL
    assert length(labeler.gradient(vectors, y, zeros) - without) > NORM * plan.clip


class Seen:
    """Keeps what each of its kind was trained on."""

    found: list[np.ndarray]

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: None = None) -> "Seen":
        self.found.append(X[:, 0])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.zeros(len(X), dtype=np.int16)


@pytest.mark.parametrize("noisy", [False, True])
def test_all_records_of_a_patient_have_one_teacher(noisy: bool) -> None:
    groups = np.repeat(np.arange(60), VISITS)
    records = Examples(groups[:, None].astype(float), np.zeros(len(groups), np.int16))
    found: list[np.ndarray] = []
    kind = type("Kept", (Seen,), {"found": found})
    mechanism = ON_COUNTS["laplace"](1.0) if noisy else None
    transfer = Transfer(lambda state: kind(), 2, partitions=1, teachers=6, num_units=60, seed=0, mechanism=mechanism)
    unlabeled, no_votes = np.full(len(PUBLIC), -1, dtype=np.int16), np.zeros(0, dtype=np.int16)
    question = Asked(records, PUBLIC[:, :1], unlabeled, no_votes, np.arange(3), groups)
    transfer.answer(question, SimulatedNoise(np.random.default_rng(0)))
    of_teachers = [set(part) for part in found[:-1]]
    assert sum(map(len, of_teachers)) == len(set().union(*of_teachers)) == 60


def test_records_without_a_patient_and_one_patient_for_all_are_refused() -> None:
    check_protected(np.array([1, 2, 2]), "essen")
    with pytest.raises(DataError, match="2 records without a value in the group column"):
        check_protected(np.array([-1, 3, -2]), "essen")
    with pytest.raises(DataError, match="all records have the same value"):
        check_protected(np.array([3, 3]), "essen")


def test_what_was_spent_per_record_is_no_promise_to_patients(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting")
    from dp_accounting import GaussianDpEvent

    per_record, per_patient = Budget(1.0, 1e-5), Budget(1.0, 1e-5, PrivacyUnit.PATIENT)
    with Ledger(tmp_path) as ledger:
        ledger.approve("study", "records", per_record, "before anything is spent")
        ledger.approve("study", "records", per_patient, "it may change")
        ledger.charge("study", "records", per_patient, GaussianDpEvent(50.0))
        for change in (
            lambda: ledger.approve("study", "records", per_record, "no longer"),
            lambda: ledger.charge("study", "records", per_record, GaussianDpEvent(50.0)),
        ):
            with pytest.raises(LedgerError, match="per patient, and the group column makes it one per example"):
                change()


def test_what_was_spent_per_case_is_no_promise_to_patients_of_many_cases(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting")
    from dp_accounting import GaussianDpEvent

    unknown, by_case, by_patient = (Budget(1.0, 1e-5, PrivacyUnit.PATIENT, name) for name in ("", "case", "patient"))
    with Ledger(tmp_path) as ledger:
        # As an earlier version wrote it.
        ledger.charge("study", "records", unknown, GaussianDpEvent(50.0))
        for known in (by_case, by_case):
            ledger.approve("study", "records", known, "the same column")
        for change in (ledger.approve, ledger.charge):
            with pytest.raises(LedgerError, match=r"per patient by 'case', and .* per patient by 'patient'"):
                change("study", "records", by_patient, GaussianDpEvent(50.0))


def tables(visits: int) -> dict[str, pd.DataFrame]:
    """Four silos of 60 patients, each with this many records."""
    found = {}
    for number, name in enumerate(("a", "b", "c", "d")):
        rng = np.random.default_rng(number)
        X = rng.normal(size=(60, 3))
        rows = np.repeat(np.arange(60), visits)
        frame = pd.DataFrame(X[rows] + 0.1 * rng.normal(size=(len(rows), 3)), columns=["u", "v", "w"])
        found[name] = frame.assign(patient=rows + 1000 * number, ill=np.where(X[rows, 0] + X[rows, 1] > 0, "yes", "no"))
    return found


PUBLIC_TABLE = pd.DataFrame(PUBLIC, columns=["u", "v", "w"])


def test_protections_of_single_records_are_refused_before_the_run() -> None:
    with pytest.raises(ConfigError, match=r"protection = 'dp-sgd' bounds what one record tells"):
        simulate(
            tables(3), PUBLIC_TABLE, label="ill", group="patient", protection="dp-sgd", learner="mlp", rounds=1,
            progress=False,
        )  # fmt: skip


# --- single records


FOUR = Schema.numeric(("a", "b", "c", "d"), ("x", "y", "z"))
WIDE_PUBLIC = np.random.default_rng(0).normal(size=(300, 3))
FEATURES = PublicFeatures(WIDE_PUBLIC, FOUR, num_components=3, kind="linear", seed=0)


def labeler(**settings: Any) -> DpLinearLabeler:
    given = {"num_units": 400, "epsilon": 1.0, "delta": 1e-5} | settings
    return DpLinearLabeler(FEATURES, 4, **given)


def records(count: int, seed: int) -> Examples:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 3)) * np.exp(rng.normal(size=(count, 1), scale=3))
    return Examples(X, rng.integers(0, 4, count).astype(np.int16))


def weights(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(4, 4)) * 10 ** rng.uniform(-3, 3)


def test_no_record_changes_the_gradient_by_more_than_claimed_and_some_do_by_nearly_so_much() -> None:
    found = []
    for seed in range(60):
        X, y = records(25, seed)
        vectors = FEATURES(X)
        found += [length(gradient(vectors[i : i + 1], y[i : i + 1], weights(seed))) for i in range(len(y))]
    assert 0.9 * SENSITIVITY < max(found) <= SENSITIVITY


@pytest.mark.parametrize("position", [0, 100, 4096, 5000])
def test_a_record_adds_the_same_to_the_sum_whatever_the_others_are(position: int) -> None:
    X, y = records(5001, 1)
    vectors, point = FEATURES(X), weights(1)
    without = np.delete(np.arange(5001), position)
    alone = gradient(vectors[[position]], y[[position]], point)
    together, others = gradient(vectors, y, point), gradient(FEATURES(X[without]), y[without], point)
    np.testing.assert_array_equal(together - others, alone)


def test_the_gradient_is_that_of_the_cross_entropy() -> None:
    X, y = records(200, 2)
    vectors, point = FEATURES(X), weights(3) / 10
    logits = vectors / NORM @ point
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    expected = (vectors / NORM).T @ (p - np.eye(4)[y])
    np.testing.assert_allclose(gradient(vectors, y, point) / (NORM * RESIDUAL), expected, atol=0.3)


class Recorded(SimulatedNoise):
    """Keeps the scales and the numbers that it is asked for."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))
        self.asked: list[tuple[float, tuple[int, ...]]] = []

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> np.ndarray:
        self.asked.append((scale, shape))
        return super().discrete_gaussian(scale, shape)


def test_the_noise_of_all_steps_is_what_the_event_says() -> None:
    found, source = labeler(steps=7), Recorded()
    question = Asked(records(400, 4), WIDE_PUBLIC, np.full(300, -1), np.zeros(300, np.int16), np.arange(300))
    event = found.event(question)
    found.answer(question, source)
    assert [shape for _, shape in source.asked] == [(4, 4)] * 7
    told = sum(SENSITIVITY**2 / scale**2 for scale, _ in source.asked)
    assert told == pytest.approx(event.noise_multiplier**-2, rel=1e-12)
    assert all(scale > 2**40 for scale, _ in source.asked)


def test_records_of_another_shape_are_refused_before_anything_is_charged() -> None:
    X, y = records(10, 0)
    nothing = np.full(300, ABSTAIN, dtype=np.int16)
    asked = Asked(Examples(X[:, :2], y), WIDE_PUBLIC, nothing, nothing[:1], np.arange(1))
    with pytest.raises(TrainingError, match="cannot be learned from: examples of shape"):
        labeler().event(asked)
