"""Tally and decide: golden numbers on three-element inputs, invariants, and how ties are broken."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator

from fedct_flwr.consensus.counting import (
    Consensus,
    consistent,
    counting,
    plurality,
    qualified,
    tally,
    unanimous,
)
from fedct_flwr.consensus.dawid_skene import dawid_skene
from fedct_flwr.consensus.label_matrix import agreed, counts_agreed
from fedct_flwr.runs.run_folder import Checkpoint, RunFolder
from fedct_flwr.types import ABSTAIN, HardLabels, VoteCounts

NOBODY = np.full(3, ABSTAIN, dtype=np.int16)
DECISIONS = {"plurality": plurality, "qualified": partial(qualified, quorum=0.6)}


@pytest.fixture
def rng() -> Generator:
    return np.random.default_rng(0)


def naive_tally(votes: np.ndarray, num_classes: int) -> np.ndarray:
    return np.stack([np.bincount(column[column != ABSTAIN], minlength=num_classes) for column in votes.T])


@st.composite
def ballot_boxes(draw: st.DrawFn, max_silos: int = 12) -> tuple[np.ndarray, int]:
    """Votes ``(silos, examples)`` and the number of classes."""
    num_classes = draw(st.integers(2, 5))
    shape = draw(st.integers(1, max_silos)), draw(st.integers(1, 6))
    seed = draw(st.integers(0, 2**32 - 1))
    return np.random.default_rng(seed).integers(ABSTAIN, num_classes, shape).astype(np.int16), num_classes


class TestTally:
    def test_three_silos_on_three_examples(self):
        votes = [np.int16([0, 2, -1]), np.int16([0, 1, -1]), np.int16([1, 2, 2])]
        counts = tally(votes, num_examples=3, num_classes=3)
        assert counts.dtype == np.int32
        assert counts.tolist() == [[2, 1, 0], [0, 1, 2], [0, 0, 1]]

    @given(ballot_boxes(max_silos=800))
    @settings(max_examples=40)
    def test_equals_a_count_of_each_example(self, box: tuple[np.ndarray, int]):
        votes, num_classes = box
        assert (tally(iter(votes), votes.shape[1], num_classes) == naive_tally(votes, num_classes)).all()


class TestPlurality:
    def test_three_examples(self, rng: Generator):
        labels = plurality(np.int32([[2, 1, 0], [0, 0, 0], [1, 0, 4]]), NOBODY, rng)
        assert labels.dtype == np.int16
        assert labels.tolist() == [0, ABSTAIN, 2]

    def test_a_tie_keeps_the_incumbent_that_is_among_the_leaders(self, rng: Generator):
        counts = np.int32([[2, 2, 1]] * 2 + [[3, 3, 3]])
        assert plurality(counts, np.int16([0, 1, 2]), rng).tolist() == [0, 1, 2]

    def test_an_incumbent_without_any_vote_abstains(self, rng: Generator):
        assert plurality(np.zeros((3, 2), np.int32), np.int16([0, 1, 1]), rng).tolist() == [ABSTAIN] * 3

    @pytest.mark.parametrize("incumbent", [ABSTAIN, 1])
    def test_leaders_without_incumbent_draw_lots_evenly(self, incumbent: int, rng: Generator):
        trials, leaders = 30_000, [0, 2, 3]
        counts = np.tile(np.int32([4, 1, 4, 4]), (trials, 1))
        drawn = np.bincount(plurality(counts, np.full(trials, incumbent, np.int16), rng), minlength=4)
        assert drawn[1] == 0
        # Exact: under fair lots the chance of a count outside is below 2e-6 (binomial, n = 30 000, p = 1/3).
        assert all(9_590 <= drawn[c] <= 10_410 for c in leaders)

    @given(ballot_boxes())
    def test_what_was_decided_stays_if_the_same_votes_come_again(self, box: tuple[np.ndarray, int]):
        votes, num_classes = box
        counts = naive_tally(votes, num_classes).astype(np.int32)
        first = plurality(counts, np.full(len(counts), ABSTAIN, np.int16), np.random.default_rng(0))
        assert (plurality(counts, first, np.random.default_rng(1)) == first).all()


class TestQualified:
    def test_three_examples(self, rng: Generator):
        counts = np.int32([[9, 1], [89, 11], [0, 1]])
        labels = qualified(counts, NOBODY, rng, quorum=0.9)
        assert labels.dtype == np.int16
        assert labels.tolist() == [0, ABSTAIN, 1]

    @pytest.mark.parametrize("voters", range(1, 51))
    def test_a_share_equal_to_the_quorum_is_enough(self, voters: int, rng: Generator):
        """All k of n, with the other n - k votes spread over classes of their own."""
        for k in range(1, voters + 1):
            counts = np.int32([[k] + [1] * (voters - k)])
            assert qualified(counts, NOBODY[:1], rng, quorum=k / voters) != ABSTAIN

    @pytest.mark.parametrize("voters", range(2, 51))
    def test_one_vote_less_than_the_quorum_is_not_enough(self, voters: int, rng: Generator):
        for k in range(2, voters + 1):
            counts = np.int32([[k - 1] + [1] * (voters - k + 1)])
            assert qualified(counts, NOBODY[:1], rng, quorum=k / voters) == ABSTAIN

    def test_abstaining_silos_are_not_counted_as_voters(self, rng: Generator):
        votes = [np.int16([1]), np.int16([ABSTAIN]), np.int16([ABSTAIN])]
        assert qualified(tally(votes, 1, 2), NOBODY[:1], rng, quorum=1.0).tolist() == [1]


def decided(apply: Callable, votes: np.ndarray) -> HardLabels:
    ballots = ((f"silo-{number}", vote) for number, vote in enumerate(votes))
    labels, _ = apply(ballots, np.full(votes.shape[1], ABSTAIN, np.int16), {}, np.random.default_rng(0))
    return labels


RULES: dict[str, Callable[[int], Consensus]] = {
    **{name: partial(counting, decide=decide) for name, decide in DECISIONS.items()},
    "dawid-skene": dawid_skene,
}
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))


def two_rounds(consensus: Consensus, votes: np.ndarray, names: list[str]) -> list[np.ndarray]:
    """The labels of a first round, and of a second in which all silos but the last vote the other way round."""
    state, labels = consensus.init(names), np.full(votes.shape[1], ABSTAIN, np.int16)
    found = []
    by_name = sorted(zip(names, votes, strict=True), key=lambda ballot: ballot[0])
    for ballots in (zip(names, votes, strict=True), ((name, vote[::-1]) for name, vote in by_name[:-1])):
        labels, state = consensus.apply(ballots, labels, state, np.random.default_rng(0))
        found.append(labels)
    return found


class TestEveryRule:
    """What holds of counts must hold of rules that know their silos."""

    @every_rule
    @given(ballot_boxes(), st.randoms(use_true_random=False))
    @settings(max_examples=50)
    def test_permuting_silos_changes_nothing_in_any_round(
        self, rule: Callable[[int], Consensus], box: tuple[np.ndarray, int], random
    ):
        votes, num_classes = box
        names = [f"silo-{number}" for number in range(len(votes))]
        order = random.sample(range(len(votes)), len(votes))
        there = two_rounds(rule(num_classes), votes, names)
        here = two_rounds(rule(num_classes), votes[order], [names[number] for number in order])
        np.testing.assert_array_equal(there, here)

    @every_rule
    @given(ballot_boxes())
    @settings(max_examples=50)
    def test_where_all_votes_cast_agree_the_label_is_theirs(
        self, rule: Callable[[int], Consensus], box: tuple[np.ndarray, int]
    ):
        votes, num_classes = box
        labels = decided(rule(num_classes).apply, votes)
        for column, label in zip(votes.T, labels, strict=True):
            cast = set(column[column != ABSTAIN].tolist())
            assert len(cast) > 1 or {int(label)} == (cast or {ABSTAIN})

    @every_rule
    @given(ballot_boxes(), st.integers(0, 20))
    @settings(max_examples=50)
    def test_abstentions_never_count(self, rule: Callable[[int], Consensus], box: tuple[np.ndarray, int], idle: int):
        votes, num_classes = box
        with_idle = np.vstack([votes, np.full((idle, votes.shape[1]), ABSTAIN, np.int16)])
        apply = rule(num_classes).apply
        np.testing.assert_array_equal(decided(apply, votes), decided(apply, with_idle))

    @every_rule
    def test_the_state_can_be_kept_in_a_checkpoint_and_reports_are_json(
        self, rule: Callable[[int], Consensus], tmp_path: Path
    ):
        consensus = rule(3)
        votes = np.random.default_rng(0).integers(0, 3, (4, 50)).astype(np.int16)
        ballots = [(f"silo-{number}", vote) for number, vote in enumerate(votes)]
        labels, state = consensus.apply(ballots, NOBODY.repeat(50)[:50], consensus.init([]), np.random.default_rng(0))
        folder = RunFolder.create(tmp_path / "run", {}, {})
        folder.save_checkpoint(Checkpoint(1, labels, state))
        back = folder.load_checkpoint().state
        assert consensus.report(back) == consensus.report(state) == json.loads(json.dumps(consensus.report(state)))
        again = [consensus.apply(ballots[1:], labels, kept, np.random.default_rng(1)) for kept in (state, back)]
        np.testing.assert_array_equal(again[0][0], again[1][0])
        assert consensus.report(again[0][1]) == consensus.report(again[1][1])


class TestConsistent:
    """FedKT's rule on the votes of three students of each silo, about three examples."""

    UNITED = np.int32([[3, 0, 0], [0, 3, 0], [0, 0, 3]])
    DIVIDED = np.int32([[2, 1, 0], [1, 1, 1], [0, 1, 2]])

    def test_a_silo_votes_where_all_its_students_say_the_same(self):
        assert unanimous(self.UNITED, 3).tolist() == [0, 1, 2]
        assert unanimous(self.DIVIDED, 3).tolist() == [ABSTAIN] * 3
        assert unanimous(self.UNITED, 3).dtype == np.int16

    def test_each_consistent_silo_counts_with_all_its_students_and_no_other_counts(self, rng: Generator):
        seen: list[VoteCounts] = []

        def watch(counts: VoteCounts, incumbent: HardLabels, rng: Generator) -> HardLabels:
            seen.append(counts)
            return plurality(counts, incumbent, rng)

        ballots = [("a", self.UNITED), ("b", self.DIVIDED), ("c", self.UNITED[[0, 0, 0]]), ("d", self.UNITED)]
        labels, state = consistent(3, 3, watch).apply(iter(ballots), NOBODY, {}, rng)
        assert seen[0].tolist() == [[9, 0, 0], [3, 6, 0], [3, 0, 6]]
        assert labels.tolist() == [0, 1, 2]
        assert state == {}

    def test_where_no_silo_is_consistent_it_abstains_and_does_not_say_class_0(self, rng: Generator):
        for silos in (1, 5):
            ballots = [(f"silo-{number}", self.DIVIDED) for number in range(silos)]
            assert consistent(3, 3, plurality).apply(ballots, NOBODY, {}, rng)[0].tolist() == [ABSTAIN] * 3

    def test_what_decides_gets_rows_without_a_vote_like_every_other(self, rng: Generator):
        """So noise goes on them too."""
        labels, _ = consistent(3, 3, lambda counts, incumbent, rng: np.int16([2, 2, 2])).apply(
            [("a", self.DIVIDED)], NOBODY, {}, rng
        )
        assert labels.tolist() == [2, 2, 2]


class TestAgreed:
    @pytest.mark.parametrize(
        ("votes", "decided", "share"),
        [
            (np.int16([0, 1, 2]), [0, 1, 1], 2 / 3),
            (np.int16([0, 1, 2]), [0, ABSTAIN, ABSTAIN], 1.0),
            (np.int16([0, ABSTAIN, 2]), [0, 1, ABSTAIN], 0.5),
            (np.int16([0, 1, 2]), [ABSTAIN] * 3, 0.0),
        ],
    )
    def test_is_the_share_of_votes_that_are_the_label(self, votes: np.ndarray, decided: list[int], share: float):
        assert agreed(votes, np.int16(decided)) == pytest.approx(share)

    @pytest.mark.parametrize(
        ("decided", "share"), [([0, 1, 1], 0.5), ([0, ABSTAIN, ABSTAIN], 1.0), ([ABSTAIN] * 3, 0.0)]
    )
    def test_each_student_has_a_vote(self, decided: list[int], share: float):
        counts = np.int32([[2, 0, 0], [1, 1, 0], [0, 0, 2]])
        assert counts_agreed(counts, np.int16(decided)) == pytest.approx(share)
