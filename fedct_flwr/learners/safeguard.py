"""How much a silo trusts the consensus: fully, unless its own records speak against it.

Each silo compares models that have learned the consensus labels with one that has not, out of fold on its own records.
Labels count in full where the model does not look worse by more than a standard error and a margin, else in the first
of two other ways for which that holds: all of them a little, or those of foreign examples alone. To choose what looks
best would throw away most of the gain where records are few (``python -m benchmarks ablation``). A silo of one class
has no model to go back to, and learns at the small weight at least. A decision stays while hardly any label has changed
since.

Foreign examples are unlike own records: a forest tells the two apart, as domain classifiers do (Bickel, Brückner,
Scheffer, "Discriminative learning under covariate shift", JMLR 10, 2009).

A silo's own labels are part of the consensus, so the comparison leans towards trust, the more the fewer silos there
are. Probabilities are weighed alike, by Brier's score, and values by their squared error.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.learners import Learner, Lightening
from fedct_flwr.learners.out_of_fold import Evidence, HeldOut, OwnRecords, OwnValues, Pseudo, chosen, probabilities
from fedct_flwr.types import (
    ABSTAIN,
    LABEL_DTYPE,
    Examples,
    Features,
    Groups,
    HardLabels,
    LearnerError,
    TrainingError,
    generator,
)

FULL: Final = 1.0
"""Weight of a trusted pseudo-label: that of an own record."""
LITTLE: Final = 0.03
"""Weight of pseudo-labels that do harm at full weight, and none at this one."""
MARGIN: Final = 0.01
"""Brier's score, in 0..2, by which a model taught by labels may look worse in addition to a standard error: half a
hundredth in the probability of a class that is as likely as not.
"""
FOREIGN: Final = 0.3
"""Probability to be an own record, if there were as many of these, below which a public example is foreign."""
_MISTAKEN: Final = 0.1
"""Share of own records that may look as foreign as a foreign example: few records look foreign to one another."""
_FEWEST_FOREIGN: Final = 1 / 3
"""Share of public examples: where fewer look foreign, silo and public set are alike, and these are chance."""
_MOST_TO_TELL: Final = 2000
"""Records and public examples that a tree learns to tell apart: more would take long and tell little more."""
SAME: Final = 0.02
"""Share of the labels that may have changed since a decision for it to stay."""
_ROUNDING: Final = 1e-12
"""Of a gain that is exactly a standard error: one wrong record more, but for the last bits."""


class Trust(NamedTuple):
    """A silo's trust: a ``weight``, 0 for its own model; ``foreign``: in labels of foreign examples alone."""

    weight: float
    evidence: Evidence | None = None
    foreign: bool = False


WAYS: Final = (Trust(FULL), Trust(LITTLE))
"""How labels may count: the first way that does no harm is taken."""


class Decision(NamedTuple):
    """A silo's decision, the labels ``(num_public,)`` that it is about, and its round."""

    trust: Trust
    targets: HardLabels
    round: int = 0

    def holds_for(self, targets: HardLabels) -> bool:
        """Whether hardly any of the labels ``(num_public,)`` differ from those that were decided on.

        >>> decided = Decision(Trust(1.0), np.zeros(100, dtype=np.int16))
        >>> decided.holds_for(np.arange(100) < 2), decided.holds_for(np.arange(100) < 3)
        (True, False)
        """
        changed = targets != self.targets
        labeled = (targets != ABSTAIN) | (self.targets != ABSTAIN)
        return bool(changed.sum() <= SAME * labeled.sum())


class Deciding:
    """Decides for one silo, whose ``groups`` ``(n,)`` are kept together; without classes (0) for values."""

    margin: ClassVar[float] = 0.0

    def __init__(self, private: Examples, num_classes: int, seed: int, silo: str, groups: Groups | None = None) -> None:
        self._private, self._num_classes, self._groups = private, num_classes, groups
        self._seed, self._silo = seed, silo
        self._alone: NDArray[np.float64] | None = None
        self._decided: NDArray[np.float64] | None = None

    @cached_property
    def _own(self) -> OwnRecords:
        kind = OwnRecords if self._num_classes else OwnValues
        return kind(self._private, generator(self._seed, "guard", self._silo), self._groups)

    @property
    def _can_tell(self) -> bool:
        return self._own.can_tell

    @property
    def seen(self) -> tuple[HardLabels, NDArray[np.float64]] | None:
        """Classes of own records ``(n,)`` and the decided model's out-of-fold predictions; None if unknown."""
        return None if self._decided is None or not self._own.divided else (self._own.y, self._decided)

    def _decide(self, predicted: Callable[[Trust], NDArray[np.float64]], ways: Iterable[Trust] = WAYS) -> Trust:
        """Decide by the errors on own records, with what is learned of others in each way."""
        if not self._can_tell:
            return Trust(FULL)
        if self._alone is None:
            self._alone = predicted(Trust(0.0))
        self._decided = self._alone
        first, least = None, Trust(0.0)
        for way in ways:
            try:
                found = predicted(way)
            except (LearnerError, TrainingError):
                # A failure of all labels in full comes in the final fit, too; a learner may take no weights.
                if first is None:
                    raise
                continue
            evidence = self._own.compare(self._alone, found)
            first = first or evidence
            trusted = evidence.gain >= -evidence.error - self.margin - _ROUNDING
            if not self._own.know_classes:
                least = way
            if trusted or least.weight:
                self._decided = found
            if trusted:
                return way._replace(evidence=first)
        return least._replace(evidence=first)


def foreign(both: Any, own: int, seed: int) -> NDArray[np.bool_]:
    """Which public examples ``(n - own,)`` are foreign, out of bag.

    ``both`` ``(n, ...)`` begins with the ``own`` records. No example is foreign where silo and public set are alike, or
    where trees cannot learn the examples, such as text.
    """
    from sklearn.ensemble import RandomForestClassifier  # takes a while, and most labels do no harm

    count = both.shape[0]
    table = both.reshape(count, -1) if both.ndim > 2 else both
    forest = RandomForestClassifier(
        min_samples_leaf=5,
        max_samples=min(count, _MOST_TO_TELL),
        class_weight="balanced_subsample",
        oob_score=True,
        random_state=seed,
    )
    try:
        forest.fit(table, np.arange(count) < own)
    except (ValueError, TypeError):
        return np.zeros(count - own, dtype=np.bool_)
    likely = forest.oob_decision_function_[:, 1]
    found = likely[own:] < min(FOREIGN, np.quantile(likely[:own], _MISTAKEN))
    return np.asarray(found & (found.mean() >= _FEWEST_FOREIGN), dtype=np.bool_)


class Safeguard(Deciding):
    """Decides how much consensus labels count; ``before`` is an earlier decision of the run."""

    margin = MARGIN
    before: Decision | None = None
    decision: Decision | None = None
    _foreign: NDArray[np.bool_] | None = None
    _learned: HardLabels | None = None
    """The labels that the out-of-fold predictions are about, where there are any."""

    def trust(self, learner: Learner, public: Features, targets: HardLabels) -> Trust:
        """Decide on consensus labels ``targets`` ``(num_public,)`` for a learner that is refitted each time.

        The same labels give the same decision, unless one of before holds. Leaves the learner unfitted. Raises
        TrainingError.
        """
        if not (targets != ABSTAIN).any():
            return Trust(FULL)
        if self.before and self.before.holds_for(targets):
            if self._learned is None or not np.array_equal(self._learned, targets):
                self._decided = None
            self.decision = self.before
        elif self.decision is None or not np.array_equal(self.decision.targets, targets):
            light = learner.lighter() if isinstance(learner, Lightening) else learner
            decided = self._decide(self._teaching(light, public, targets), self._ways(learner, public, targets))
            self.decision = Decision(decided, targets)
        self._learned = targets
        return self.decision.trust

    def counted(self, learner: Learner, public: Features, targets: HardLabels) -> HardLabels:
        """The labels ``(num_public,)`` that count by the last decision; the others are ABSTAIN."""
        if self.last and self.last.foreign and isinstance(learner, Lightening):
            return np.where(self._is_foreign(learner, public), targets, ABSTAIN).astype(LABEL_DTYPE)
        return targets

    @property
    def last(self) -> Trust | None:
        """The last decision's trust."""
        return self.decision.trust if self.decision else None

    def date(self, round_: int) -> None:
        """Note the round of a decision, unless it was made before."""
        if self.decision and self.decision is not self.before:
            self.decision = self.decision._replace(round=round_)

    def out_of_fold(
        self, learner: Learner, public: Features, targets: HardLabels
    ) -> tuple[HardLabels, NDArray[np.float64]] | None:
        """Like ``seen``, after a lesson of these labels.

        The learner stays as it is; None for one that has no lighter version. Raises TrainingError.
        """
        if not (isinstance(learner, Lightening) and self._can_tell and self._own.divided):
            return None
        if self._decided is None:
            self._decided = self._teaching(learner.lighter(), public, targets)(self.last or Trust(FULL))
        return self.seen

    def _teaching(
        self, learner: Learner, public: Features, targets: HardLabels
    ) -> Callable[[Trust], NDArray[np.float64]]:
        """Out-of-fold predictions for own records, with these labels counted in a way."""

        def predicted(way: Trust) -> NDArray[np.float64]:
            counts = targets != ABSTAIN
            if way.foreign and isinstance(learner, Lightening):
                counts &= self._is_foreign(learner, public)
            labeled = np.flatnonzero(counts)
            pseudo = Pseudo(chosen(public, labeled), targets[labeled], way.weight) if way.weight else None
            return self._own.predicted(learner, self._num_classes, pseudo)

        return predicted

    def _ways(self, learner: Learner, public: Features, targets: HardLabels) -> Iterator[Trust]:
        """How labels may count; nothing is asked about foreign examples before all labels have done harm."""
        yield from WAYS
        if not (self._own.know_classes and isinstance(learner, Lightening)):
            return
        if (targets[self._is_foreign(learner, public)] != ABSTAIN).any():
            yield Trust(FULL, foreign=True)

    def _is_foreign(self, learner: Lightening, public: Features) -> NDArray[np.bool_]:
        """Which public examples are unlike own records ``(num_public,)``; asked once."""
        if self._foreign is None:
            both = learner.table(np.concatenate([self._private.X, public]))
            rng = generator(self._seed, "foreign", self._silo)
            self._foreign = foreign(both, self._private.size, int(rng.integers(1 << 31)))
        return self._foreign


class NetworkSafeguard(Safeguard):
    """Decides once in a run for a network, which trains on from round to round, by a fifth of the records.

    The network trains on with the first consensus labels and without them, from where it stands, and each of these is
    asked about the fifth. Until then it must see only the records in ``training``: warm-up has held out the same fifth.
    """

    @cached_property
    def _own(self) -> HeldOut:
        return HeldOut(self._private, self._seed, self._silo, self._groups)

    @property
    def training(self) -> Examples:
        """The records to train on: without those held out, until it is decided."""
        return self._private if self.decision or not self._can_tell else self._own.rest

    def begin(self) -> None:
        """Forget what was decided of another network."""
        self.before = self.decision = None

    def weigh(self, learner: Any, public: Features, targets: HardLabels, rounds: int) -> Trust:
        """Decide on consensus labels ``targets`` ``(num_public,)``, by training on for ``rounds``, and stay with it.

        Leaves the Resumable learner where it stood. Raises TrainingError.
        """
        self.decision = self.before or self.decision
        if not (targets != ABSTAIN).any():
            return Trust(FULL)
        if self.decision is None:
            stands, nothing = learner.dump(), np.full_like(targets, ABSTAIN)

            def predicted(way: Trust) -> NDArray[np.float64]:
                def train(records: Examples) -> None:
                    learner.restore(stands)
                    for _ in range(rounds):
                        learner.advance(records, public, targets if way.weight else nothing, way.weight or FULL)

                return self._own.predictions(train, lambda X: probabilities(learner, X, self._num_classes))

            self.decision = Decision(self._decide(predicted), targets)
            learner.restore(stands)
        return self.decision.trust


class Lesson(NamedTuple):
    """A lesson from other silos' answers: ``digest`` tells lessons apart.

    ``train`` fits records and others' answers, which count the second argument of what they would;
    ``answer`` says probabilities ``(n, classes)`` or values ``(n,)``.
    """

    train: Callable[[Examples, float], None]
    answer: Callable[[Features], NDArray[np.floating]]
    digest: bytes


class SoftSafeguard(Deciding):
    """Decides how much others' probabilities or values count."""

    _known: tuple[bytes, Trust] | None = None

    @property
    def last(self) -> Trust | None:
        """The last decision's trust."""
        return self._known[1] if self._known else None

    def trust(self, lesson: Lesson) -> Trust:
        """The share of their weight that others' answers get, the same for the same lesson. Raises TrainingError."""

        def predicted(way: Trust) -> NDArray[np.float64]:
            return self._own.predictions(lambda records: lesson.train(records, way.weight), lesson.answer)

        if self._known is None or self._known[0] != lesson.digest:
            self._known = lesson.digest, self._decide(predicted)
        return self._known[1]

    @property
    def _can_tell(self) -> bool:
        return self._own.can_tell and self._own.divided
