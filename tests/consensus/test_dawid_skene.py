"""Dawid-Skene against one step by hand and a crowd whose truth is known."""

import numpy as np
import pytest
from numpy.random import Generator
from sklearn.metrics import recall_score

from fedct_flwr.consensus.counting import State, plurality, tally
from fedct_flwr.consensus.dawid_skene import dawid_skene, estimate, rows_of
from fedct_flwr.consensus.label_matrix import LabelMatrix
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


def applied(votes: np.ndarray, num_classes: int, incumbent: HardLabels | None = None) -> tuple[HardLabels, State]:
    consensus, silos = dawid_skene(num_classes), [f"silo-{n}" for n in range(len(votes))]
    before = np.full(votes.shape[1], ABSTAIN, np.int16) if incumbent is None else incumbent
    ballots = zip(silos, votes.astype(np.int16), strict=True)
    return consensus.apply(ballots, before, consensus.init(silos), np.random.default_rng(0))


def decided(votes: np.ndarray, num_classes: int, incumbent: HardLabels | None = None) -> HardLabels:
    return applied(votes, num_classes, incumbent)[0]


class TestOneStep:
    """Shares of class 0: 2/3, 2/3, 1/3; every count plus 0.5, and no examples of the average silo but in one test."""

    def test_what_all_silos_do_is_the_prior_of_each(self) -> None:
        # Of class 0 all together vote 0, 1: 4/3 + 2/3 + 1, and 1/3 + 1 + 2/3; of class 1: 2/3 + 1/3 + 1, 2/3 + 1 + 1/3.
        average = np.array([[3.5, 2.5], [2.5, 2.5]]) / [[6], [5]]
        own = np.array([[4 / 3, 1 / 3], [2 / 3, 2 / 3]]) + 0.5 + 4 * average
        first = estimate(matrix(VOTES, 2), shared=4, cap=1).confusion[0]
        np.testing.assert_allclose(first, own / own.sum(axis=1, keepdims=True))

    def test_posterior(self) -> None:
        found = estimate(matrix(VOTES, 2), shared=0, cap=1)
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
        found = estimate(matrix(votes, 2), shared=0, cap=1)
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


def balanced(truth: np.ndarray, labels: np.ndarray) -> float:
    return float(recall_score(truth, labels, labels=np.unique(truth), average="macro"))


def majority(votes: np.ndarray, num_classes: int = 2) -> HardLabels:
    nothing = np.full(votes.shape[1], ABSTAIN, np.int16)
    return plurality(tally(votes, votes.shape[1], num_classes), nothing, np.random.default_rng(0))


class TestCrowds:
    # What a majority of three poor silos says, against two good ones.
    POOR = np.array([[0.6, 0.55], [0.55, 0.6], [0.55, 0.55], [0.95, 0.97], [0.96, 0.95]])

    @pytest.mark.parametrize("seed", range(5))
    def test_beats_the_majority_where_silos_differ(self, seed: int) -> None:
        truth, votes = crowd(np.random.default_rng(seed), self.POOR)
        ours, theirs = decided(votes, 2), majority(votes)
        # Of 400 examples: 1 in 20, counted, as a difference of shares is not exact.
        assert (ours == truth).sum() - (theirs == truth).sum() >= 20
        # The Bayes rule that knows the silos has .96 or so: nobody without truth can have more than it.
        assert (ours == truth).mean() > 0.93

    def test_finds_the_confusion_matrices_and_reports_their_diagonals(self, rng: Generator) -> None:
        truth, votes = crowd(rng, self.POOR, examples=20_000)
        _, state = applied(votes, 2, truth * 0)
        for silo, expected in zip((f"silo-{n}" for n in range(5)), self.POOR, strict=True):
            np.testing.assert_allclose(np.diagonal(rows_of(state, "confusion")[silo]), expected, atol=0.03)
            told = dawid_skene(2).report(state)[silo]
            np.testing.assert_allclose(told["recall"], expected, atol=0.03)
            assert told["balanced_accuracy"] == pytest.approx(expected.mean(), abs=0.03)

    def test_silos_that_see_one_class_too_often_correct_each_other(self, rng: Generator) -> None:
        """Three silos call everything doubtful diseased, two call it healthy: as hospitals of other prevalence do."""
        truth, votes = crowd(rng, np.array([[0.35, 0.99]] * 3 + [[0.97, 0.8]] * 2), examples=2000)
        assert (decided(votes, 2) == truth).mean() > (majority(votes) == truth).mean() + 0.05

    def test_a_silo_that_always_lies_is_understood(self, rng: Generator) -> None:
        truth, votes = crowd(rng, np.array([[0.8, 0.8]] * 3 + [[0.02, 0.02]]), examples=2000)
        assert (decided(votes, 2) == truth).mean() > 0.97


class TestWhatVotesTell:
    """Skewed silos: recalls of the class without and with the disease, and its share."""

    WEAK = np.array([[0.99, 0.3], [0.98, 0.4], [0.995, 0.2], [0.97, 0.35], [0.99, 0.25]])
    GOOD = np.array([[0.95, 0.8]] * 5)

    @pytest.mark.parametrize("prior", [0.1, 0.3])
    def test_weak_silos_that_favour_the_frequent_class_do_not_hide_the_other(self, prior: float) -> None:
        truth, votes = crowd(np.random.default_rng(0), self.WEAK, 2000, prior)
        assert balanced(truth, decided(votes, 2)) > balanced(truth, majority(votes)) + 0.25

    @pytest.mark.parametrize("prior", [0.05, 0.1, 0.3])
    def test_good_silos_of_a_rare_class_are_believed(self, prior: float) -> None:
        truth, votes = crowd(np.random.default_rng(0), self.GOOD, 2000, prior)
        labels = decided(votes, 2)
        assert balanced(truth, labels) >= balanced(truth, majority(votes)) - 0.005
        assert (labels == truth).mean() > 0.95

    @pytest.mark.parametrize("kind", [0, 1])
    def test_a_majority_of_silos_with_one_class_has_no_say(self, kind: int) -> None:
        truth, votes = crowd(np.random.default_rng(0), np.array([[0.9, 0.75], [0.85, 0.8]]), 2000)
        constant = np.full((3, 2000), kind, np.int16)
        alone, together = decided(votes, 2), decided(np.concatenate([votes, constant]), 2)
        assert (alone == together).mean() > 0.95
        assert balanced(truth, together) > 0.78

    def test_each_silo_knows_a_few_of_many_classes(self, rng: Generator) -> None:
        truth = rng.integers(0, 10, 1000).astype(np.int16)
        votes = np.empty((8, 1000), np.int16)
        for row in votes:
            known = rng.choice(10, 4, replace=False)
            taken_for, right = rng.choice(known, 10), rng.random(1000) < 0.85
            row[:] = np.where(np.isin(truth, known) & right, truth, taken_for[truth])
        assert balanced(truth, decided(votes, 10)) > balanced(truth, majority(votes, 10)) + 0.1


class TestWhatIsDefined:
    def test_the_votes_of_one_silo_are_the_consensus(self) -> None:
        vote = np.int16([0, 2, 2, 2, 2, 2, ABSTAIN, 1])
        assert decided(vote[None], 3).tolist() == vote.tolist()

    def test_one_vote_for_a_rare_class_stands_if_nobody_is_against_it(self) -> None:
        votes = np.zeros((3, 500), np.int16)
        votes[:, 0] = 9
        assert decided(votes, 10)[0] == 9

    def test_two_silos_that_never_agree_leave_the_incumbents(self) -> None:
        votes = np.int16([[0, 1, 0, 1], [1, 0, 1, 0]])
        assert decided(votes, 2, np.int16([0, 0, 1, 1])).tolist() == [0, 0, 1, 1]

    @pytest.mark.parametrize("abstaining", [0, 2])
    def test_of_two_silos_the_rarer_vote_decides_and_nothing_is_said_of_them(self, abstaining: int) -> None:
        votes = np.zeros((2, 100), np.int16)
        votes[0, :30] = 1
        votes[1, 20:40] = 1
        votes = np.concatenate([votes, np.full((abstaining, 100), ABSTAIN, np.int16)])
        labels, state = applied(votes, 2)
        assert labels.tolist() == votes[:2].max(axis=0).tolist()
        assert dawid_skene(2).report(state) == {}

    @pytest.mark.parametrize("classes", [[1, 0], [1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1, 2]])
    @pytest.mark.parametrize("examples", [100, 5000])
    def test_silos_that_name_one_class_each_decide_nothing(self, classes: list[int], examples: int) -> None:
        votes = np.repeat(np.int16(classes)[:, None], examples, axis=1)
        assert set(decided(votes, 3).tolist()) == {ABSTAIN}
        assert decided(votes, 3, votes[-1]).tolist() == votes[-1].tolist()


@pytest.mark.parametrize("block", [1, 100, 250])
def test_silos_that_are_looked_at_some_at_a_time_give_the_same_bits(
    rng: Generator, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    votes = matrix(rng.integers(0, 4, (7, 50)), 3)
    together = estimate(votes, even=10.0)
    monkeypatch.setattr("fedct_flwr.consensus.dawid_skene._BLOCK", block)
    alone = estimate(votes, even=10.0)
    assert alone.iterations == together.iterations > 2
    for found, expected in zip(alone[:3], together[:3], strict=True):
        np.testing.assert_array_equal(found, expected)
