"""Trust from probabilities: golden numbers on three silos, invariants, who leaves and comes back, bad input."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedct_flwr.consensus.prediction import (
    TRUSTS,
    TrustRule,
    check_probabilities,
    dynamic,
    naive,
    similarity,
    similarity_of_values,
    static,
    targets_of,
    trust,
    uniform,
)
from fedct_flwr.types import DataError, SoftVotes

LN2 = float(np.log(2))
SURE, UNSURE = [1.0, 0.0], [0.5, 0.5]
THREE = np.array([[SURE], [UNSURE], [[0.0, 1.0]]], dtype=np.float32)


def drawn(silos: int, examples: int, classes: int, seed: int, sharpness: float = 1.0) -> SoftVotes:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(classes, sharpness), (silos, examples)).astype(np.float32)


def as_the_paper_writes_it(votes: SoftVotes) -> NDArray[np.float64]:
    """A loop over silos and examples, in double precision."""
    p = votes.astype(np.float64)
    found = np.zeros((len(p), len(p)))
    for x in range(p.shape[1]):
        for i, own in enumerate(p[:, x]):
            entropy = -sum(value * np.log(value) for value in own if value > 0)
            for j, other in enumerate(p[:, x]):
                cosine = own @ other / (np.linalg.norm(own) * np.linalg.norm(other))
                found[i, j] += cosine / (1 + entropy)
    return found / p.shape[1]


@st.composite
def ballots(draw: st.DrawFn) -> SoftVotes:
    shape = [draw(st.integers(least, most)) for least, most in ((1, 6), (1, 9), (2, 5))]
    sharpness = draw(st.sampled_from([0.01, 0.3, 1.0, 30.0]))
    return drawn(*shape, seed=draw(st.integers(0, 999)), sharpness=sharpness)


class TestSimilarity:
    def test_golden(self) -> None:
        # Entropy of the unsure is ln 2, and its cosine with each of the others 1 / sqrt 2.
        half = 0.5**0.5
        expected = [[1, half, 0], [half / (1 + LN2), 1 / (1 + LN2), half / (1 + LN2)], [0, half, 1]]
        np.testing.assert_allclose(similarity(THREE), expected, rtol=1e-6)

    @pytest.mark.parametrize("sharpness", [0.02, 1.0, 50.0])
    def test_single_precision_and_blocks_change_nothing_that_matters(self, sharpness: float) -> None:
        votes = drawn(7, 300, 10, seed=1, sharpness=sharpness)
        np.testing.assert_allclose(similarity(votes), as_the_paper_writes_it(votes), rtol=2e-6)
        # More examples than a block has.
        long = np.tile(votes, (1, 20, 1))
        np.testing.assert_allclose(similarity(long), similarity(votes), rtol=1e-6)

    @settings(max_examples=50, deadline=None)
    @given(ballots())
    def test_trust_is_row_stochastic_and_self_confident(self, votes: SoftVotes) -> None:
        matrix = trust(similarity(votes))
        assert (matrix >= 0).all()
        np.testing.assert_allclose(matrix.sum(axis=1), 1)
        assert (matrix.diagonal() >= matrix.max(axis=1) - 1e-6).all()

    @pytest.mark.parametrize(
        "wrong",
        [[0.5, 0.4], [np.nan, 1.0], [np.inf, 0.0], [1.5, -0.5], [0.0, 0.0]],
        ids=["sum", "nan", "infinite", "negative", "nothing"],
    )
    @pytest.mark.parametrize("function", [similarity, check_probabilities])
    def test_what_are_no_probabilities_are_one_clear_error(
        self, wrong: list[float], function: Callable[[SoftVotes], Any]
    ) -> None:
        votes = drawn(3, 200, 2, seed=0)
        function(votes)
        votes[1, 117] = wrong
        with pytest.raises(DataError, match=r"must be numbers in 0..1 that sum to 1 for each example"):
            function(votes)

    def test_needs_an_example(self) -> None:
        with pytest.raises(DataError, match="no examples to compare"):
            similarity(np.empty((3, 0, 2), np.float32))


class TestTrust:
    def test_who_is_surer_counts_where_it_is_sure(self) -> None:
        # Silo 0 is sure of the first example, where 1 agrees, and guesses at the second, where 2 does.
        votes = np.array([[SURE, [0.6, 0.4]], [SURE, [0.0, 1.0]], [[0.0, 1.0], [0.6, 0.4]]], dtype=np.float32)
        matrix = trust(similarity(votes))
        assert matrix[0, 1] > matrix[0, 2]

    def test_silos_that_all_disagree_trust_themselves(self) -> None:
        everybody_else = np.eye(5, dtype=np.float32)[:, None, :].repeat(4, axis=1)
        np.testing.assert_allclose(trust(similarity(everybody_else)), np.eye(5), atol=1e-6)

    def test_silos_that_agree_trust_all_the_same(self) -> None:
        # Claim 3.
        same = drawn(1, 30, 4, seed=2).repeat(4, axis=0)
        np.testing.assert_allclose(trust(similarity(same)), uniform(4), rtol=1e-6)

    def test_a_bad_silo_has_the_lowest_column(self) -> None:
        truth = np.eye(4, dtype=np.float32)[np.arange(80) % 4]
        good = 0.8 * truth + 0.2 * drawn(5, 80, 4, seed=3)
        bad = 0.8 * np.roll(truth, 1, axis=1) + 0.2 * drawn(1, 80, 4, seed=4)
        matrix = trust(similarity(np.concatenate([good, bad])))
        assert matrix.sum(axis=0).argmin() == 5
        # It trusts itself, so its column is not empty; the good ones give it little.
        assert matrix[:5, 5].max() < matrix[:5, :5].min() / 2


class TestTargets:
    def test_golden(self) -> None:
        weights = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]])
        expected = [[[0.75, 0.25]], [[0.5, 0.5]], [[0.375, 0.625]]]
        np.testing.assert_allclose(targets_of(weights, THREE), expected)

    def test_naive_ones_are_the_mean(self) -> None:
        votes = drawn(5, 20, 3, seed=0)
        found = targets_of(uniform(5), votes)
        np.testing.assert_allclose(found, votes.mean(axis=0, keepdims=True).repeat(5, axis=0), rtol=1e-5)
        assert found.dtype == np.float32

    def test_of_values(self) -> None:
        np.testing.assert_allclose(targets_of(uniform(2), np.array([[1.0, 2.0], [3.0, 6.0]])), [[2, 4], [2, 4]])


class TestRegression:
    VALUES = np.array([[0.0, 2.0, 4.0], [0.0, 2.0, 4.0], [1.0, 1.0, 1.0]])

    def test_golden(self) -> None:
        # Squared distances of the third: (1 + 1 + 9) / 3; the median variance is that of 0, 2, 4: 8/3.
        far = 1 / (1 + (11 / 3) / (8 / 3))
        np.testing.assert_allclose(similarity_of_values(self.VALUES), [[1, 1, far], [1, 1, far], [far, far, 1]])

    def test_has_no_unit(self) -> None:
        np.testing.assert_allclose(similarity_of_values(1000 * self.VALUES + 7), similarity_of_values(self.VALUES))

    def test_one_silo_far_off_does_not_make_the_others_alike(self) -> None:
        wild = np.concatenate([self.VALUES, [[1e6, -1e6, 1e6]]])
        matrix = trust(similarity_of_values(wild))
        np.testing.assert_allclose(matrix[:3, 3], 0, atol=1e-9)
        assert matrix[0, 2] < matrix[0, 1] * 0.9

    @pytest.mark.parametrize("values", [np.array([[1.0, np.nan]]), np.array([[np.inf]]), np.empty((2, 0))])
    def test_bad_values(self, values: NDArray[np.float64]) -> None:
        with pytest.raises(DataError, match="must be finite numbers"):
            similarity_of_values(values)


class TestRules:
    ROUNDS = tuple(drawn(3, 40, 4, seed=seed, sharpness=0.3) for seed in range(4))
    ALL = ("a", "b", "c")

    @pytest.mark.parametrize("name", TRUSTS)
    def test_alone_a_silo_trusts_itself(self, name: str) -> None:
        rule = TRUSTS[name]()
        assert rule.apply(["a"], self.ROUNDS[0][:1], rule.init())[0].tolist() == [[1.0]]

    def test_naive(self) -> None:
        np.testing.assert_array_equal(naive().apply(self.ALL, self.ROUNDS[0], {})[0], uniform(3))

    def test_dynamic_is_that_of_each_round(self) -> None:
        for votes in self.ROUNDS:
            np.testing.assert_array_equal(dynamic().apply(self.ALL, votes, {})[0], trust(similarity(votes)))

    def test_static_is_that_of_the_first_round(self) -> None:
        rule, state = static(), static().init()
        for votes in self.ROUNDS:
            matrix, state = rule.apply(self.ALL, votes, state)
            np.testing.assert_array_equal(matrix, trust(similarity(self.ROUNDS[0])))

    @pytest.mark.parametrize("rule", [static(), dynamic(), naive()], ids=["static", "dynamic", "naive"])
    def test_names_decide_not_places(self, rule: TrustRule) -> None:
        first, state = rule.apply(self.ALL, self.ROUNDS[0], rule.init())
        other, _ = rule.apply(["c", "a", "b"], self.ROUNDS[0][[2, 0, 1]], state)
        np.testing.assert_allclose(other, first[np.ix_([2, 0, 1], [2, 0, 1])])
