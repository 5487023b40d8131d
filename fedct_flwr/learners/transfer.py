"""Knowledge transfer at the silo: teachers on parts of the records label the public set, and students learn the labels.

Li, He, Song, "Practical one-shot federated learning for cross-silo setting" (FedKT), IJCAI 2021, Algorithm 1, lines 1
to 14. The students stay; what they say about the public set is all that the coordinator needs of them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from fedct_flwr.consensus import plurality, tally
from fedct_flwr.learners.base import Learner
from fedct_flwr.seeding import generator, random_state
from fedct_flwr.types import (
    ABSTAIN,
    LABEL_DTYPE,
    ConfigError,
    Examples,
    Features,
    HardLabels,
    TrainingError,
    VoteCounts,
)

if TYPE_CHECKING:
    # Need dp_accounting, which a silo without noise does not.
    from dp_accounting import DpEvent

    from fedct_flwr.privacy.mechanisms import Mechanism
    from fedct_flwr.privacy.randomness import Noise


class Transfer:
    """What the students of a silo say: ``partitions`` (s) of them, each taught by ``teachers`` (t) of its own.

    ``make_learner(random_state)`` makes an untrained learner, always the same for the same number. ``num_records`` is
    public. Raises ConfigError for impossible numbers.
    """

    def __init__(
        self,
        make_learner: Callable[[int], Learner],
        num_classes: int,
        *,
        partitions: int,
        teachers: int,
        num_records: int,
        seed: int,
        mechanism: "Mechanism | None" = None,
        workers: int = 1,
    ) -> None:
        if num_records < partitions * teachers:
            raise ConfigError(
                f"{partitions} partitions of {teachers} teachers need {partitions * teachers} records, and the silo "
                f"has {num_records}: set teachers to {num_records // partitions} or fewer"
            )
        self._make_learner = make_learner
        self._num_classes = num_classes
        self._partitions = partitions
        self._teachers = teachers
        self._seed = seed
        self._mechanism = mechanism
        self._workers = workers

    def event(self, num_queries: int) -> "DpEvent":
        """What the noisy votes of all partitions about so many examples cost together. Only with a mechanism."""
        raise NotImplementedError

    def votes(
        self, private: Examples, public: Features, positions: NDArray[np.intp], noise: "Noise | None"
    ) -> VoteCounts:
        """For each queried example how many students vote for each class, ``(positions, classes)``.

        Rows sum to the number of partitions. Raises TrainingError if nobody votes, or a student cannot be trained.
        """
        tasks = (
            (partition, teacher, np.sort(part))
            for partition in range(self._partitions)
            for teacher, part in enumerate(self._parts(partition, private.size))
        )
        voted = self._parallel(
            delayed(_vote)(
                self._make_learner,
                random_state(self._seed, "teacher", partition, teacher),
                Examples(private.X[part], private.y[part]),
                public,
            )
            for partition, teacher, part in tasks
        )
        lessons = [
            self._labels(partition, voted[partition * self._teachers : (partition + 1) * self._teachers], len(public))
            for partition in range(self._partitions)
        ]
        students = self._parallel(
            delayed(_vote)(
                self._make_learner,
                random_state(self._seed, "student", partition),
                Examples(public[labels != ABSTAIN], labels[labels != ABSTAIN]),
                public[positions],
            )
            for partition, labels in enumerate(lessons)
        )
        return tally((votes for votes in students if votes is not None), len(positions), self._num_classes)

    def _parts(self, partition: int, num_records: int) -> list[NDArray[np.intp]]:
        order = generator(self._seed, "partition", partition).permutation(num_records)
        return np.array_split(order, self._teachers)

    def _labels(self, partition: int, votes: list[HardLabels | None], num_examples: int) -> HardLabels:
        cast = [vote for vote in votes if vote is not None]
        if not cast:
            raise TrainingError("no teacher could be trained")
        counts = tally(cast, num_examples, self._num_classes)
        nobody = np.full(num_examples, ABSTAIN, dtype=LABEL_DTYPE)
        return plurality(counts, nobody, generator(self._seed, "ties", partition))

    def _parallel(self, tasks: object) -> list[HardLabels | None]:
        return list(Parallel(n_jobs=self._workers)(tasks))


def _vote(
    make_learner: Callable[[int], Learner], random_state: int, part: Examples, public: Features
) -> HardLabels | None:
    try:
        return make_learner(random_state).fit(part.X, part.y).predict(public)
    except TrainingError:
        return None
