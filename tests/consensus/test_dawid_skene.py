"""Dawid-Skene against one step by hand and a crowd whose truth is known."""

import numpy as np
import pytest
from numpy.random import Generator

from fedct_flwr.consensus.counting import plurality, tally
from fedct_flwr.consensus.dawid_skene import dawid_skene, estimate
from fedct_flwr.consensus.label_matrix import LabelMatrix, label_matrix, rows_of
from fedct_flwr.types import ABSTAIN, HardLabels

VOTES = np.int16([[0, 0, 1], [0, 1, 1], [1, 0, 0]])


@pytest.fixture
def rng() -> Generator:
    return np.random.default_rng(0)


def matrix(votes: np.ndarray, num_classes: int) -> LabelMatrix:
    """In the order of the votes, for golden numbers."""
    return LabelMatrix(
        [f"silo-{n}" for n in range(len(votes))],
        np.where(votes < 0, num_classes, votes).astype(np.uint8),
        num_classes,
    )


def decided(votes: np.ndarray, num_classes: int, incumbent: HardLabels | None = None) -> HardLabels:
    consensus = dawid_skene(num_classes)
    silos = [f"silo-{n}" for n in range(len(votes))]
    nothing = np.full(votes.shape[1], ABSTAIN, np.int16)
    ballots = zip(silos, votes.astype(np.int16), strict=True)
    labels, _ = consensus.apply(
        ballots, nothing if incumbent is None else incumbent, consensus.init(silos), np.random.default_rng(0)
    )
    return labels


class TestOneStep:
    """Shares of class 0: 2/3, 2/3, 1/3; every count plus 0.5."""

    def test_priors(self) -> None:
        # Class 0 has 2/3 + 2/3 + 1/3 = 5/3 examples, class 1 4/3.
        np.testing.assert_allclose(estimate(matrix(VOTES, 2), cap=1).priors, [(5 / 3 + 0.5) / 4, (4 / 3 + 0.5) / 4])

    def test_confusion(self) -> None:
        # Silo 0 votes 0, 0, 1: of class 0, 2/3 + 2/3 right and 1/3 wrong; of class 1, 1/3 + 1/3 wrong and 2/3 right.
        first = estimate(matrix(VOTES, 2), cap=1).confusion[0]
        np.testing.assert_allclose(
            first, [[(4 / 3 + 0.5) / (8 / 3), (1 / 3 + 0.5) / (8 / 3)], [(2 / 3 + 0.5) / (7 / 3)] * 2]
        )

    def test_posterior(self) -> None:
        found = estimate(matrix(VOTES, 2), cap=1)
        # The first example has the votes 0, 0, 1: the product of what the silos do, times the prior.
        likely = [
            found.priors[c] * found.confusion[0, c, 0] * found.confusion[1, c, 0] * found.confusion[2, c, 1]
            for c in (0, 1)
        ]
        np.testing.assert_allclose(found.posterior[0], np.divide(likely, sum(likely)))
        by_hand = [(13 / 24) * (11 / 16) * (7 / 16) * (7 / 16), (11 / 24) * (7 / 14) * (5 / 14) * (5 / 14)]
        np.testing.assert_allclose(likely, by_hand)

    def test_an_abstention_is_no_evidence(self) -> None:
        votes = np.int16([[0, 1, ABSTAIN], [0, ABSTAIN, ABSTAIN]])
        found = estimate(matrix(votes, 2), cap=1)
        # Nobody voted on the third: shares 1/2 and 1/2, then the priors.
        np.testing.assert_allclose(found.priors, [0.5, 0.5])
        np.testing.assert_allclose(found.posterior[2], found.priors)
        # The second silo voted once, and the example is of class 0.
        np.testing.assert_allclose(found.confusion[1], [[0.75, 0.25], [0.5, 0.5]])


def crowd(rng: Generator, confusion: np.ndarray, examples: int = 400, prior: float = 0.4) -> tuple:
    """True labels, and the votes of silos whose recall of each class ``confusion`` ``(silos, 2)`` says."""
    truth = (rng.random(examples) < prior).astype(np.int16)
    right = rng.random((len(confusion), examples)) < confusion[:, truth]
    return truth, np.where(right, truth, 1 - truth).astype(np.int16)


class TestCrowds:
    # What a majority of three poor silos says, against two good ones.
    POOR = np.array([[0.6, 0.55], [0.55, 0.6], [0.55, 0.55], [0.95, 0.97], [0.96, 0.95]])

    @pytest.mark.parametrize("seed", range(5))
    def test_beats_the_majority_where_silos_differ(self, seed: int) -> None:
        truth, votes = crowd(np.random.default_rng(seed), self.POOR)
        majority = plurality(tally(votes, len(truth), 2), np.zeros_like(truth), np.random.default_rng(0))
        ours = (decided(votes, 2) == truth).mean()
        assert ours > (majority == truth).mean() + 0.05
        # The Bayes rule that knows the silos has .96 or so: nobody without truth can have more than it.
        assert ours > 0.93

    def test_finds_the_confusion_matrices_and_reports_their_diagonals(self, rng: Generator) -> None:
        truth, votes = crowd(rng, self.POOR, examples=5000)
        consensus = dawid_skene(2)
        silos = [f"silo-{n}" for n in range(5)]
        _, state = consensus.apply(zip(silos, votes, strict=True), truth * 0, consensus.init(silos), rng)
        for silo, expected in zip(silos, self.POOR, strict=True):
            np.testing.assert_allclose(np.diagonal(rows_of(state, "confusion")[silo]), expected, atol=0.03)
            told = consensus.report(state)[silo]
            np.testing.assert_allclose(told["recall"], expected, atol=0.03)
            assert told["balanced_accuracy"] == pytest.approx(expected.mean(), abs=0.03)

    def test_silos_that_see_one_class_too_often_correct_each_other(self, rng: Generator) -> None:
        """Three silos call everything doubtful diseased, two call it healthy: as hospitals of other prevalence do."""
        truth, votes = crowd(rng, np.array([[0.35, 0.99]] * 3 + [[0.97, 0.8]] * 2), examples=2000)
        majority = plurality(tally(votes, len(truth), 2), np.zeros_like(truth), np.random.default_rng(0))
        assert (decided(votes, 2) == truth).mean() > (majority == truth).mean() + 0.05

    def test_a_silo_that_always_lies_is_understood(self, rng: Generator) -> None:
        truth, votes = crowd(rng, np.array([[0.8, 0.8]] * 3 + [[0.02, 0.02]]), examples=2000)
        assert (decided(votes, 2) == truth).mean() > 0.97

    def test_many_classes_and_abstentions(self, rng: Generator) -> None:
        truth = rng.integers(0, 10, 1000).astype(np.int16)
        right = rng.random((6, 1000)) < np.array([0.9, 0.9, 0.2, 0.2, 0.2, 0.2])[:, None]
        votes = np.where(right, truth, rng.integers(0, 10, (6, 1000))).astype(np.int16)
        votes[rng.random(votes.shape) < 0.1] = ABSTAIN
        majority = plurality(tally(votes, 1000, 10), np.zeros_like(truth), np.random.default_rng(0))
        assert (decided(votes, 10) == truth).mean() > (majority == truth).mean() + 0.05


class TestWhatIsDefined:
    def test_the_votes_of_one_silo_are_the_consensus(self) -> None:
        vote = np.int16([0, 2, 2, 2, 2, 2, ABSTAIN, 1])
        assert decided(vote[None], 3).tolist() == vote.tolist()

    def test_one_vote_for_a_rare_class_stands_if_nobody_is_against_it(self) -> None:
        votes = np.zeros((3, 500), np.int16)
        votes[:, 0] = 9
        assert decided(votes, 10)[0] == 9

    def test_without_silos_there_are_no_labels(self, rng: Generator) -> None:
        consensus = dawid_skene(2)
        labels, state = consensus.apply([], np.int16([0, 1]), consensus.init([]), rng)
        assert labels.tolist() == [ABSTAIN] * 2
        assert consensus.report(state) == {}

    def test_two_silos_that_never_agree_leave_the_incumbents(self) -> None:
        votes = np.int16([[0, 1, 0, 1], [1, 0, 1, 0]])
        assert decided(votes, 2, np.int16([0, 0, 1, 1])).tolist() == [0, 0, 1, 1]

    @pytest.mark.parametrize("abstaining", [0, 2])
    def test_two_silos_count_the_same_and_nothing_is_said_of_them(self, abstaining: int) -> None:
        # Estimated, the one that says the frequent class would have its way wherever they disagree.
        votes = np.zeros((2, 100), np.int16)
        votes[0, :30] = 1
        votes = np.concatenate([votes, np.full((abstaining, 100), ABSTAIN, np.int16)])
        incumbent = np.int16([0, 1] * 50)
        assert decided(votes, 2, incumbent).tolist() == np.where(np.arange(100) < 30, incumbent, 0).tolist()
        consensus = dawid_skene(2)
        silos = [f"silo-{n}" for n in range(len(votes))]
        _, state = consensus.apply(
            zip(silos, votes, strict=True), incumbent, consensus.init(silos), np.random.default_rng(0)
        )
        assert consensus.report(state) == {}

    def test_ends_at_its_cap(self, rng: Generator) -> None:
        _, votes = crowd(rng, TestCrowds.POOR)
        assert estimate(label_matrix([("a", v) for v in votes], 400, 2), tolerance=0.0, cap=7).iterations == 7

    def test_ends_when_nothing_changes(self) -> None:
        assert estimate(matrix(np.zeros((3, 100), np.int16), 2)).iterations <= 3
