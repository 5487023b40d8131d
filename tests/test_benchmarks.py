"""The benchmarks' own tools. What they measure is not tested here."""

import math
import re
from itertools import combinations, pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import fedkt, report
from benchmarks.__main__ import EXPERIMENTS as COMMANDS
from benchmarks.__main__ import function
from benchmarks.experiments import EXPERIMENTS
from benchmarks.no_harm import Silos
from benchmarks.pfnm import Layer, Prior, costs, match_networks
from tests.blocks import PAGES
from tests.readme import ROOT


def test_every_experiment_is_a_command_that_is_there() -> None:
    assert set(EXPERIMENTS) < set(COMMANDS)
    assert all(callable(function(name)) for name in COMMANDS)


def test_tables_of_results_in_pages_are_those_committed() -> None:
    tables = [
        found
        for page in PAGES
        for found in re.findall(r"<!-- (benchmarks/results/\S+) -->\n(.*?)\n\n", page.read_text("utf-8"), re.DOTALL)
    ]
    assert tables
    for path, table in tables:
        assert table in (ROOT / path).read_text("utf-8")


def test_one_gpu_is_measured_as_far_as_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "gpu", "--fast"])
    monkeypatch.setattr("benchmarks.gpu._DEVICES", ("cpu",))
    report.place(tmp_path)
    function("gpu")(1, True)
    lines = (tmp_path / "gpu-fast.md").read_text("utf-8").splitlines()
    rows = {
        cells[1].strip(): [cell.strip() for cell in cells[2:-1]] for line in lines if (cells := line.split("|"))[1:]
    }
    nothing = "not measured: no GPU"
    assert float(rows["MLP 784-512-512-10, batch 16"][0]) > 0 < float(rows["MLP 784-512-512-10, batch 16"][2])
    assert float(rows["2 silos"][1]) > 0
    for name in ("networks", "DP-SGD, epsilon 8", "images", "XGBoost"):
        assert rows[name][1:4] == [nothing] * 3
        assert float(rows[name][0]) > 0
        assert 0 <= float(rows[name][4]) <= 1


@pytest.mark.parametrize("guarded", [True, False])
def test_the_default_is_judged_on_silos_of_their_own(guarded: bool) -> None:
    scores = Silos("heart-disease", "naive-bayes", {}, seed=0).cotrained(guarded=guarded, rounds=2)
    assert {name: len(values) for name, values in scores.items() if name != "verdicts"} == dict.fromkeys(
        ("alone_own", "together_own", "alone_pooled", "together_pooled"), 4
    )
    assert all(0 < value < 1 for value in scores["together_pooled"])


@pytest.mark.parametrize(
    ("gamma", "queries", "orders", "published"),
    [(0.04, 74, 8, 3.54), (0.05, 148, 8, 6.58), (0.06, 81, 8, 5.79), (0.04, 40, 32, 2.56)],
)
def test_fedkts_own_accountant_gives_the_papers_table_9(
    gamma: float, queries: int, orders: int, published: float
) -> None:
    assert fedkt.moments_epsilon(gamma, queries, orders=orders) == pytest.approx(published, abs=0.0051)


# --- matching of neurons


Array = NDArray[Any]

ANYWHERE = Prior(silo_variance=0.01, global_variance=math.inf)
"""Global neurons are plain means of their copies, which are close to each other."""


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def network(seed: int, *widths: int) -> list[Layer]:
    draw = rng(seed)
    return [Layer(draw.normal(size=(out, into)), draw.normal(size=out)) for into, out in pairwise(widths)]


def permuted(layers: list[Layer], seed: int) -> list[Layer]:
    """The same function of its input, its hidden neurons in another order."""
    draw, found, before = rng(seed), [], np.arange(layers[0].weights.shape[1])
    for number, (weights, biases) in enumerate(layers):
        last = number == len(layers) - 1
        order = np.arange(len(biases)) if last else draw.permutation(len(biases))
        found.append(Layer(weights[order][:, before], biases[order]))
        before = order
    return found


def outputs(layers: list[Layer], X: Array) -> Array:
    for weights, biases in layers[:-1]:
        X = np.maximum(X @ weights.T + biases, 0)
    return X @ layers[-1].weights.T + layers[-1].biases


EXAMPLES = rng(99).normal(size=(50, 6))
SHAPES = pytest.mark.parametrize("widths", [(6, 8, 3), (6, 8, 5, 3), (6, 4, 7, 5, 3)])


def test_costs_are_the_fall_of_the_posterior_up_to_what_all_assignments_share() -> None:
    """Over all assignments of a silo with two neurons to what two others have, by the model's densities themselves."""
    prior, num_silos = Prior(0.4, 1.5, 0.7), 3
    draw = rng(5)
    neurons, others = draw.normal(size=(2, 3)), [[draw.normal(size=3) for _ in range(n)] for n in (2, 1)]
    sums, counts = np.array([np.sum(copies, axis=0) for copies in others]), np.array([2.0, 1.0])
    cost = costs(neurons, sums, counts, num_silos, prior)

    def density(copies: list[Array]) -> float:
        """Of a global neuron at its most probable value and its copies, without what normalizes."""
        mean = np.sum(copies, axis=0) / prior.silo_variance / (len(copies) / prior.silo_variance + 1 / 1.5)
        apart = sum(float(((copy - mean) ** 2).sum()) for copy in copies)
        return -apart / 2 / prior.silo_variance - float((mean**2).sum()) / 2 / 1.5

    def posterior(chosen: tuple[int, ...]) -> float:
        total = 0.0
        for place, copies in enumerate(others):
            mine = [neurons[n] for n, where in enumerate(chosen) if where == place]
            # The share of the other silos that have it, as a new silo in an Indian buffet sees it.
            total += math.log(counts[place] / num_silos if mine else 1 - counts[place] / num_silos)
            total += density([*copies, *mine])
        new = [neurons[n] for n, where in enumerate(chosen) if where >= len(others)]
        rate = prior.gamma / num_silos
        return (
            total + sum(density([one]) for one in new) + len(new) * math.log(rate) - math.log(math.factorial(len(new)))
        )

    # Of the columns of new neurons the first are taken first.
    choices = [c for c in permutations(range(4), 2) if 3 not in c or 2 in c]
    falls = [-2 * posterior(choice) for choice in choices]
    found = [cost[[0, 1], list(choice)].sum() for choice in choices]
    assert len(choices) == 8
    for one, other in combinations(range(8), 2):
        assert found[one] - found[other] == pytest.approx(falls[one] - falls[other])


@SHAPES
def test_networks_that_differ_in_the_order_of_their_neurons_give_back_that_network(widths: tuple[int, ...]) -> None:
    one = network(1, *widths)
    silos = [permuted(one, seed) for seed in (2, 3, 4)]
    assert not np.allclose(silos[0][0].weights, silos[1][0].weights)
    found = match_networks(silos, ANYWHERE, rng())
    assert [layer.weights.shape for layer in found] == [layer.weights.shape for layer in one]
    np.testing.assert_allclose(outputs(found, EXAMPLES), outputs(one, EXAMPLES), atol=1e-9)
    # As a plain mean does not.
    plain = [
        Layer(*(np.mean(values, axis=0) for values in zip(*layers, strict=True))) for layers in zip(*silos, strict=True)
    ]
    assert np.abs(outputs(plain, EXAMPLES) - outputs(one, EXAMPLES)).max() > 1


def test_silos_may_differ_in_width() -> None:
    one = network(1, 6, 8, 3)
    narrow = [Layer(one[0].weights[5:], one[0].biases[5:]), Layer(one[1].weights[:, 5:], one[1].biases)]
    found = match_networks([narrow, permuted(one, 2)], ANYWHERE, rng())
    np.testing.assert_allclose(outputs(found, EXAMPLES), outputs(one, EXAMPLES), atol=1e-9)
