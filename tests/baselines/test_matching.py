"""Matched averaging against what can be told by hand, and networks that differ in the order of their neurons alone."""

import math
from itertools import combinations, pairwise, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedct_flwr.baselines.matching import Layer, Prior, costs, match_networks, match_neurons

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


def test_the_cost_of_one_neuron_with_one_global_neuron_is_that_of_the_paper() -> None:
    prior = Prior(silo_variance=0.5, global_variance=2.0, gamma=3.0)
    # One other silo of three has a copy of the global neuron. By hand, with precisions 1/.5 = 2 and 1/2 = .5:
    # |2 * 1 + 2 * 3|^2 / (.5 + 2 + 2) - |2 * 1|^2 / (.5 + 2) + 2 log(1 / (3 - 1)), and alone |2 * 3|^2 / (.5 + 2)
    # + 2 log(3 / 3) - 2 log 1.
    found = costs(np.array([[3.0]]), np.array([[1.0]]), np.array([1.0]), 3, prior)
    np.testing.assert_allclose(found, [[-(64 / 4.5 - 4 / 2.5 + 2 * math.log(1 / 2)), -(36 / 2.5)]])


def test_the_costs_of_two_neurons_with_three_global_ones() -> None:
    neurons, sums = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 3.0]])
    counts = np.array([2.0, 1.0, 3.0])
    found = costs(neurons, sums, counts, 4, Prior(1.0, 1.0, 2.0))
    known = [[9 / 4 - 4 / 3, 2 / 3 - 1 / 2, 25 / 5 - 18 / 4], [8 / 4 - 4 / 3, 9 / 3 - 1 / 2, 34 / 5 - 18 / 4]]
    odds = [2 * math.log(value) for value in (2 / 2, 1 / 3, 3 / 1)]
    new = [[square / 2 + 2 * math.log(2 / 4 / rank) for rank in (1, 2)] for square in (1, 4)]
    np.testing.assert_allclose(found, -np.hstack([np.array(known) + odds, new]))


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


@SHAPES
def test_the_order_of_a_silos_neurons_changes_nothing(widths: tuple[int, ...]) -> None:
    noise = rng(7)
    one = network(1, *widths)
    silos = [
        [Layer(*(value + 0.3 * noise.normal(size=value.shape) for value in layer)) for layer in one] for _ in range(4)
    ]
    prior = Prior(0.2, 1.0, 2.0)
    first = match_networks(silos, prior, rng())
    second = match_networks([permuted(silo, seed) for seed, silo in enumerate(silos)], prior, rng())
    assert [len(layer.biases) for layer in first] == [len(layer.biases) for layer in second]
    np.testing.assert_allclose(outputs(first, EXAMPLES), outputs(second, EXAMPLES), atol=1e-9)


def test_neurons_that_match_nobody_are_kept() -> None:
    shared = rng(1).normal(size=(5, 4))
    own = 20 * np.eye(4)
    silos = [np.vstack([shared, own[:1]]), np.vstack([own[1:3], shared]), shared]
    found = match_neurons(silos, ANYWHERE, rng())
    assert len(found.neurons) == 5 + 3
    for silo, places in zip(silos, found.places, strict=True):
        assert len(set(places)) == len(silo)
        np.testing.assert_allclose(found.neurons[places], silo)


def test_silos_that_share_nothing_are_one_network_that_holds_all_of_them() -> None:
    """Each output is then the sum of the silos' outputs, but for biases, which are averaged."""
    silos = [network(seed, 6, 4, 3) for seed in range(3)]
    found = match_networks(silos, Prior(silo_variance=1e-6, global_variance=math.inf), rng())
    assert [len(layer.biases) for layer in found] == [12, 3]
    biases = [silo[-1].biases for silo in silos]
    expected = sum(outputs(silo, EXAMPLES) for silo in silos) - np.sum(biases, axis=0) + np.mean(biases, axis=0)
    np.testing.assert_allclose(outputs(found, EXAMPLES), expected)


def test_silos_may_differ_in_width() -> None:
    one = network(1, 6, 8, 3)
    narrow = [Layer(one[0].weights[5:], one[0].biases[5:]), Layer(one[1].weights[:, 5:], one[1].biases)]
    found = match_networks([narrow, permuted(one, 2)], ANYWHERE, rng())
    np.testing.assert_allclose(outputs(found, EXAMPLES), outputs(one, EXAMPLES), atol=1e-9)


def test_a_global_neuron_is_drawn_to_zero_as_the_prior_says() -> None:
    copies = [np.array([[1.0, 5.0]]), np.array([[3.0, 5.0]])]
    found = match_neurons(copies, Prior(silo_variance=2.0, global_variance=4.0, gamma=1e-9), rng())
    np.testing.assert_allclose(found.neurons, [[4 / 2.5, 10 / 2.5]])
    assert [places.tolist() for places in found.places] == [[0], [0]]


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    gamma=st.sampled_from([1e-3, 1.0, 50.0]),
    variance=st.sampled_from([0.01, 1.0]),
    seed=st.integers(0, 99),
)
def test_global_neurons_are_those_that_some_silo_has(
    sizes: list[int], gamma: float, variance: float, seed: int
) -> None:
    draw = rng(seed)
    silos = [draw.normal(size=(size, 3)) for size in sizes]
    prior = Prior(variance, 1.0, gamma)
    found = match_neurons(silos, prior, draw)
    assert all(len(set(own)) == len(own) == size for own, size in zip(found.places, sizes, strict=True))
    copies = np.bincount(np.concatenate(found.places), minlength=len(found.neurons))
    assert copies.min() >= 1
    sums = np.zeros_like(found.neurons)
    for silo, own in zip(silos, found.places, strict=True):
        sums[own] += silo
    np.testing.assert_allclose(found.neurons, sums / (copies + prior.zeros)[:, None], atol=1e-9)


def test_more_expected_neurons_and_less_variance_make_wider_networks() -> None:
    silos = [network(seed, 6, 8, 3) for seed in range(4)]

    def width(**prior: float) -> int:
        return len(match_networks(silos, Prior(**prior), rng())[0].biases)

    assert 8 <= width(gamma=1e-6) < width(gamma=1.0) < width(gamma=100.0) == 32
    assert width(silo_variance=100.0) == 8
    assert width(silo_variance=1e-4) == 32


def test_a_network_without_hidden_neurons_has_nothing_to_match() -> None:
    with pytest.raises(ValueError, match="without a hidden layer"):
        match_networks([network(0, 6, 3)], Prior(), rng())
