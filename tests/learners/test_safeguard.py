"""What a silo's own records say for and against the consensus."""

import ast
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.learners.out_of_fold import FOLDS, OwnRecords
from fedct_flwr.learners.own_table import Table
from fedct_flwr.learners.safeguard import LITTLE, Lesson, NetworkSafeguard, Safeguard, SoftSafeguard, Trust, foreign
from fedct_flwr.learners.sklearn import SklearnLearner, SklearnRegressor
from fedct_flwr.learners.soft import soft_labels, train_on_values, train_soft
from fedct_flwr.scoring.assessment import Recalibration
from fedct_flwr.silo.numbers import with_numbers
from fedct_flwr.silo.personal import cotrain
from fedct_flwr.types import ABSTAIN, Examples, Features, HardLabels, SoftVotes
from fedct_flwr.wire.content import Instruction, Query, Soft, SoftTargets
from fedct_flwr.wire.numbers import VALUES

PUBLIC = np.random.default_rng(5).normal(size=(200, 2))
TRUTH = (PUBLIC[:, 0] > 0).astype(np.int16)


def records(count: int, seed: int = 0, noise: float = 0.0) -> Examples:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 2))
    y = X[:, 0] > 0
    return Examples(X, np.where(rng.random(count) < noise, ~y, y).astype(np.int16))


def guard_of(private: Examples) -> Safeguard:
    return Safeguard(private, 2, seed=0, silo="essen")


class Memory:
    """Knows the records that it was trained on, and says class 1 of these alone."""

    def __init__(self) -> None:
        self.fits = 0

    def fit(self, X: Features, y: HardLabels, sample_weight: NDArray[np.float64] | None = None) -> Self:
        self.fits += 1
        self._known = set(X[:, 0].tolist())
        return self

    def predict(self, X: Features) -> HardLabels:
        return np.int16([value in self._known for value in X[:, 0].tolist()])


def unique(count: int, classes: int = 2) -> Examples:
    return Examples(np.arange(count, dtype=float).reshape(-1, 1), (np.arange(count) % classes).astype(np.int16))


def own(private: Examples, groups: NDArray[Any] | None = None) -> OwnRecords:
    return OwnRecords(private, np.random.default_rng(0), groups)


@pytest.mark.parametrize("count", [2, 3, 7, 50])
def test_no_model_has_seen_the_records_that_it_is_asked_about(count: int):
    found = own(unique(count)).predicted(Memory(), 2)
    assert found.tolist() == [[1.0, 0.0]] * count


def test_records_of_a_group_stay_together():
    groups = np.repeat(np.arange(20), 3)
    private = Examples(groups.reshape(-1, 1).astype(float), (groups % 2).astype(np.int16))
    assert own(private, groups).predicted(Memory(), 2)[:, 1].sum() == 0
    assert own(private).predicted(Memory(), 2)[:, 1].sum() > 0


def test_each_fold_has_records_of_each_class():
    private = Examples(np.zeros((60, 1)), np.repeat(np.int16([0, 1]), [50, 10]))

    class Counting(Memory):
        seen: ClassVar[list[list[int]]] = []

        def fit(self, X: Features, y: HardLabels, sample_weight: NDArray[np.float64] | None = None) -> Self:
            self.seen.append(np.bincount(y).tolist())
            return super().fit(X, y)

    own(private).predicted(Counting(), 2)
    assert Counting.seen == [[40, 8]] * FOLDS


LEARNERS = [SklearnLearner(LogisticRegression()), SklearnLearner(DecisionTreeClassifier(max_depth=3, random_state=0))]


@pytest.mark.parametrize("learner", LEARNERS, ids=["linear", "tree"])
@pytest.mark.parametrize("seed", range(5))
def test_a_good_consensus_is_trusted(learner: SklearnLearner, seed: int):
    assert guard_of(records(60, seed, noise=0.1)).trust(learner, PUBLIC, TRUTH).weight == 1.0


@pytest.mark.parametrize("learner", LEARNERS, ids=["linear", "tree"])
@pytest.mark.parametrize("seed", range(5))
def test_own_records_speak_against_a_wrong_consensus(learner: SklearnLearner, seed: int):
    found = guard_of(records(60, seed)).trust(learner, PUBLIC, np.int16(1) - TRUTH)
    assert found.weight < 1.0
    assert found.evidence is not None
    assert found.evidence.errors < -1
    assert found.evidence.records == 60


def test_chance_is_no_evidence():
    """A consensus that tells nothing new about noise is trusted: the two models differ by chance alone."""
    kept = 0
    for seed in range(40):
        private = records(40, seed, noise=0.5)
        same = np.random.default_rng(seed).integers(2, size=len(PUBLIC)).astype(np.int16)
        kept += guard_of(private).trust(LEARNERS[0], PUBLIC, same).weight == 1.0
    assert kept >= 28


@pytest.mark.parametrize(
    "private",
    [
        Examples(np.zeros((1, 2)), np.int16([1])),
        Examples(np.zeros((4, 2)), np.zeros(4, dtype=np.int16)),
        Examples(np.zeros((3, 2)), np.int16([0, 0, 1])),
    ],
    ids=["one record", "four of one class", "one record of a class"],
)
def test_records_that_cannot_tell_leave_the_consensus_trusted(private: Examples):
    assert guard_of(private).trust(LEARNERS[0], PUBLIC, TRUTH) == Trust(1.0)


def healthy(count: int) -> Examples:
    """Records of class 0 alone."""
    drawn = records(4 * count)
    kept = np.flatnonzero(drawn.y == 0)[:count]
    return Examples(drawn.X[kept], drawn.y[kept])


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: type(each).__name__)
def test_records_of_one_class_speak_against_a_consensus_that_takes_them_for_another(learner: SklearnLearner) -> None:
    # With this border most of the silo's records are beyond it.
    moved = (PUBLIC[:, 0] > -1).astype(np.int16)
    found = guard_of(healthy(60)).trust(learner, PUBLIC, moved)
    assert 0 < found.weight < 1
    assert found.evidence is not None


def test_a_silo_of_one_class_never_goes_back_to_a_model_that_knows_no_other():
    everybody = np.ones(len(PUBLIC), dtype=np.int16)
    found = guard_of(healthy(60)).trust(SklearnLearner(KNeighborsClassifier(1)), PUBLIC, everybody)
    assert found.weight == 1.0, "neighbors take no weights: all or nothing"
    copied = Examples(PUBLIC[:60], np.zeros(60, dtype=np.int16))
    found = guard_of(copied).trust(LEARNERS[0], np.repeat(PUBLIC[:60], 100, axis=0), np.ones(6000, dtype=np.int16))
    assert found.weight == LITTLE


def test_the_same_labels_are_decided_on_once_and_again_the_same():
    private, learner = records(60, noise=0.3), Memory()
    guard = guard_of(private)
    first = guard.trust(learner, PUBLIC, TRUTH)
    fits = learner.fits
    assert guard.trust(learner, PUBLIC, TRUTH) == first
    assert learner.fits == fits > 0
    assert guard_of(private).trust(Memory(), PUBLIC, TRUTH) == first


def with_changed(count: int) -> HardLabels:
    return np.where(np.arange(len(TRUTH)) < count, np.int16(1) - TRUTH, TRUTH)


def test_a_decision_stays_while_hardly_any_label_changes():
    private, learner = records(60, noise=0.3), Memory()
    guard = guard_of(private)
    first = guard.trust(learner, PUBLIC, TRUTH)
    guard.before, fits = guard.decision, learner.fits
    assert guard.trust(learner, PUBLIC, with_changed(4)) == first
    assert guard.decision is guard.before
    assert learner.fits == fits
    guard.trust(learner, PUBLIC, with_changed(5))
    assert guard.decision is not guard.before
    assert learner.fits > fits


def test_a_learner_without_weights_takes_all_or_nothing():
    learner = SklearnLearner(KNeighborsClassifier(1))
    assert guard_of(records(60)).trust(learner, PUBLIC, TRUTH).weight == 1.0
    assert guard_of(records(60)).trust(learner, PUBLIC, np.int16(1) - TRUTH).weight == 0.0


class Surer:
    """Right each time, and less sure of every second record by ``less`` once it has learned pseudo-labels."""

    def __init__(self, less: float) -> None:
        self._less = less

    def fit(self, X: Features, y: HardLabels, sample_weight: NDArray[np.float64] | None = None) -> Self:
        self._learned = len(X) > 100
        return self

    def predict(self, X: Features) -> HardLabels:
        return (X[:, 0] % 2).astype(np.int16)

    def probabilities(self, X: Features, num_classes: int) -> NDArray[np.float64]:
        sure = 0.9 - self._learned * self._less * (X[:, 0] % 4 < 2)
        return np.where(self.predict(X)[:, None] == np.arange(2), sure[:, None], 1 - sure[:, None])


@pytest.mark.parametrize(("less", "weight"), [(0.01, 1.0), (0.2, 0.0)])
def test_a_loss_that_is_sure_but_tiny_is_no_reason_to_retreat(less: float, weight: float):
    found = guard_of(unique(100)).trust(Surer(less), np.zeros((50, 1)), np.zeros(50, dtype=np.int16))
    assert found.evidence is not None
    assert found.evidence.errors < -5
    assert found.weight == weight


class Misled(Surer):
    """Right each time, and wrong about half of the records once pseudo-labels count more than ``most``."""

    def __init__(self, most: float) -> None:
        super().__init__(0.8)
        self._most = most

    def fit(self, X: Features, y: HardLabels, sample_weight: NDArray[np.float64] | None = None) -> Self:
        super().fit(X, y)
        self._learned &= (1.0 if sample_weight is None else sample_weight[-1]) > self._most
        return self


@pytest.mark.parametrize(("most", "weight"), [(1.0, 1.0), (0.99, 0.03), (0.01, 0.0)])
def test_the_largest_weight_that_does_no_harm_is_taken(most: float, weight: float):
    found = guard_of(unique(100)).trust(Misled(most), np.zeros((50, 1)), np.zeros(50, dtype=np.int16))
    assert found.weight == weight


def two_wards() -> tuple[Examples, Features, HardLabels, NDArray[np.bool_]]:
    """Own records are of one ward, public examples of two; there the same value means the opposite.

    The labels are right in the other ward (last), and given in both.
    """
    rng = np.random.default_rng(0)
    other = np.arange(200) % 2 == 0
    X = rng.normal(size=(200, 3)) + np.array([0, 0, 3])
    public = rng.normal(size=(200, 3)) + np.where(other[:, None], [0, 0, -3], [0, 0, 3])
    return Examples(X, (X[:, 0] > 0).astype(np.int16)), public, (public[:, 0] < 0).astype(np.int16), other


TREE = DecisionTreeClassifier(random_state=0)


@pytest.mark.parametrize("transformer", [None, Table([*"abc"], [], [["", [], []]] * 3)], ids=["numbers", "table"])
def test_labels_of_foreign_examples_count_where_those_of_own_ones_are_wrong(transformer: Any):
    private, public, targets, other = two_wards()
    guard, learner = guard_of(private), SklearnLearner(TREE, transformer)
    found = guard.trust(learner, public, targets)
    assert (found.weight, found.foreign) == (1.0, True)
    assert found.evidence is not None
    assert found.evidence.errors < -1
    counted = guard.counted(learner, public, targets)
    assert np.mean((counted != ABSTAIN) == other) > 0.95
    assert counted[counted != ABSTAIN].tolist() == targets[counted != ABSTAIN].tolist()


def test_a_vote_comes_from_the_model_that_knows_own_and_foreign_examples():
    private, public, targets, other = two_wards()
    learner, everything = SklearnLearner(TREE), Query(seed=0, size=200)
    right = np.where(other, targets, np.int16(1) - targets)
    votes = cotrain(learner, private, PublicSet(public), targets, everything, safeguard=guard_of(private))
    assert np.mean(votes == right[everything.positions(200)]) > 0.9


def test_foreign_examples_are_not_asked_about_where_all_labels_do_no_harm():
    guard = guard_of(records(60))
    assert guard.trust(LEARNERS[0], PUBLIC, TRUTH) == Trust(1.0, guard.trust(LEARNERS[0], PUBLIC, TRUTH).evidence)
    assert guard._foreign is None


def test_labels_of_foreign_examples_do_not_count_for_a_model_that_cannot_keep_them_apart():
    private, public, targets, _ = two_wards()
    found = guard_of(private).trust(SklearnLearner(LogisticRegression()), public, targets)
    assert (found.weight < 1, found.foreign) == (True, False)


def test_no_example_is_foreign_in_text_or_where_silo_and_public_set_are_alike():
    assert not foreign(np.array([["cough"], ["fever"]] * 5), 4, seed=0).any()
    assert not any(foreign(np.random.default_rng(seed).normal(size=(260, 2)), 60, seed).any() for seed in range(20))


class Network:
    """Knows each place of the number line by the last label that it was trained on there."""

    def __init__(self) -> None:
        self.known: dict[float, int] = {}
        self.seen: set[float] = set()

    def advance(self, private: Examples, public: Features, targets: HardLabels, pseudo_weight: float) -> None:
        labeled = targets != ABSTAIN
        self.seen |= set(private.X[:, 1].tolist())
        for X, y in ((private.X, private.y), (public[labeled], targets[labeled])):
            self.known |= dict(zip(X[:, 0].tolist(), y.tolist(), strict=True))

    def label(self, public: Features, positions: NDArray[np.intp]) -> HardLabels:
        return self.predict(public[positions])

    def predict(self, X: Features) -> HardLabels:
        return np.int16([self.known.get(value, 0) for value in X[:, 0].tolist()])

    def dump(self) -> bytes:
        return repr(self.known).encode()

    def restore(self, state: bytes) -> None:
        self.known = ast.literal_eval(state.decode())

    def reset(self) -> None:
        self.known = {}


def taught(flip: int, *, rounds: int = 3) -> tuple[Network, NetworkSafeguard, list[int]]:
    """A network at ten places with two classes, which has learned consensus labels that are right, or flipped."""
    places = np.arange(10.0)
    private = Examples(np.column_stack([np.repeat(places, 20), np.arange(200)]), np.repeat(places % 2, 20).astype("i2"))
    public = PublicSet(np.column_stack([places, places]))
    targets = ((places + flip) % 2).astype(np.int16)
    learner, guard = Network(), NetworkSafeguard(private, 2, seed=0, silo="essen")
    seen = []
    for number in range(rounds):
        told = targets if number else np.full(10, ABSTAIN, dtype=np.int16)
        cotrain(learner, private, public, told, Query(seed=0, size=10), safeguard=guard)
        seen.append(len(learner.seen))
    return learner, guard, seen


@pytest.mark.parametrize(("flip", "weight"), [(0, 1.0), (1, 0.0)])
def test_a_network_learns_the_consensus_only_where_records_that_it_has_not_seen_do_not_speak_against_it(
    flip: int, weight: float
) -> None:
    learner, guard, seen = taught(flip)
    assert guard.last is not None
    assert guard.last.weight == weight
    assert seen == [160, 200, 200]
    assert learner.predict(np.column_stack([np.arange(10.0)] * 2)).tolist() == [0, 1] * 5


def test_what_calibrates_is_said_by_models_that_have_not_seen_the_records_and_changes_none() -> None:
    private, tree = records(80, noise=0.5), SklearnLearner(DecisionTreeClassifier(random_state=0))
    guard = guard_of(private)
    cotrain(tree, private, PublicSet(PUBLIC), TRUTH, Query(seed=0, size=200), safeguard=guard)
    before = tree.predict(private.X)
    y, p = guard.out_of_fold(tree, PUBLIC, TRUTH) or pytest.fail("nothing is known")
    assert (tree.predict(private.X) == before).all()
    assert (before == private.y).mean() > 0.85 > 0.75 > (p.argmax(axis=1) == y).mean()
    # After a restart, the same is said of the same decision.
    again = guard_of(private)
    again.before = guard.decision
    again.trust(tree, PUBLIC, TRUTH)
    other = again.out_of_fold(tree, PUBLIC, TRUTH)
    assert other is not None
    assert np.array_equal(other[0], y)
    assert np.array_equal(other[1], p)


def test_a_decision_that_stays_is_calibrated_by_the_labels_that_the_model_learned() -> None:
    private, tree, changed = (
        records(80, noise=0.5),
        SklearnLearner(DecisionTreeClassifier(random_state=0)),
        TRUTH.copy(),
    )
    changed[:3] = 1 - changed[:3]
    lasting, anew = guard_of(private), guard_of(private)
    lasting.trust(tree, PUBLIC, TRUTH)
    lasting.before = anew.before = lasting.decision
    for guard in (lasting, anew):
        guard.trust(tree, PUBLIC, changed)
    first, second = (guard.out_of_fold(tree, PUBLIC, changed) or pytest.fail("unknown") for guard in (lasting, anew))
    assert np.array_equal(first[1], second[1])


@pytest.mark.parametrize("groups", [np.zeros(60), None])
def test_nothing_calibrates_where_all_records_are_of_one_group_or_class(groups: NDArray[Any] | None) -> None:
    private = records(60) if groups is not None else Examples(PUBLIC[:60], np.zeros(60, dtype=np.int16))
    guard = Safeguard(private, 2, seed=0, silo="essen", groups=groups)
    guard.trust(LEARNERS[0], PUBLIC, TRUTH)
    found = guard.out_of_fold(LEARNERS[0], PUBLIC, TRUTH)
    assert found is None or Recalibration.learned(*found) is None


# --- probabilities and values


CLASSES = 2


def soft_records(count: int, *, values: bool, seed: int = 0) -> Examples:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 3))
    told = X.sum(axis=1) + rng.normal(size=count)
    return Examples(X, told if values else (told > 0).astype(np.int16))


def targets_of(X: Features, *, values: bool, right: bool) -> SoftVotes:
    told = X.sum(axis=1) * (1 if right else -1)
    if values:
        return np.float32(told)[:, np.newaxis]
    ill = 1 / (1 + np.exp(-2 * told))
    return np.float32(np.stack([1 - ill, ill], axis=1))


def guarded(private: Examples, *, values: bool, groups: NDArray[np.intp] | None = None) -> SoftSafeguard:
    return SoftSafeguard(private, 0 if values else CLASSES, 0, "essen", groups)


def lesson_of(values: bool, right: bool, public: Features, number: int = 0) -> Lesson:
    learner = SklearnRegressor(Ridge()) if values else SklearnLearner(LogisticRegression())
    targets = targets_of(public, values=values, right=right)

    def train(part: Examples, share: float) -> None:
        (train_on_values if values else train_soft)(learner, part, public, targets if share else None, 2 * share)

    def answer(X: Features) -> NDArray[np.floating]:
        return learner.predict(X) if values else soft_labels(learner, X, CLASSES)

    return Lesson(train, answer, bytes([right, number]))


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_what_the_records_speak_against_is_not_learned(values: bool, right: bool):
    private, public = soft_records(100, values=values), soft_records(300, values=values, seed=1).X
    trust = guarded(private, values=values).trust(lesson_of(values, right, public))
    assert trust.evidence is not None
    assert trust.weight == (1.0 if right else 0.0)
    assert (trust.evidence.errors > -1) == right


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_records_that_cannot_tell_trust(values: bool, count: int):
    private, public = soft_records(count, values=values), soft_records(30, values=values, seed=1).X
    if values and count > 1:
        private = private._replace(y=np.zeros(count))
    guard = guarded(private, values=values)
    assert guard.trust(lesson_of(values, False, public)) == Trust(1.0)


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_values_are_weighed_by_more_digits_than_travel(offset: float):
    private, public = soft_records(100, values=True), soft_records(300, values=True, seed=1).X
    private, query = private._replace(y=private.y + offset), Query(0, len(public))
    votes = targets_of(public, values=True, right=False) + np.float32(offset)
    guard = guarded(private, values=True)
    tools: Any = SimpleNamespace(
        learner=SklearnRegressor(Ridge()), private=private, public=PublicSet(public), soft_safeguard=guard,
        settings=LearnerSettings(name="ridge"), terms=SimpleNamespace(num_classes=0),
    )  # fmt: skip
    learning = Soft(targets=SoftTargets(query, votes, 1.0))
    answers = with_numbers(VALUES, tools, Instruction(2, query, np.zeros(0, np.int16), soft=learning))
    assert guard.last is not None
    assert guard.last.weight < 1
    assert answers.dtype == np.float32
