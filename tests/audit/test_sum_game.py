"""The game on sums with noise in shares: below the promise where silos keep it, above it where noise is too small."""

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.audit.audit import Audit, How
from fedct_flwr.audit.seats import COORDINATOR
from fedct_flwr.audit.sum_game import FEWEST_PAIRS, SumGame, play_sums
from fedct_flwr.audit.travelled import InSum, Travelled
from fedct_flwr.audit.words import document, page, summary
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.public_set import Query
from fedct_flwr.privacy.tally_shares import VoteShares, shares_for
from fedct_flwr.types import ABSTAIN, ConfigError
from fedct_flwr.wire.content import Instruction, Terms
from tests.audit.test_audit import audited, config

QUERIES, SILOS, HONEST = 20, 4, 3
TERMS = Terms("audited", bytes(32), QUERIES, ("no", "yes"))
NOBODY = np.full(QUERIES, ABSTAIN, dtype=np.int16)


def with_noise_times(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Let silos add other noise than what they charge for."""
    right = VoteShares.share_scale.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(VoteShares, "share_scale", property(lambda self: right(self) * factor))


def run(epsilon: float, **settings: object) -> RunConfig:
    return config(algorithm="dp-pate", secure=True, epsilon=epsilon, **settings)


def asked(settings: RunConfig, honest: int = HONEST) -> InSum:
    """The question of a run, and what a silo counts on."""
    assert settings.method.noise
    scale = shares_for(settings.method.noise, 1, QUERIES, 2, HONEST).scale
    question = Instruction(1, Query(0, QUERIES), NOBODY, summed=True, noise=scale)
    return InSum(question, np.zeros(2 * QUERIES, dtype=np.uint64), honest)


def game(epsilon: float, seed: int = 0, **settings: object) -> SumGame:
    told = run(epsilon, **settings)
    return play_sums(told, TERMS, SILOS, asked(told), seed, seconds=60)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_bound_lies_under_the_promise_of_noise_in_shares(epsilon: float, seed: int) -> None:
    found = game(epsilon, seed)
    assert (found.epsilon, found.honest, found.may_collude, found.sums) == (epsilon, HONEST, 1, 10_000)
    assert not found.broken
    assert found.lower < epsilon
    # The attack is one: it is right more often than by chance.
    assert found.right.low > 0.5


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_quarter_of_the_noise_exceeds_the_promise(epsilon: float, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told = run(epsilon)
    question = asked(told)
    with_noise_times(monkeypatch, 0.25)
    found = play_sums(told, TERMS, SILOS, question, seed, seconds=60)
    assert found.headline.broken
    assert found.profile.broken
    assert found.lower > epsilon


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_half_the_noise_is_always_caught_and_all_of_it_never_accused(
    epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = run(epsilon)
    question = asked(told)

    def games() -> list[SumGame]:
        return [play_sums(told, TERMS, SILOS, question, seed, seconds=0) for seed in range(10)]

    assert not any(found.broken for found in games())
    with_noise_times(monkeypatch, 0.5)
    found = games()
    assert all(one.noise.broken for one in found)
    assert [one.noise.ratio for one in found] == pytest.approx([0.5] * 10, abs=0.1)


def test_shares_for_more_silos_than_are_surely_honest_are_caught() -> None:
    told = run(3.0)
    # As if sixteen silos added noise, of which the smallest sum has three.
    found = play_sums(told, TERMS, SILOS, asked(told, honest=16), 0, seconds=60)
    assert found.noise.ratio == pytest.approx(np.sqrt(3 / 16), abs=0.02)
    assert found.noise.broken


def test_a_question_for_less_noise_than_epsilon_calls_for_is_caught() -> None:
    told = run(1.0)
    question = asked(told)
    little = question._replace(asked=replace(question.asked, noise=question.asked.noise / 4))
    found = play_sums(told, TERMS, SILOS, little, 0, seconds=60)
    assert found.headline.broken
    # Silos add all that they were asked for, which is too little by itself.
    assert not found.noise.broken
    slightly = question._replace(asked=replace(question.asked, noise=question.asked.noise * 0.98))
    found = play_sums(told, TERMS, SILOS, slightly, 0, seconds=0)
    assert not found.noise.broken
    assert found.priced > found.epsilon
    assert found.broken


def test_with_a_gamma_the_promise_follows_from_the_noise() -> None:
    found = game(7.0, gamma=1 / 25)
    shares = VoteShares(25.0, QUERIES, 2, HONEST)
    assert found.epsilon == pytest.approx(shares.price(1e-5).upper)
    assert not found.broken


def test_little_time_draws_fewer_sums_and_refutes_nothing_that_holds() -> None:
    told = run(1.0)
    found = play_sums(told, TERMS, SILOS, asked(told), 0, seconds=0)
    assert found.sums == 2 * FEWEST_PAIRS
    assert not found.broken


def test_a_run_without_noise_has_no_game() -> None:
    told = run(1.0)
    silent = asked(told)._replace(asked=Instruction(1, Query(0, QUERIES), NOBODY, summed=True))
    with pytest.raises(ValueError, match="add no noise"):
        play_sums(told, TERMS, SILOS, silent, 0, seconds=1)


# --- audits of whole runs

L1 = {"algorithm": "fedkt", "privacy_level": "L1", "partitions": 2, "teachers": 2}


def whole(**settings: object) -> Audit:
    return audited(How(refits=2, candidates=60), secure=True, epsilon=3.0, **settings)


@pytest.mark.parametrize("settings", [{"algorithm": "dp-pate"}, L1], ids=["dp-pate", "fedkt"])
def test_runs_with_noisy_sums_are_audited_below_their_promise(
    settings: dict[str, object], wording: SnapshotAssertion
) -> None:
    found = whole(**settings)
    assert found.sums is not None
    assert (found.epsilon, found.sums.epsilon, found.sums.honest) == (3.0, 3.0, 2)
    assert not found.sums.broken
    assert found.lower_epsilon is not None
    assert found.lower_epsilon <= 3.0
    # Of a single silo's votes the coordinator sees nothing.
    assert {"gap", "confidence"} <= set(found.of(COORDINATOR).attacks)
    assert "calibrated" not in found.of(COORDINATOR).attacks
    said = page("audited", found)
    for part in (
        "an epsilon of at most 3 at delta 1e-05", "noise of 2 honest silos", "Secure sums count as unbroken",
    ):  # fmt: skip
        assert part in said, part
    assert [line for line in said.splitlines() if line.startswith("#")] == wording
    assert re.findall(r"the opened sum [^:;.|(]*", said) == wording
    assert "is broken" not in said
    assert document("audited", found)["sums"]["lower_epsilon"] == found.sums.lower


def test_a_run_whose_silos_add_a_quarter_of_the_noise_is_told_to_stop(
    monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    with_noise_times(monkeypatch, 0.25)
    found = whole(algorithm="dp-pate")
    assert found.sums is not None
    assert found.sums.lower > 3.0
    assert re.findall(r"\*\*The promise is [^*]*\*\*", summary(found)) == wording
    assert document("audited", found)["sums"]["broken"] is True


def test_a_run_whose_silos_add_half_the_noise_is_told_to_stop(
    monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    with_noise_times(monkeypatch, 0.5)
    found = whole(algorithm="dp-pate")
    assert found.sums is not None
    assert found.sums.broken
    assert re.findall(r"promise is broken: ([^*]*)\*\*", summary(found)) == wording
    told = document("audited", found)["sums"]["noise"]
    assert told["ratio"] == pytest.approx(0.5, abs=0.05)
    assert told["at_most"] < 1


def test_what_the_coordinators_seat_reads_is_the_sum_that_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refits' secure sums give the coordinator exactly what the silos' kept numbers add up to."""
    from fedct_flwr.coordinator.summing import Sums

    opened: list[NDArray[np.uint64]] = []
    heard: list[Travelled] = []
    begin, sum_ = Travelled.__init__, Sums.sum

    def listening(self: Travelled, *arguments: object) -> None:
        begin(self, *arguments)  # type: ignore[arg-type]
        heard.append(self)

    def kept(self: Sums, *arguments: object) -> object:
        found = sum_(self, *arguments)  # type: ignore[arg-type]
        opened.append(found.of.total)
        return found

    monkeypatch.setattr(Travelled, "__init__", listening)
    monkeypatch.setattr(Sums, "sum", kept)
    whole(algorithm="dp-pate")
    assert len(opened) == len(heard) == 2
    for total, travelled in zip(opened, heard, strict=True):
        added = np.sum([of.in_sums[0].vector for of in travelled.silos.values()], axis=0, dtype=np.uint64)
        np.testing.assert_array_equal(total, added % 2**32)


def test_forged_labels_of_one_silo_are_refused_where_silos_add_noise() -> None:
    with pytest.raises(ConfigError, match="without --forge"):
        audited(How(refits=2, candidates=60, forged=True), algorithm="dp-pate", secure=True)
