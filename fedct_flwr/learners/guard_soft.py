"""How much a silo trusts others' probabilities or values: fully, unless its own records speak against it.

As of labels (``guard``), for learners that start anew each time. Probabilities are compared by Brier's score with all
classes counting the same, values by their squared error.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.learners.guard import Deciding, Trust
from fedct_flwr.learners.out_of_fold import OwnRecords
from fedct_flwr.types import Examples, Features


class Lesson(NamedTuple):
    """What is learned of others, as a kind of answer does it.

    ``train`` starts anew on records and on others' answers, which count the second argument of what they would (0: not
    at all); ``answer`` says probabilities ``(n, classes)`` or values ``(n,)``. ``digest`` tells lessons apart.
    """

    train: Callable[[Examples, float], None]
    answer: Callable[[Features], NDArray[np.floating]]
    digest: bytes


class SoftGuard(Deciding):
    """Decides how much others' probabilities or values count."""

    _known: tuple[bytes, Trust] | None = None

    @property
    def last(self) -> Trust | None:
        """What was decided last."""
        return self._known[1] if self._known else None

    def trust(self, lesson: Lesson) -> Trust:
        """The share of their weight that others' answers get.

        The same lesson always gives the same decision. Leaves the learner to be trained. Raises TrainingError.
        """

        def said(weight: float, own: OwnRecords) -> NDArray[np.float64]:
            return own.said(lambda records: lesson.train(records, weight), lesson.answer)

        if self._known is None or self._known[0] != lesson.digest:
            self._known = lesson.digest, self._decide(said)
        return self._known[1]

    @property
    def _can_tell(self) -> bool:
        return self._own.can_tell and self._own.divided
