"""How much a silo trusts the consensus: fully, unless its own records speak against it.

Each silo compares models that have learned the consensus labels with one that has not, out of fold on its own records.
It takes the largest weight of pseudo-labels that does not look worse than none, by more than a standard error and a
margin: to choose what looks best would throw away most of the gain where records are few (``python -m benchmarks
no-harm``). A weight below the first must also leave no more records wrong. A silo of one class has no model to go back
to, and learns at the smallest weight at least.

Where no weight will do, only the labels of examples that are unlike own records are tried: trees tell own records from
public examples, as domain classifiers do (Bickel, Brückner, Scheffer, "Discriminative learning under covariate shift",
JMLR 10, 2009). A decision stays while hardly any label has changed since.

A silo's own labels are part of the consensus, so the comparison leans towards trust, the more the fewer silos there
are. Probabilities are weighed alike, by Brier's score, and values by their squared error.
"""

import contextlib
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.learners.base import Learner, Lightening
from fedct_flwr.learners.out_of_fold import (
    Evidence,
    HeldOut,
    Looked,
    OwnRecords,
    OwnValues,
    Pseudo,
    chosen,
    probabilities,
)
from fedct_flwr.scoring import recalibration
from fedct_flwr.seeding import generator
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Examples, Features, Groups, HardLabels, LearnerError, TrainingError

FOREIGN: Final = 0.3
"""A foreign example is an own record with a smaller probability than this, if there were as many of these."""
_MISTAKEN: Final = 0.1
"""Share of own records that may look as foreign as a foreign example: few records look foreign to one another."""
_TREES: Final = 50
_LEAF: Final = 3
_MOST: Final = 1000
"""Own records that a tree learns from, and as many public examples: more would take long and tell little more."""


def domain_classifier(both: Any, own: int, rng: Generator) -> NDArray[np.bool_]:
    """Which public examples ``(n - own,)``, behind the ``own`` records in ``both`` ``(n, ...)``, are foreign."""
    from sklearn.tree import DecisionTreeClassifier  # not at the top: algorithms and their kinds wait for no learner

    count = both.shape[0]
    table = both.reshape(count, -1) if both.ndim > 2 else both
    likely, asked = np.zeros(count), np.zeros(count)
    for _ in range(_TREES):
        # As in a balanced random forest; judged are examples that the tree has not learned.
        each = min(own, _MOST)
        drawn = np.concatenate([rng.integers(0, own, each), rng.integers(own, count, each)])
        rest = np.setdiff1d(np.arange(count), drawn)
        tree = DecisionTreeClassifier(
            max_features="sqrt", min_samples_leaf=_LEAF, random_state=int(rng.integers(1 << 31))
        )
        try:
            likely[rest] += tree.fit(table[drawn], drawn < own).predict_proba(table[rest])[:, 1]
        except (ValueError, TypeError):
            # Text, for example, which a user's own model may take as it is.
            return np.zeros(count - own, dtype=np.bool_)
        asked[rest] += 1
    likely = np.divide(likely, asked, out=np.ones(count), where=asked > 0)
    found: NDArray[np.bool_] = likely[own:] < min(FOREIGN, np.quantile(likely[:own], _MISTAKEN))
    return found


WEIGHTS: Final = (1.0, 0.3, 0.1, 0.03)
"""Of pseudo-labels, from the first that is tried; 0 where none of them will do."""
MOST_ERRORS: Final = 1.0
"""Standard errors by which a model may look worse and still be trusted."""
FEW: Final = 40
MOST_ERRORS_OF_FEW: Final = 2.0
"""The same with fewer records than these: what they say of others is mostly chance."""
SURELY_GOOD: Final = 0.5
SURELY_BAD: Final = 2.0
"""Standard errors by which a model looks better, or worse, after a first look, and that is enough."""
MARGIN: Final = 0.01
"""Brier's score, in 0..2, by which a model may look worse in addition, unless it is wrong about more records by a
standard error: half a hundredth in the probability of a class that is as likely as not.
"""
LEAST_FOREIGN: Final = 1 / 3
"""Share of public examples that have to be foreign for their labels to be tried alone."""
SAME: Final = 0.02
"""Share of the labels that may have changed since a decision for it to stay."""
_ROUNDING: Final = 1e-6
"""Standard errors: one wrong record more is exactly one, but for the last bits."""
_FAILED: Final = (LearnerError, TrainingError)


class Trust(NamedTuple):
    """A silo's trust: a ``weight``, 0 for its own model; ``foreign``: only for examples unlike its own records."""

    weight: float
    evidence: Evidence | None = None
    foreign: bool = False


class Decision(NamedTuple):
    """A silo's decision, the labels ``(num_public,)`` that it is about, and its round."""

    trust: Trust
    targets: HardLabels
    round: int = 0

    def holds_for(self, targets: HardLabels) -> bool:
        """Whether hardly any of the labels ``(num_public,)`` differ from those that were decided on.

        >>> decided = Decision(Trust(1.0), np.zeros(100, dtype=LABEL_DTYPE))
        >>> decided.holds_for(np.arange(100) < 2), decided.holds_for(np.arange(100) < 3)
        (True, False)
        """
        changed = targets != self.targets
        labeled = (targets != ABSTAIN) | (self.targets != ABSTAIN)
        return bool(changed.sum() <= SAME * labeled.sum())


class Deciding:
    """Decides for one silo, whose ``groups`` ``(n,)`` are kept together; without classes (0) for values."""

    of_labels: ClassVar[bool] = False
    """Whether labels are decided on: then records that are wrong count too, and a learner may take all or nothing."""

    def __init__(self, private: Examples, num_classes: int, seed: int, silo: str, groups: Groups | None = None) -> None:
        self._private, self._num_classes, self._groups = private, num_classes, groups
        self._seed, self._silo = seed, silo
        self._alone: Looked | None = None
        self._decided: Looked | None = None

    @cached_property
    def _own(self) -> OwnRecords:
        kind = OwnRecords if self._num_classes else OwnValues
        return kind(self._private, generator(self._seed, "guard", self._silo), self._groups, hasty=True)

    @property
    def _can_tell(self) -> bool:
        return self._own.can_tell

    @property
    def seen(self) -> tuple[HardLabels, NDArray[np.float64]] | None:
        """Classes of own records ``(n,)`` and the decided model's out-of-fold predictions; None if unknown.

        Nothing is trained for it: of clear cases these are the records of the first look alone.
        """
        return self._decided.known if self._decided and self._own.divided else None

    def _decide(self, predicted: Callable[[float, OwnRecords], NDArray[np.float64]]) -> Trust:
        """Decide by the errors on own records, with what is learned of others at a weight."""
        if not self._can_tell:
            return Trust(WEIGHTS[0])
        first, least = None, 0.0
        if self._alone is None:
            self._alone = Looked(self._own, partial(predicted, 0.0))
        self._decided = self._alone
        for weight in WEIGHTS:
            try:
                there = Looked(self._own, partial(predicted, weight))
                evidence, trusted = self._judged(self._alone, there, strictly=weight < WEIGHTS[0])
            except _FAILED:
                # A failure at full weight comes in the final fit, too.
                if weight == WEIGHTS[0] or not self.of_labels:
                    raise
                break
            first = first or evidence
            if not self._own.know_classes:
                least = weight
            if trusted or least:
                self._decided = there
            if trusted:
                return Trust(weight, first)
        return Trust(least, first)

    def _judged(self, alone: Looked, there: Looked, *, strictly: bool = False) -> tuple[Evidence, bool]:
        """Evidence of a first look if clear, else of all records; ``strictly``: refuse a model with more errors."""
        for look in range(1, len(self._own.looks) + 1):
            own, both = self._own.until(look), (alone.until(look), there.until(look))
            evidence, margin = own.compare(*both), self._margin(own, *both)
            if evidence.errors >= SURELY_GOOD or evidence.gain < -SURELY_BAD * evidence.error - margin:
                break
        most = MOST_ERRORS if self._private.size >= FEW else MOST_ERRORS_OF_FEW
        trusted = evidence.gain >= -most * evidence.error - margin
        if trusted and strictly and self.of_labels:
            # All records: a first look has few errors to count. No model may be wrong about more, even by chance.
            looks = len(self._own.looks)
            trusted = self._own.compare_classes(alone.until(looks), there.until(looks)).gain >= -_ROUNDING
        return evidence, trusted

    def _margin(self, own: OwnRecords, alone: NDArray[np.float64], there: NDArray[np.float64]) -> float:
        """By how much a model may score less and still be trusted, however certain that is.

        One that is less sure may be so of the same classes; one that is wrong about more records is not.
        """
        sure = self.of_labels and own.compare_classes(alone, there).errors > _ROUNDING - MOST_ERRORS
        return MARGIN if sure else 0.0


class Safeguard(Deciding):
    """Decides how much consensus labels count; ``before`` is an earlier decision of the run."""

    of_labels = True
    before: Decision | None = None
    decision: Decision | None = None
    _foreign: NDArray[np.bool_] | None = None

    def trust(self, learner: Learner, public: Features, targets: HardLabels) -> Trust:
        """Decide on consensus labels ``targets`` ``(num_public,)`` for a learner that is refitted each time.

        The same labels give the same decision, unless one of before holds. Leaves the learner unfitted. Raises
        TrainingError.
        """
        if not (targets != ABSTAIN).any():
            return Trust(WEIGHTS[0])
        light = learner.lighter() if isinstance(learner, Lightening) else learner
        if self.before and self.before.holds_for(targets):
            if self.decision is None or not np.array_equal(self.decision.targets, self.before.targets):
                self._decided = None
            self.decision = self.before
        elif self.decision is None or not np.array_equal(self.decision.targets, targets):
            self.decision = Decision(self._anew(light, public, targets), targets)
        decided = self.decision.trust
        if decided.foreign and isinstance(light, Lightening):
            self._find_foreign(light, public)
        return decided

    @property
    def last(self) -> Trust | None:
        """The last decision's trust."""
        return self.decision.trust if self.decision else None

    def date(self, round_: int) -> None:
        """Note the round of a decision, unless it was made before."""
        if self.decision and self.decision is not self.before:
            self.decision = self.decision._replace(round=round_)

    def _anew(self, light: Learner, public: Features, targets: HardLabels) -> Trust:
        decided = self._decide(self._teaching(light, public, targets))
        if not decided.weight and self._supports_foreign(light, public, targets):
            return Trust(WEIGHTS[0], decided.evidence, foreign=True)
        return decided

    def out_of_fold(
        self, learner: Learner, public: Features, targets: HardLabels
    ) -> tuple[HardLabels, NDArray[np.float64]] | None:
        """Like ``seen``, after a lesson of these labels; asks on until there are enough events for a slope.

        The learner stays as it is; None for one that has no lighter version. Raises TrainingError.
        """
        if not (isinstance(learner, Lightening) and self._can_tell and self._own.divided):
            return None
        if self._decided is None:
            trust = self.last or Trust(WEIGHTS[0])
            predicted = self._teaching(learner.lighter(), public, self.counted(trust, targets))
            self._decided = Looked(self._own, partial(predicted, trust.weight))
        for look in range(1, len(self._own.looks) + 1):
            self._decided.until(look)
            y, found = self._decided.known
            if recalibration.events(y) >= recalibration.FEW:
                break
        return y, found

    def counted(self, trust: Trust, targets: HardLabels) -> HardLabels:
        """Those of the labels ``(num_public,)`` that count after this decision; the others become ABSTAIN."""
        if not trust.foreign or self._foreign is None:
            return targets
        return np.where(self._foreign, targets, ABSTAIN).astype(LABEL_DTYPE)

    def _teaching(
        self, learner: Learner, public: Features, targets: HardLabels
    ) -> Callable[[float, OwnRecords], NDArray[np.float64]]:
        """Out-of-fold predictions for own records, with these labels at a weight."""
        labeled = np.flatnonzero(targets != ABSTAIN)
        X, y = chosen(public, labeled), targets[labeled]
        return lambda weight, own: own.predicted(learner, self._num_classes, Pseudo(X, y, weight) if weight else None)

    def _supports_foreign(self, learner: Learner, public: Features, targets: HardLabels) -> bool:
        """Whether own records do not speak against the labels of foreign examples alone."""
        if not isinstance(learner, Lightening) or self._alone is None:
            return False
        is_foreign = self._find_foreign(learner, public)
        few = np.where(is_foreign, targets, ABSTAIN)
        if is_foreign.mean() < LEAST_FOREIGN or not (few != ABSTAIN).any():
            return False
        predicted = partial(self._teaching(learner, public, few), WEIGHTS[0])
        with contextlib.suppress(*_FAILED):
            there = Looked(self._own, predicted)
            if self._judged(self._alone, there)[1]:
                self._decided = there
                return True
        return False

    def _find_foreign(self, learner: Lightening, public: Features) -> NDArray[np.bool_]:
        """Which public examples are unlike own records ``(num_public,)``; looked for once."""
        if self._foreign is None:
            both = learner.table(np.concatenate([self._private.X, public]))
            self._foreign = domain_classifier(both, self._private.size, generator(self._seed, "foreign", self._silo))
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
            return Trust(WEIGHTS[0])
        if self.decision is None:
            stands, nothing = learner.dump(), np.full_like(targets, ABSTAIN)

            def predicted(weight: float, own: OwnRecords) -> NDArray[np.float64]:
                def train(records: Examples) -> None:
                    learner.restore(stands)
                    for _ in range(rounds):
                        learner.advance(records, public, targets if weight else nothing, weight or WEIGHTS[0])

                return own.predictions(train, lambda X: probabilities(learner, X, self._num_classes))

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

        def predicted(weight: float, own: OwnRecords) -> NDArray[np.float64]:
            return own.predictions(lambda records: lesson.train(records, weight), lesson.answer)

        if self._known is None or self._known[0] != lesson.digest:
            self._known = lesson.digest, self._decide(predicted)
        return self._known[1]

    @property
    def _can_tell(self) -> bool:
        return self._own.can_tell and self._own.divided
