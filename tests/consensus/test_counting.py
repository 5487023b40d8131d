"""Tally and decide: golden numbers on three-element inputs, invariants, and how ties are broken."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score

from fedct_flwr.consensus.counting import (
    Consensus,
    certified,
    consistent,
    counting,
    plurality,
    qualified,
    tally,
    unanimous,
)
from fedct_flwr.consensus.dawid_skene import dawid_skene
from fedct_flwr.consensus.grades import consensus_of_grades
from fedct_flwr.consensus.label_matrix import LabelMatrix, agreed, counts_agreed, kappas, label_matrix, opposed
from fedct_flwr.runs.run_folder import Checkpoint, RunFolder
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, HardLabels, VoteCounts

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
    def test_a_share_equal_to_the_quorum_is_enough_and_one_vote_less_is_not(self, voters: int, rng: Generator):
        """All k of n, with the other n - k votes spread over classes of their own."""
        for k in range(1, voters + 1):
            enough, short = np.int32([[k] + [1] * (voters - k)]), np.int32([[k - 1] + [1] * (voters - k + 1)])
            assert qualified(enough, NOBODY[:1], rng, quorum=k / voters) != ABSTAIN
            assert k == 1 or qualified(short, NOBODY[:1], rng, quorum=k / voters) == ABSTAIN

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


# --- grades


def _decided(votes: list[list[int]], *, median: bool = False) -> list[int]:
    ballots: Any = [(str(number), np.array(vote, dtype=LABEL_DTYPE)) for number, vote in enumerate(votes)]
    consensus = consensus_of_grades(5, median=median)
    before = np.full(len(votes[0]), ABSTAIN, dtype=LABEL_DTYPE)
    found, _ = consensus.apply(ballots, before, consensus.init([]), np.random.default_rng(0))
    if consensus.of_sum:
        total = tally((vote for _, vote in ballots), len(before), 5)
        assert consensus.of_sum(total, before, {}, np.random.default_rng(0))[0].tolist() == found.tolist()
    return [int(label) for label in found]


def test_grades_follow_the_means_of_silos_that_give_some() -> None:
    assert _decided([[0, 1, 2, 3, 4], [0, 2, 1, 3, 4], [ABSTAIN] * 5]) == [0, 2, 2, 3, 4]
    assert _decided([[0, ABSTAIN, 4], [0, ABSTAIN, 4]]) == [1, ABSTAIN, 3]


@pytest.mark.parametrize("median", [False, True])
def test_no_grade_leaves_no_grade(median: bool) -> None:
    assert _decided([[ABSTAIN, ABSTAIN]] * 3, median=median) == [ABSTAIN, ABSTAIN]


def test_a_median_moves_less_than_a_mean_when_one_silo_turns_its_grades() -> None:
    rng = np.random.default_rng(0)
    true = np.repeat(np.arange(5), 40)
    honest = [np.clip(true + rng.integers(-1, 2, len(true)), 0, 4) for _ in range(4)]
    votes = [vote.tolist() for vote in (*honest, 4 - true, 4 - true)]
    off = {median: np.abs(np.array(_decided(votes, median=median)) - true).mean() for median in (False, True)}
    assert off[True] < off[False]


# --- opposed silos


def matrix(votes: Sequence[Sequence[int]], num_classes: int = 2) -> LabelMatrix:
    rows = np.array(votes)
    return LabelMatrix([f"silo-{n}" for n in range(len(rows))], np.where(rows < 0, num_classes, rows), num_classes)


class TestKappa:
    def test_is_that_of_scikit_learn(self) -> None:
        votes = np.random.default_rng(0).integers(0, 4, (5, 60))
        votes[1:, :30] = votes[0, :30]
        ours = kappas(matrix(votes.tolist(), 4))
        for i in range(5):
            for j in range(5):
                assert ours[i, j] == pytest.approx(cohen_kappa_score(votes[i], votes[j]))

    def test_counts_only_examples_that_both_voted_on(self) -> None:
        ours = kappas(matrix([[0, 0, 1, 1, -1, 0, 1], [0, 1, 1, 1, 0, -1, -1]]))
        assert ours[0, 1] == ours[1, 0] == pytest.approx(0.5)

    def test_is_none_where_there_is_nothing_to_tell(self) -> None:
        assert kappas(matrix([[0, -1], [-1, 0]]))[0, 1] == 0
        assert kappas(matrix([[1, 1, 1], [1, 1, 1]]))[0, 1] == 0


def votes(wrong: float, silos: int = 5, examples: int = 300, classes: int = 2) -> dict[str, NDArray[np.int16]]:
    """Votes of silos that are each right but for this share; of which the last swaps its first two classes."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, classes, examples).astype(np.int16)
    cast = np.where(rng.random((silos, examples)) < wrong, rng.integers(0, classes, (silos, examples)), truth)
    last = cast[-1].copy()
    cast[-1] = np.where(last == 0, 1, np.where(last == 1, 0, last))
    return {f"silo {number}": row.astype(np.int16) for number, row in enumerate(cast)}


def found(ballots: dict[str, NDArray[np.int16]], classes: int = 2) -> list[str]:
    examples = len(next(iter(ballots.values())))
    return [*opposed(label_matrix(ballots.items(), examples, classes))]


@pytest.mark.parametrize("wrong", [0.0, 0.2, 0.3])
def test_swapped_votes_are_found(wrong: float) -> None:
    assert found(votes(wrong, silos=8 if wrong else 3)) == [f"silo {7 if wrong else 2}"]


def test_votes_that_nothing_predicts_are_not_opposed() -> None:
    assert not found(votes(1.0))


def test_few_examples_tell_nothing() -> None:
    assert not found(votes(0.0, examples=40))


def test_two_camps_of_like_size_are_left_as_they_are() -> None:
    cast = votes(0.1, silos=4)
    cast["silo 2"] = 1 - cast["silo 2"]
    assert not found(cast)


@given(st.permutations(range(4)))
def test_rows_are_in_the_same_order_whatever_the_order_and_the_names_of_the_ballots(order: list[int]) -> None:
    votes = np.random.default_rng(0).integers(ABSTAIN, 3, (4, 20)).astype(np.int16)
    matrix = label_matrix(((f"silo-{n}", votes[row]) for n, row in enumerate(order)), 20, 3)
    np.testing.assert_array_equal(matrix.votes, label_matrix(enumerate_silos(votes), 20, 3).votes)
    for silo, row in zip(matrix.silos, matrix.votes, strict=True):
        vote = votes[order[int(silo[-1])]]
        np.testing.assert_array_equal(row, np.where(vote == ABSTAIN, 3, vote))


def enumerate_silos(votes: np.ndarray) -> list[tuple[str, np.ndarray]]:
    return [(f"silo-{number}", vote) for number, vote in enumerate(votes)]


@given(
    votes=st.lists(st.integers(ABSTAIN, 2), min_size=1, max_size=5),
    liars=st.integers(1, 2),
    quorum=st.sampled_from([0.0, 0.4, 0.5, 0.6, 0.8, 1.0]),
)
def test_labels_are_certified_that_no_lie_changes(votes: list[int], liars: int, quorum: float) -> None:
    def decided(cast: Sequence[int]) -> int:
        counts = np.bincount([vote for vote in cast if vote != ABSTAIN], minlength=3).astype(np.int32)[None]
        label = qualified(counts, np.int16([ABSTAIN]), np.random.default_rng(0), quorum=quorum)[0]
        return ABSTAIN if (counts[0] == counts.max()).sum() > 1 and label != ABSTAIN else int(label)

    counts = np.bincount([vote for vote in votes if vote != ABSTAIN], minlength=3).astype(np.int32)[None]
    keeps = True
    for who in combinations(range(len(votes)), min(liars, len(votes))):
        for lies in product(range(ABSTAIN, 3), repeat=len(who)):
            cast = [*votes]
            for silo, lie in zip(who, lies, strict=True):
                cast[silo] = lie
            keeps &= decided(cast) == decided(votes)
    found = certified(counts, liars, quorum=quorum)[0]
    assert keeps or not found
    # Exactly so where all have voted.
    assert found == keeps or ABSTAIN in votes or len(votes) < liars
