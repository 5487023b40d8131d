"""The benchmarks of prediction consensus: what they read out of a run, and the polynomials that are no run."""

from statistics import fmean

import numpy as np
import pytest

from benchmarks.consensus_figures import between
from benchmarks.consensus_toys import _GAUSSIANS, consensus_of_polynomials, four_gaussians
from benchmarks.prediction_consensus import ALONE, CONSENSUS, METHODS, SCENARIOS, Length, Matrix, _matrix, measure
from fedct_flwr import datasets
from fedct_flwr.config import RunConfig


def test_every_method_of_every_scenario_is_a_run() -> None:
    for scenario in SCENARIOS.values():
        for method in METHODS.values():
            length = Length(25, 5, 80).settings(method["algorithm"])
            own = {key: value for key, value in method.items() if value != ALONE}
            assert RunConfig.from_flower({**CONSENSUS, **scenario, **own, **length})


def test_a_bad_silo_that_is_alone_stays_bad() -> None:
    datasets.LOADERS["four-gaussians"] = four_gaussians
    found = measure({**_GAUSSIANS, **METHODS["local only"], "seed": 0}, Length(2, 1, 150))
    assert found.accuracy["silo-4"] < 0.25 < 0.7 < found.accuracy["silo-1"]


def test_all_methods_train_for_the_same_rounds() -> None:
    # A silo's first answer comes after all rounds of warm-up.
    soft, hard = (Length(25, 5, 80).settings(name) for name in ("prediction-consensus", "fedct"))
    assert soft["warm-up-rounds"] + soft["num-server-rounds"] - 1 == hard["num-server-rounds"] == 25


def test_silos_stand_in_the_order_of_their_numbers() -> None:
    line = {"round": 3, "silos": ["silo-1", "silo-10", "silo-9"], "matrix": [[1, 2, 3], [4, 5, 6], [7, 8, 9]]}
    matrix = _matrix(line)
    assert matrix == Matrix(3, ["silo-1", "silo-9", "silo-10"], [[1, 3, 2], [7, 9, 8], [4, 6, 5]])
    assert matrix.given(["silo-9"]) == 3 + 9 + 6
    assert between(matrix, ["silo-1"], ["silo-9", "silo-10"]) == 2.5


def test_a_tenth_of_the_labels_of_the_gaussians_is_wrong() -> None:
    dataset = four_gaussians(RunConfig.from_flower({"study": "s", "data": "four-gaussians"}))
    # The class of each quadrant, which two in a hundred leave to each side.
    wrong = [((X[:, 0] > 0) * 2 + (X[:, 1] > 0) != y).mean() for X, y in (silo.private for silo in dataset.silos)]
    assert 0.08 < fmean(map(float, wrong)) < 0.2
    X, y = dataset.test
    assert ((X[:, 0] > 0) * 2 + (X[:, 1] > 0) != y).mean() < 0.07


@pytest.mark.parametrize("seed", [0, 1])
def test_polynomials_agree_on_the_public_points_only(seed: int) -> None:
    # §3.4: the silos' predictions meet where there are public points, and their models stay different.
    alone, together = (consensus_of_polynomials((4, 4, 4), rule, seed) for rule in ("local only", "naive"))
    apart = [np.ptp(found.values, axis=0).max() for found in (alone, together)]
    assert apart[1] < 1.5 < apart[0]
    beyond = np.ptp([model(6.0) for model in together.models])
    assert beyond > 2 * apart[1]


def test_dynamic_trust_spares_the_strong_silos_the_weak_ones_mistakes() -> None:
    # Appendix A.1.
    weak = consensus_of_polynomials((4, 4, 4, 1), "naive", 1), consensus_of_polynomials((4, 4, 4, 1), "dynamic", 1)
    points = np.linspace(-3, 3, 50)
    naive, dynamic = (((found.values[:3] - (points**3 - 3 * points)) ** 2).mean() for found in weak)
    assert dynamic < 0.9 * naive
