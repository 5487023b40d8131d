"""Knowledge transfer at the silo: teachers on parts of the records label the public set, and students learn the labels.

Li, He, Song, "Practical one-shot federated learning for cross-silo setting" (FedKT), IJCAI 2021, Algorithm 1, lines 1
to 14. The students stay: what they say about the public set is all that the coordinator needs of them.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.consensus.counting import plurality, tally
from fedct_flwr.datasets.federated import num_units as units_of
from fedct_flwr.datasets.federated import take, unit_of_each
from fedct_flwr.learners.base import Learner
from fedct_flwr.learners.preprocessing import rows, transformed
from fedct_flwr.learners.workers import one_thread
from fedct_flwr.privacy.randomness import uniform_below
from fedct_flwr.seeding import generator, random_state
from fedct_flwr.types import (
    ABSTAIN,
    LABEL_DTYPE,
    ConfigError,
    Examples,
    Features,
    Groups,
    HardLabels,
    TrainingError,
    VoteCounts,
)

if TYPE_CHECKING:
    # Need dp_accounting, which a silo without noise does not.
    from dp_accounting import DpEvent

    from fedct_flwr.privacy.mechanisms import Mechanism
    from fedct_flwr.privacy.randomness import Noise


def check_records(num_records: int, partitions: int, teachers: int) -> None:
    """Raise ConfigError unless each of ``partitions * teachers`` models has a record of its own.

    Partitions share the records, but teachers with fewer each would know next to nothing.
    """
    needed = partitions * teachers
    if num_records >= needed:
        return
    fits = num_records // partitions
    advice = f"teachers to {fits} or fewer" if fits else f"partitions to 1 and teachers to {num_records} or fewer"
    raise ConfigError(
        f"{partitions} partitions of {teachers} teachers need {needed} records, and the silo has {num_records}: set "
        f"{advice}"
    )


class Transfer:
    """What a silo's students say: ``partitions`` (s) of them, each taught by ``teachers`` (t) of its own.

    Each partition splits all records at random into its own disjoint parts; each part trains a teacher. The class that
    most teachers name is the public example's label, and a student is trained on the public examples with their
    labels. ``make_learner(random_state)`` makes an untrained learner for each of them, always the same for the same
    number, whose ``fit`` must be a function of its arguments.

    ``transformer`` is fitted preprocessing (or none) that all of them share: the public set goes through it once and
    not for each of them. ``mechanism`` (Laplace, Gumbel or Gaussian, of one vote per unit) makes noise on the teachers'
    votes: FedKT-L2. The paper's gamma is 1 / scale. Teachers label and students learn from all public examples; with a
    mechanism, which makes each of them cost something, ``lessons`` of them drawn at random, or for 0 those that
    students are asked about. ``num_units`` (records, or patients) is public. Raises ConfigError for impossible numbers,
    or too few records.

    Formal guarantees:
        Without a mechanism none (FedKT-L0; L1 protects whole silos at the coordinator, and nothing from it). With one,
        for each unit of the silo (a record, or a patient with all records), **added or removed**: what ``votes``
        returns on n examples costs ``event(n)``, and each further call as much again.

        In each partition, each unit draws its teacher uniformly, independently of all others, from the noise's source.
        So the same draws of the other units go with either of two adjacent data sets, and given these one unit more or
        less changes the vote of one teacher per example, two counts by one, which is what a mechanism of one vote per
        unit covers. The guarantee holds for every such draw, hence for the mixture of them. To shuffle the records and
        to cut them into equal parts, as the paper's code does, would not do: one record more moves others across cuts.

        The s partitions see the same records and compose: s times the cost of one. (The paper's Theorem 3 is about one
        partition.) Students see public examples and noisy labels only, so they are post-processing, whatever they say,
        however often, and wherever they are kept; so is a student that cannot be trained. A teacher without records, or
        whose training fails, casts no vote, and noise decides where no one voted: no error is raised for it.

        Holds with ``SecureNoise`` only, and if neither ``make_learner`` nor ``transformer`` knows a record:
        preprocessing takes its statistics from the public set. Not covered: the time that it takes, and learners whose
        result depends on more than their own part.
    """

    def __init__(
        self,
        make_learner: Callable[[int], Learner],
        num_classes: int,
        *,
        partitions: int,
        teachers: int,
        num_units: int,
        seed: int,
        mechanism: "Mechanism | None" = None,
        lessons: int = 0,
        transformer: Any = None,
    ) -> None:
        if partitions < 1 or teachers < 1:
            raise ConfigError(f"there are {partitions} partitions and {teachers} teachers; set each to 1 or more")
        check_records(num_units, partitions, teachers)
        self._make_learner, self._num_classes, self._seed = make_learner, num_classes, seed
        self._partitions, self._teachers = partitions, teachers
        self._mechanism, self._lessons = mechanism, lessons
        self._transformer = transformer

    def event(self, num_asked: int) -> "DpEvent":
        """What it costs to ask about ``num_asked`` examples, all partitions together: their lessons' noisy votes.

        Raises ValueError without a mechanism.
        """
        from fedct_flwr.privacy.mechanisms import repeated

        if self._mechanism is None:
            raise ValueError("votes without noise have no price")
        return repeated(self._mechanism.event(self._lessons or num_asked), self._partitions)

    def votes(
        self,
        private: Examples,
        public: Features,
        positions: NDArray[np.intp],
        noise: "Noise | None",
        groups: Groups | None = None,
    ) -> VoteCounts:
        """For each queried example how many students vote for each class, ``(positions, classes)``.

        Rows sum to the number of partitions. ``noise`` is what the mechanism draws from; a teacher has all records of
        one of ``groups`` ``(n,)``, or none. Raises TrainingError if no teacher of a
        partition could vote, or a student cannot be trained.
        """
        lessons = self._chosen(len(public), positions)
        public = transformed(self._transformer, public)
        lectures, asked = rows(public, lessons), rows(public, positions)
        every = range(self._partitions)
        with one_thread():
            # The parts of all partitions are drawn before any noise.
            parts = [self._parts(partition, private.size, groups, noise) for partition in every]
            counts = [self._teach(partition, private, parts[partition], lectures) for partition in every]
            labels = [self._labels(partition, counts[partition], noise) for partition in every]
            votes = [self._learn(partition, lectures, labels[partition]).predict(asked) for partition in every]
        return tally(votes, len(positions), self._num_classes)

    def _state(self, partition: int) -> int:
        """The random state of a partition's student."""
        return random_state(self._seed, "student", partition)

    def _chosen(self, num_public: int, positions: NDArray[np.intp]) -> NDArray[np.intp]:
        """The public examples that are lessons. Nothing about the records decides which."""
        if self._mechanism is None:
            return np.arange(num_public)
        if not self._lessons:
            return positions
        return np.sort(generator(self._seed, "lessons").permutation(num_public)[: self._lessons])

    def _parts(
        self, partition: int, num_records: int, groups: Groups | None, noise: "Noise | None"
    ) -> list[NDArray[np.intp]]:
        """The records of each teacher."""
        if self._mechanism is not None:
            drawn = drawn_by_unit(self._teachers, num_records, groups, _needed(noise))
            return [np.flatnonzero(drawn == teacher) for teacher in range(self._teachers)]
        of = unit_of_each(num_records, groups)
        order = generator(self._seed, "partition", partition).permutation(units_of(num_records, groups))
        return [np.flatnonzero(np.isin(of, part)) for part in np.array_split(order, self._teachers)]

    def _teach(
        self, partition: int, private: Examples, parts: Sequence[NDArray[np.intp]], lectures: Features
    ) -> VoteCounts:
        """The votes of a partition's teachers, each of whom learns from one of the parts."""
        votes = []
        for number, part in enumerate(parts):
            own = take(private, part)
            teacher = self._make_learner(random_state(self._seed, "teacher", partition, number))
            try:
                # By parts: with all records together, one that cannot be preprocessed would silence all teachers.
                own = Examples(transformed(self._transformer, own.X), own.y)
            except TrainingError:
                continue
            votes.append(vote_of(trained(teacher, own), lectures))
        return tally((vote for vote in votes if vote is not None), len(lectures), self._num_classes)

    def _learn(self, partition: int, lectures: Features, labels: HardLabels) -> Learner:
        """A partition's student, which learns from the labels that lectures have."""
        labeled = labels != ABSTAIN
        return self._make_learner(self._state(partition)).fit(rows(lectures, labeled), labels[labeled])

    def _labels(self, partition: int, counts: VoteCounts, noise: "Noise | None") -> HardLabels:
        """What the teachers of a partition say together."""
        if self._mechanism is not None:
            from fedct_flwr.privacy.mechanisms import noisy_max

            return noisy_max(self._mechanism, counts, _needed(noise))
        if not counts.any():
            raise TrainingError(
                f"none of the {self._teachers} teachers of partition {partition + 1} labeled any public example: set "
                "fewer teachers, or choose a learner that can be trained on a few records"
            )
        unlabeled = np.full(len(counts), ABSTAIN, dtype=LABEL_DTYPE)
        return plurality(counts, unlabeled, generator(self._seed, "ties", partition))


def _needed(noise: "Noise | None") -> "Noise":
    if noise is None:
        raise ValueError("a mechanism draws from noise, and there is none")
    return noise


def drawn_by_unit(num_teachers: int, num_records: int, groups: Groups | None, noise: "Noise") -> NDArray[np.int64]:
    """The teacher of each record ``(n,)``, drawn for each unit: a record, or a group of them."""
    return uniform_below(noise, num_teachers, units_of(num_records, groups))[unit_of_each(num_records, groups)]


def trained(learner: Learner, part: Examples) -> Learner | None:
    """The learner, trained on ``part``; None, which casts no vote, without records or if it cannot learn from them.

    To fail as a whole would tell of one record, whatever the exception is: a network of one's own may raise any.
    """
    if part.size == 0:
        return None
    try:
        return learner.fit(part.X, part.y)
    except Exception:
        return None


def vote_of(voter: Learner | None, public: Features) -> HardLabels | None:
    """Its label of each example, ``(examples,)``; None if there is no such voter or it cannot predict."""
    try:
        return None if voter is None else voter.predict(public)
    except Exception:
        return None
