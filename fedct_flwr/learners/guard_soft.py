"""How much a silo trusts others' probabilities or values: fully, unless its own records speak against it.

As of labels (``guard``), for learners that start anew each time. Probabilities are compared by Brier's score with all
classes counting the same, values by their squared error.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.learners.guard import MOST_ERRORS, WEIGHTS, Trust
from fedct_flwr.learners.out_of_fold import OwnRecords
from fedct_flwr.learners.out_of_fold_values import OwnValues
from fedct_flwr.seeding import generator
from fedct_flwr.types import Examples, Features, Groups


class Lesson(NamedTuple):
    """What is learned of others, as a kind of answer does it.

    ``train`` starts anew on records and on others' answers, which count the second argument of what they would (0: not
    at all); ``answer`` says probabilities ``(n, classes)`` or values ``(n,)``. ``digest`` tells lessons apart.
    """

    train: Callable[[Examples, float], None]
    answer: Callable[[Features], NDArray[np.floating]]
    digest: bytes


class SoftGuard:
    """Decides for one silo, as ``Guard`` does. Without classes (``num_classes`` 0) for values."""

    def __init__(self, private: Examples, num_classes: int, seed: int, silo: str, groups: Groups | None = None) -> None:
        self._private, self._groups = private, groups
        self._of_values = not num_classes
        self._seed, self._silo = seed, silo
        self._own: OwnRecords | None = None
        self._alone: NDArray[np.float64] | None = None
        self._known: tuple[bytes, Trust] | None = None

    @property
    def last(self) -> Trust | None:
        """What was decided last."""
        return self._known[1] if self._known else None

    def trust(self, lesson: Lesson) -> Trust:
        """The share of their weight that others' answers get.

        The same lesson always gives the same decision. Leaves the learner to be trained. Raises TrainingError.
        """
        if self._known and self._known[0] == lesson.digest:
            return self._known[1]
        decided = self._decide(lesson)
        self._known = lesson.digest, decided
        return decided

    def _decide(self, lesson: Lesson) -> Trust:
        if self._own is None:
            kind = OwnValues if self._of_values else OwnRecords
            self._own = kind(self._private, generator(self._seed, "guard", self._silo), self._groups)
        own, first = self._own, None
        if not (own.can_tell and own.divided):
            return Trust(WEIGHTS[0])

        def said(weight: float) -> NDArray[np.float64]:
            return own.said(lambda records: lesson.train(records, weight), lesson.answer)

        if self._alone is None:
            self._alone = said(0.0)
        for weight in WEIGHTS:
            evidence = own.compare(self._alone, said(weight))
            first = first or evidence
            if evidence.errors >= -MOST_ERRORS:
                return Trust(weight, first)
        return Trust(0.0, first)
