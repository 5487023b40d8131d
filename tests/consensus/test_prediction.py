"""One target for each silo: exact on a few examples, and nobody's trust is lost while it is away."""

from typing import Any

import numpy as np
import pytest

from fedct_flwr.consensus.counting import Ballot, Consensus, State
from fedct_flwr.consensus.prediction import (
    TRUSTS,
    consensus_of_values,
    prediction_consensus,
    similarity,
    similarity_of_values,
    targets_of,
)
from fedct_flwr.types import ABSTAIN, HardLabels

every_rule = pytest.mark.parametrize("trust", TRUSTS)
SURE = {
    "a": [[1, 0], [1, 0], [0, 1]],
    "b": [[1, 0], [1, 0], [1, 0]],
    "c": [[0, 1], [1, 0], [0, 1]],
}


def rule(trust: str) -> Consensus:
    return prediction_consensus(2, TRUSTS[trust]())


def ballots(votes: dict[str, Any]) -> list[Ballot]:
    return [(silo, np.float32(rows)) for silo, rows in votes.items()]


def after(consensus: Consensus, *rounds: dict[str, Any]) -> tuple[HardLabels, State]:
    """Labels and state after silos voted so."""
    state = consensus.init(["a", "b", "c"])
    labels = np.full(3, ABSTAIN, dtype=np.int16)
    for votes in rounds:
        labels, state = consensus.apply(ballots(votes), labels, state, np.random.default_rng(0))
    return labels, state


def target(consensus: Consensus, state: State, silo: str) -> np.ndarray | None:
    assert consensus.targets is not None
    return consensus.targets(state, silo)


def matrix(consensus: Consensus, state: State) -> list[list[float]]:
    assert consensus.trust is not None
    return consensus.trust(state).matrix.tolist()


def test_naive_trust_is_the_mean_for_everybody() -> None:
    labels, state = after(consensus := rule("naive"), SURE)
    assert labels.tolist() == [0, 0, 1]
    for silo in SURE:
        np.testing.assert_allclose(target(consensus, state, silo), [[2 / 3, 1 / 3], [1, 0], [1 / 3, 2 / 3]], rtol=1e-6)


@pytest.mark.parametrize("trust", ["static", "dynamic"])
def test_a_silo_learns_what_it_trusts(trust: str) -> None:
    # All are sure: similarities are shares of equal votes, 1 and 2/3 for a and b, 1/3 for b and c.
    _, state = after(consensus := rule(trust), SURE)
    expected = np.array([[3, 2, 2], [2, 3, 1], [2, 1, 3]]) / [[7], [6], [6]]
    np.testing.assert_allclose(matrix(consensus, state), expected, rtol=1e-5)
    votes = np.float32([SURE[silo] for silo in "abc"])
    for silo, psi in zip("abc", targets_of(expected, votes), strict=True):
        np.testing.assert_allclose(target(consensus, state, silo), psi, rtol=1e-5)
    assert consensus.report(state)["a"] == {"trust": round(3 / 7 + 2 / 6 + 2 / 6, 4)}


@every_rule
def test_a_silo_that_leaves_takes_its_row_and_column_with_it_and_brings_them_back(trust: str) -> None:
    consensus = rule(trust)
    without_c = {silo: rows for silo, rows in SURE.items() if silo != "c"}
    _, state = after(consensus, SURE, without_c)
    assert consensus.trust is not None
    told = consensus.trust(state)
    assert list(told.silos) == ["a", "b"]
    np.testing.assert_allclose(told.matrix.sum(axis=1), 1)
    # What it learns when it is back is made of the others alone, by the trust that it had in them: 2 to 1.
    share = 1 / 2 if trust == "naive" else 2 / 3
    mixed = share * np.array(SURE["a"]) + (1 - share) * np.array(SURE["b"])
    np.testing.assert_allclose(target(consensus, state, "c"), mixed, rtol=1e-5)
    _, back = after(consensus, SURE, without_c, SURE)
    assert matrix(consensus, back) == matrix(consensus, after(consensus, SURE)[1])


@every_rule
def test_a_silo_that_was_never_there_has_no_target_yet(trust: str) -> None:
    without_c = {silo: rows for silo, rows in SURE.items() if silo != "c"}
    consensus = rule(trust)
    assert target(consensus, consensus.init(["a"]), "a") is None
    _, state = after(consensus, without_c)
    assert target(consensus, state, "c") is None
    _, state = after(consensus, without_c, SURE)
    assert target(consensus, state, "c") is not None


def test_a_silo_trusts_one_that_it_never_met_as_much_as_the_others() -> None:
    # d comes while c is away: c, back for its target, has not voted beside d.
    consensus = rule("static")
    _, state = after(consensus, SURE, {"a": SURE["a"], "b": SURE["b"], "d": [[0, 1]] * 3})
    shares = np.array([2, 1, 1.5]) / 4.5
    mixed = np.tensordot(shares, np.array([SURE["a"], SURE["b"], [[0, 1]] * 3]), axes=1)
    np.testing.assert_allclose(target(consensus, state, "c"), mixed, rtol=1e-5)


@every_rule
def test_trust_found_in_rounds_of_different_sizes_is_on_one_scale(trust: str) -> None:
    # a meets b among two silos and c and d among three, and learns from b, c and d when it comes back.
    votes = {silo: [[1 - share, share]] * 3 for silo, share in zip("abcd", (0, 0.2, 0.5, 0.9), strict=True)}
    rounds = [{silo: votes[silo] for silo in silos} for silos in ("ab", "acd", "bcd")]
    _, state = after(consensus := rule(trust), *rounds)
    p = np.array(list(votes.values()))
    weights = np.ones(3) if trust == "naive" else similarity(np.float32(p))[0, 1:]
    expected = np.tensordot(weights / weights.sum(), p[1:], axes=1)
    np.testing.assert_allclose(target(consensus, state, "a"), expected, rtol=1e-5)


VALUES = {"a": [[0], [2], [4]], "b": [[0], [2], [4]], "c": [[1], [3], [7]]}


@pytest.mark.parametrize("trust", [trust for trust in TRUSTS if trust != "naive"])
def test_values_are_mixed_by_trust_and_all_share_the_mean_of_the_targets(trust: str) -> None:
    consensus = consensus_of_values(TRUSTS[trust](similarity_of_values))
    # The squared distance of c is (1 + 1 + 9) / 3, the median variance that of 0, 2, 4, which is 8/3.
    far = 1 / (1 + (11 / 3) / (8 / 3))
    near, of_c = far / (2 + far), 1 / (1 + 2 * far)
    expected = {"a": near, "b": near, "c": of_c}
    values, state = after(consensus, VALUES)
    nearer, farther = np.array(VALUES["a"]), np.array(VALUES["c"])
    for silo, weight in expected.items():
        np.testing.assert_allclose(target(consensus, state, silo), nearer + weight * (farther - nearer), rtol=1e-6)
    mean = sum(expected.values()) / 3
    np.testing.assert_allclose(values, (nearer + mean * (farther - nearer))[:, 0], rtol=1e-6)
    assert values.dtype == np.float32


@pytest.mark.parametrize("lie", [7, 1000, -1e30])
def test_where_all_silos_count_the_same_one_of_them_moves_no_value_beyond_the_others(lie: float) -> None:
    consensus = consensus_of_values(TRUSTS["naive"](similarity_of_values))
    honest = {"a": [[0], [2]], "b": [[1], [2]], "c": [[2], [4]]}
    values, state = after(consensus, {**honest, "liar": [[lie], [lie]]})
    expected = [1.5, 3.0] if lie > 0 else [0.5, 2.0]
    np.testing.assert_allclose(values, expected)
    np.testing.assert_allclose(target(consensus, state, "a")[:, 0], expected)
