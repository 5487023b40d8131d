"""How much a silo trusts the consensus: fully, unless its own records speak against it.

Each silo compares, on its own records, models that have learned the consensus labels with one that has not, all on
records that they have not seen (``out_of_fold``). It takes the largest weight of pseudo-labels that does not look worse
than none, by more than a standard error and by more than a margin. To choose what looks best instead would throw away
most of what co-training gains where records are few: ``python -m benchmarks no-harm``. Without the margin, a silo whose
own model makes no error would keep to it for being a little less sure of the same classes.

What it does not see: a silo's own labels are part of the consensus, so the comparison leans towards trust, the more the
fewer silos there are.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.learners.base import Learner
from fedct_flwr.learners.out_of_fold import Evidence, OwnRecords, Pseudo, chosen
from fedct_flwr.seeding import generator
from fedct_flwr.types import ABSTAIN, Examples, Features, Groups, HardLabels, LearnerError, TrainingError

WEIGHTS: Final = (1.0, 0.3, 0.1)
"""Of pseudo-labels, from the first that is tried; 0 where none of them will do."""
MOST_ERRORS: Final = 1.0
"""Standard errors by which a model may look worse and still be trusted."""
MARGIN: Final = 0.02
"""Brier's score, in 0..2, by which a model may look worse and still be trusted: a hundredth in the probability of a
class that is as likely as not."""


class Trust(NamedTuple):
    """What a silo decided. ``weight`` of pseudo-labels, 0: its own model; ``evidence`` for full weight against 0.

    Without evidence there was nothing to decide by, or nothing to decide.
    """

    weight: float
    evidence: Evidence | None = None


class Guard:
    """Decides for one silo. ``seed`` and ``silo`` tell how its records are divided: always the same, and no group.

    ``groups`` ``(n,)`` say which records belong together.
    """

    def __init__(self, private: Examples, num_classes: int, seed: int, silo: str, groups: Groups | None = None) -> None:
        self._private, self._num_classes, self._groups = private, num_classes, groups
        self._seed, self._silo = seed, silo
        self._own: OwnRecords | None = None
        self._alone: NDArray[np.float64] | None = None
        self._known: tuple[bytes, Trust] | None = None

    @property
    def last(self) -> Trust | None:
        """What was decided last."""
        return self._known[1] if self._known else None

    def trust(self, learner: Learner, public: Features, targets: HardLabels) -> Trust:
        """Decide for a learner that starts anew each time, on consensus labels ``targets`` ``(num_public,)``.

        The same labels always give the same decision. Leaves the learner to be fitted. Raises TrainingError.
        """
        labeled = targets != ABSTAIN
        if not labeled.any():
            return Trust(WEIGHTS[0])
        if self._known and self._known[0] == targets.tobytes():
            return self._known[1]
        decided = self._decide(learner, chosen(public, np.flatnonzero(labeled)), targets[labeled])
        self._known = targets.tobytes(), decided
        return decided

    def _decide(self, learner: Learner, X: Features, y: HardLabels) -> Trust:
        if self._own is None:
            self._own = OwnRecords(self._private, generator(self._seed, "guard", self._silo), self._groups)
        own, first = self._own, None
        if not own.can_tell:
            return Trust(WEIGHTS[0])
        if self._alone is None:
            self._alone = own.predicted(learner, self._num_classes)
        for weight in WEIGHTS:
            try:
                there = own.predicted(learner, self._num_classes, Pseudo(X, y, weight))
            except (LearnerError, TrainingError):
                # It takes no sample weights: all or nothing. What fails at full weight fails in the fit to come, too.
                if weight == WEIGHTS[0]:
                    raise
                break
            evidence = own.compare(self._alone, there)
            first = first or evidence
            if evidence.errors >= -MOST_ERRORS or evidence.gain >= -MARGIN:
                return Trust(weight, first)
        return Trust(0.0, first)
