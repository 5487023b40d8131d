"""The additive joint labeler of many columns: it chooses some by noisy sums, and no record counts more by that."""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score

from fedct_flwr.datasets.schema import Schema
from fedct_flwr.labelers.joint_linear import JointLinear, plan_for
from fedct_flwr.labelers.public_bins import PublicBins
from fedct_flwr.labelers.public_features import NORM
from fedct_flwr.secure_sum.terms import sum_modulo
from fedct_flwr.types import Examples
from tests.labelers.test_joint_linear import Silent, noises

WIDE: Final = 14
"""Columns of a table, of which two tell the class."""


def wide() -> tuple[JointLinear, list[Examples], Examples]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(5_000, WIDE))
    y = ((np.abs(X[:, 2]) > 0.9) ^ (X[:, 9] > 1)).astype(np.int16)
    schema = Schema.numeric(("a", "b"), tuple(f"c{place}" for place in range(WIDE)))
    plan = plan_for(3_000, 2, epsilon=1.0, delta=1e-5, honest=3, additive_columns=WIDE)
    silos = [Examples(X[i:3_000:4], y[i:3_000:4]) for i in range(4)]
    return JointLinear(plan, X[3_000:4_000], schema, seed=0), silos, Examples(X[4_000:], y[4_000:])


def names_of(found: JointLinear) -> tuple[str, ...]:
    assert isinstance(found.features, PublicBins)
    return found.features.names


def counting(found: JointLinear, weights: NDArray[np.float64]) -> set[str]:
    used = weights[:-1].any(axis=1)
    names = zip(names_of(found), used, strict=False)
    return {name.split(" ")[-3 if " < " in name else 0] for name, one in names if one}


def test_an_additive_labeler_of_many_columns_looks_first_and_then_keeps_those_that_tell() -> None:
    found, silos, test = wide()
    vectors = [found.vectors(own.X) for own in silos]
    progress, seen = found.start, []
    for _ in range(found.plan.steps):
        drawn = zip(vectors, silos, noises(4, progress.step), strict=True)
        summands = [found.summand(own, silo.y, progress.weights, noise) for own, silo, noise in drawn]
        progress = found.step(progress, sum_modulo(summands, 64))
        seen.append(counting(found, progress.weights))
    assert seen[:4] == [set()] * 4
    assert all(len(columns) == 10 for columns in seen[4:])
    assert all({"c2", "c9"} <= columns <= seen[4] for columns in seen[4:])
    assert balanced_accuracy_score(test.y, found.label(found.weights(progress), test.X)) > 0.8


def test_fewer_columns_have_larger_numbers_and_no_record_counts_more_than_claimed() -> None:
    found, silos, _ = wide()
    vectors, y = found.vectors(silos[0].X), silos[0].y
    rng = np.random.default_rng(0)
    lengths = []
    for columns in (1, 3, WIDE):
        names = [f"c{place}" for place in range(columns)]
        mine = np.array([any(name in said.split(" ") for name in names) for said in names_of(found)])
        weights = np.where(mine[:, None], rng.normal(size=found.start.weights.shape), 0.0)
        seen = found.seen(vectors, weights)
        assert not seen[:, :-1][:, ~mine[:-1]].any()
        assert (seen == np.rint(seen)).all()
        lengths.append(float(np.linalg.norm(seen, axis=1).max()))
        for place in range(20):
            one = found.summand(vectors[[place]], y[[place]], weights, Silent()).view(np.int64) / 1.0
            assert np.linalg.norm(one) <= found.noise.sensitivity
    assert all(NORM * 0.999 < length <= NORM for length in lengths)
