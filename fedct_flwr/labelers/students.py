"""Knowledge transfer at the silo: teachers on parts of the records label the public set, and students learn the labels.

Li, He, Song, "Practical one-shot federated learning for cross-silo setting" (FedKT), IJCAI 2021, Algorithm 1, lines 1
to 14. The students stay: what they say about the public set is all that the coordinator needs of them.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedct_flwr import privacy
from fedct_flwr.config.privacy import OF_STUDENTS, PrivacySettings, TransferSettings
from fedct_flwr.consensus.counting import plurality, tally
from fedct_flwr.datasets.federated import PublicSet, take, unit_of_each
from fedct_flwr.datasets.federated import num_units as units_of
from fedct_flwr.labelers.labeler import Asked, KeepsNothing, check_installed
from fedct_flwr.learners.build import untrained
from fedct_flwr.learners.out_of_fold import one_thread
from fedct_flwr.learners.text import reading_of, transformer_for
from fedct_flwr.learners.trained_model import rows, transformed
from fedct_flwr.privacy.randomness import uniform_below
from fedct_flwr.types import (
    ABSTAIN,
    LABEL_DTYPE,
    ConfigError,
    Examples,
    Features,
    Groups,
    HardLabels,
    LearnerError,
    SiloName,
    TrainingError,
    VoteCounts,
    generator,
    random_state,
)

if TYPE_CHECKING:
    # Need dp_accounting, which a silo without noise does not.
    from dp_accounting import DpEvent

    from fedct_flwr.config.learner import LearnerSettings
    from fedct_flwr.datasets.schema import Schema
    from fedct_flwr.learners import Learner
    from fedct_flwr.privacy.mechanisms import CountNoise, Mechanism
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


class Transfer(KeepsNothing):
    """A silo's students: ``partitions`` (s) of them, each taught by ``teachers`` (t) of its own.

    Each partition splits all records at random into its own disjoint parts; each part trains a teacher. The class that
    most teachers name is the public example's label, and a student is trained on the public examples with their
    labels. ``make_learner(random_state)`` makes an untrained learner for each of them, always the same for the same
    number, whose ``fit`` must be a function of its arguments. A ``Labeler`` that keeps nothing between questions: each
    is charged by itself, and the same question is answered from the ledger.

    ``transformer`` is fitted preprocessing (or none) that all of them share: the public set goes through it once and
    not for each of them. ``mechanism`` (Laplace, Gumbel or Gaussian, of one vote per unit) makes noise on the teachers'
    votes: FedKT-L2. The paper's gamma is 1 / scale. Teachers label and students learn from all public examples; with a
    mechanism, which makes each of them cost something, ``lessons`` of them drawn at random, or for 0 those that
    students are asked about. ``num_units`` (records, or patients) is public. Raises ConfigError for too
    few records.

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

    reads_votes: ClassVar[bool] = False

    def __init__(
        self,
        make_learner: Callable[[int], "Learner"],
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
        if mechanism is None:
            # Under noise, whose records decide no error, a teacher without any casts no vote.
            check_records(num_units, partitions, teachers)
        self._make_learner, self._num_classes, self._seed = make_learner, num_classes, seed
        self._partitions, self._teachers = partitions, teachers
        self._mechanism, self._lessons = mechanism, lessons
        self._transformer = transformer

    def event(self, asked: Asked) -> "DpEvent":
        """The noisy votes of all partitions' teachers. Raises ValueError without a mechanism."""
        return self.price(len(asked.positions))

    def price(self, num_asked: int) -> "DpEvent":
        """Cost of a question about ``num_asked`` examples, all partitions together: their lessons' noisy votes.

        Raises ValueError without a mechanism.
        """
        if self._mechanism is None:
            raise ValueError("votes without noise have no price")
        return privacy.repeated(self._mechanism.event(self._lessons or num_asked), self._partitions)

    def answer(self, asked: Asked, noise: "Noise | None") -> VoteCounts:
        """For each queried example how many students vote for each class, ``(positions, classes)``.

        Rows sum to the number of partitions. ``noise`` is what the mechanism draws from; a teacher has all records of
        one patient, or none. Raises TrainingError if no teacher of a partition could vote, or a student cannot be
        trained.
        """
        lessons = self._chosen(len(asked.public), asked.positions)
        public = transformed(self._transformer, asked.public)
        lectures, queried = rows(public, lessons), rows(public, asked.positions)
        every = range(self._partitions)
        with one_thread():
            # The parts of all partitions are drawn before any noise.
            parts = [self._parts(partition, asked.private.size, asked.groups, noise) for partition in every]
            counts = [self._teach(partition, asked.private, parts[partition], lectures) for partition in every]
            labels = [self._labels(partition, counts[partition], noise) for partition in every]
            votes = [self._learn(partition, lectures, labels[partition]).predict(queried) for partition in every]
        return tally(votes, len(asked.positions), self._num_classes)

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
        """The records of each teacher: all of one unit, a record or a patient, go to one."""
        of, units = unit_of_each(num_records, groups), units_of(num_records, groups)
        if self._mechanism is not None:
            drawn = uniform_below(_needed(noise), self._teachers, units)[of]
            return [np.flatnonzero(drawn == teacher) for teacher in range(self._teachers)]
        order = generator(self._seed, "partition", partition).permutation(units)
        return [np.flatnonzero(np.isin(of, part)) for part in np.array_split(order, self._teachers)]

    def _teach(
        self, partition: int, private: Examples, parts: Sequence[NDArray[np.intp]], lectures: Features
    ) -> VoteCounts:
        """The votes of a partition's teachers, each of whom learns from one of the parts."""
        votes = []
        for number, part in enumerate(parts):
            teacher = self._make_learner(random_state(self._seed, "teacher", partition, number))
            votes.append(self._vote(teacher, take(private, part), lectures))
        return tally((vote for vote in votes if vote is not None), len(lectures), self._num_classes)

    def _vote(self, teacher: "Learner", part: Examples, lectures: Features) -> HardLabels | None:
        """A teacher's label of each lecture, after it has learned a part of the records; None if it casts no vote.

        So it is without records, and where it cannot learn or predict: to fail as a whole would tell of one record,
        whatever the exception is, and a network of one's own may raise any.
        """
        if part.size == 0:
            return None
        try:
            # By parts: with all records together, one that cannot be preprocessed would silence all teachers.
            return teacher.fit(transformed(self._transformer, part.X), part.y).predict(lectures)
        except Exception:
            return None

    def _learn(self, partition: int, lectures: Features, labels: HardLabels) -> "Learner":
        """A partition's student, which learns from the labels that lectures have."""
        labeled = labels != ABSTAIN
        return self._make_learner(random_state(self._seed, "student", partition)).fit(
            rows(lectures, labeled), labels[labeled]
        )

    def _labels(self, partition: int, counts: VoteCounts, noise: "Noise | None") -> HardLabels:
        """Labels ``(lessons,)`` by the votes of a partition's teachers, ``counts`` ``(lessons, classes)``.

        With a mechanism the noisy maximum; otherwise the plurality, where ties draw lots, and ABSTAIN without a vote.
        Raises TrainingError if there is no vote at all, ValueError for a mechanism without ``noise``.
        """
        if self._mechanism is not None:
            return privacy.noisy_max(self._mechanism, counts, _needed(noise))
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


def check_votes(settings: TransferSettings, privacy: PrivacySettings, votes: int) -> None:
    """Raise ConfigError if a silo of these settings must not answer a question for ``votes`` on each example."""
    if privacy.protection not in ("none", OF_STUDENTS):
        raise ConfigError(
            f"the coordinator asks for votes of students, which protection = {privacy.protection!r} does not cover: "
            f"set protection = {OF_STUDENTS!r}, or 'none'"
        )
    most = settings.most_students(noisy=privacy.enabled)
    if votes > most:
        raise ConfigError(
            f"the coordinator asks for the votes of {votes} students but this silo has {most} at most: raise "
            "partitions under [transfer], or agree upon fewer"
        )


def transfer_for(
    settings: TransferSettings,
    privacy: PrivacySettings,
    learner: "LearnerSettings",
    silo: SiloName,
    schema: "Schema",
    public: PublicSet,
    private: Features,
    votes: int,
    *,
    num_units: int | None = None,
) -> Transfer:
    """The teachers and students that the settings describe, untrained; ``votes`` students are asked for.

    With a protection, preprocessing knows the public set alone, and of ``private`` ``(n, ...)`` only n counts;
    ``num_units`` are the patients among them, where a group column names them. Raises
    ConfigError for more votes than agreed upon, an unknown learner, fewer records than teachers, or a
    budget that no noise keeps; DataError for features that cannot be preprocessed.
    """
    check_installed(privacy)
    check_votes(settings, privacy, votes)
    noisy, units = privacy.enabled, len(private) if num_units is None else num_units
    # Records and pseudo-labels are never learned together here, so a learner without weights will do.
    own = learner.of_parts
    if schema.texts and (reading_of(learner, schema)[0] not in ("nothing", "choice") or not schema.without_texts):
        raise LearnerError(
            f"learner {learner.name!r} reads text, and students and their teachers learn from numbers alone: choose "
            "another learner, or another algorithm, such as 'fedct'"
        )
    transformer = transformer_for(learner, schema, public.X, *([] if noisy else [private]))
    classes, few = len(schema.classes), public.X[:2]
    if transformer is not None:
        few = transformed(transformer, few)

    def make_learner(state: int) -> "Learner":
        # For features that have gone through preprocessing already.
        return untrained(own, state, schema.classes, few, None, total_steps=own.local_steps)

    make_learner(0)  # what is wrong with the learner is said now, and not by its first teacher
    return Transfer(
        make_learner,
        classes,
        partitions=votes,
        teachers=max(1, settings.fitting_teachers(votes, units, noisy=noisy)),
        num_units=units,
        seed=random_state(learner.seed, "transfer", silo),
        transformer=transformer,
        mechanism=teachers_noise(settings, privacy, len(public), votes) if noisy else None,
        lessons=settings.lessons_for(0, len(public)),
    )


def teachers_noise(
    settings: TransferSettings, promised: PrivacySettings, num_public: int, partitions: int
) -> "CountNoise":
    """The noise on the votes of each partition's teachers, of which a record is in one. Raises ConfigError."""
    queries = settings.lessons_for(promised.planned_queries(num_public), num_public)
    scale = (
        1 / settings.gamma
        if settings.gamma
        else _least_scale(settings.noise, queries, partitions, promised.epsilon, promised.delta)
    )
    return privacy.ON_COUNTS[settings.noise](scale)


@lru_cache(maxsize=64)
def _least_scale(noise_kind: str, num_queries: int, partitions: int, epsilon: float, delta: float) -> float:
    """Of noise on the votes of each partition's teachers, which all see the same records. Raises ConfigError.

    Takes seconds, and a simulation has many silos with one plan.
    """
    highest = 100 * num_queries * partitions / epsilon
    return privacy.calibrate(
        lambda scale: privacy.repeated(privacy.ON_COUNTS[noise_kind](scale).event(num_queries), partitions),
        epsilon,
        delta,
        min(0.05, highest),
        highest,
        quick=num_queries * partitions > privacy.SLOW_QUERIES,
    )
