"""Teachers at the silo: any learner's labels under differential privacy, by a vote among models of a few records each.

PATE: Papernot et al., "Semi-supervised knowledge transfer for deep learning from private training data", ICLR 2017, and
"Scalable private learning with PATE", ICLR 2018; here within one silo.
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from fedct_flwr.config import PrivacySettings
from fedct_flwr.config.privacy import MAX_TEACHERS
from fedct_flwr.labelers.labeler import Asked, Start
from fedct_flwr.labelers.transfer import drawn_by_unit, trained_on, votes_of
from fedct_flwr.learners.base import Learner
from fedct_flwr.learners.build import untrained
from fedct_flwr.privacy.accounting import SLOW_QUERIES, calibrate
from fedct_flwr.privacy.budget import check_epsilon
from fedct_flwr.privacy.mechanisms import ON_COUNTS
from fedct_flwr.privacy.mechanisms.base import noisy_max, repeated
from fedct_flwr.privacy.randomness import Noise
from fedct_flwr.seeding import random_state
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError, HardLabels, TrainingError

_HEADER: Final = struct.Struct("<8sQ")
_MAGIC: Final = b"teachers"
_RECORDS_EACH: Final = 20
_MOST: Final = 250


def default_teachers(num_units: int) -> int:
    """How many teachers a silo of ``num_units`` has: one for every 20 records (or patients), at most 250.

    More teachers outvote the noise by more, and each knows less: with fewer than some twenty records most learners say
    little more than the most frequent class, and beyond 250 (the number of the PATE papers) the noise matters less.

    >>> [default_teachers(units) for units in (5, 200, 2000, 100_000)]
    [2, 10, 100, 250]
    """
    return max(2, min(_MOST, num_units // _RECORDS_EACH))


def teachers_for(privacy: PrivacySettings, num_units: int) -> int:
    """How many teachers vote. Raises ConfigError for more teachers than records."""
    number = privacy.teachers or default_teachers(num_units)
    if number > num_units:
        raise ConfigError(
            f"there are fewer records than the {number} teachers under [privacy], and each needs some of its own: set "
            "teachers to a twentieth of the number of records, or to 0"
        )
    return number


def labeler(start: Start) -> "TeachersLabeler":
    """Teachers who are the silo's learner. Raises ConfigError for one that cannot be made."""
    privacy, num_public = start.privacy, len(start.public)
    return TeachersLabeler(
        _maker(start),
        num_public,
        start.num_classes,
        num_units=start.num_units,
        num_teachers=teachers_for(privacy, start.num_units),
        # Each public example is answered once.
        num_queries=min(start.planned_queries, num_public),
        noise_kind=privacy.noise,
        seed=start.seed,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
    )


def _maker(start: Start) -> Callable[[int], Learner]:
    """Makes the teacher of a number."""
    # Teachers see no pseudo-labels, so a learner that takes no weights will do.
    settings = start.learner.of_parts
    transformer = start.transformer()
    steps = settings.local_steps * start.privacy.rounds

    def make_teacher(number: int) -> Learner:
        seed = random_state(settings.seed, "teacher", start.silo, number)
        return untrained(settings, seed, start.schema.classes, start.public.X[:2], transformer, total_steps=steps)

    make_teacher(0)  # what is wrong with the learner is said now, and not in the first round
    return make_teacher


class TeachersLabeler:
    """Labels by report noisy max over the votes of ``num_teachers``, each trained on its own part of the records.

    ``make_learner(random_state)`` makes an untrained learner, always the same for the same number; each teacher has its
    own, derived from ``seed``. Its ``fit`` must be a function of its arguments. The noise (Gumbel or discrete Gaussian)
    lets ``num_queries`` labels in the whole study cost ``epsilon`` at ``delta``; more labels cost more. A public
    example that was answered gets the same answer again, for nothing. ``num_units`` (records, or patients) is public.
    Satisfies ``Labeler``. Raises ConfigError for impossible numbers, or a budget that no noise keeps.

    Formal guarantees:
        For each unit of the silo (a record, or a patient with all records), added or removed: all labels together cost
        what ``event`` said, (epsilon, delta)-DP for ``num_queries`` labels. ``dump`` holds labels that were given and
        nothing else, no teacher.

        Each unit draws its teacher uniformly, independently of all others, from the noise's source. So the same draws
        of the other units go with either of two adjacent data sets, and given these the parts differ in one
        teacher's alone: a unit more or less changes the vote of one teacher per example, from one class to another
        or to none. The guarantee holds for every such draw, hence for the mixture of them (both zCDP and (epsilon,
        delta)-DP pass to mixtures with the same weights), also if a silo that was restarted draws again.
        Shuffling the records and cutting them into equal parts, as PATE is often written, would not do: one record
        more moves others across the cuts.

        A teacher without records, or whose training fails, casts no vote: that too is one teacher's. Holds with
        ``SecureNoise`` only. Not covered: the time that it takes, and learners whose result depends on more than
        their own part (a seed that is drawn for all of them in turn).
    """

    reads_votes: ClassVar[bool] = False

    def __init__(
        self,
        make_learner: Callable[[int], Learner],
        num_public: int,
        num_classes: int,
        *,
        num_units: int,
        num_teachers: int,
        num_queries: int,
        epsilon: float,
        delta: float,
        noise_kind: str = "gumbel",
        seed: int,
    ) -> None:
        if not 1 <= num_teachers <= MAX_TEACHERS:
            raise ConfigError(f"the number of teachers is {num_teachers}; set it to 1..{MAX_TEACHERS}")
        if num_teachers > num_units:
            raise ConfigError(
                f"there are {num_teachers} teachers for {num_units} records; set teachers to "
                f"{default_teachers(num_units)}, or to 0 to have them chosen"
            )
        if num_queries < 1:
            raise ConfigError(f"the planned queries of teachers are {num_queries}; set them to 1 or more")
        check_epsilon(epsilon)
        self._mechanism = ON_COUNTS[noise_kind](least_scale(noise_kind, num_queries, 1, epsilon, delta))
        self._make_learner = make_learner
        self._num_classes = num_classes
        self._num_teachers = num_teachers
        self._seed = seed
        self._answers: HardLabels = np.full(num_public, ABSTAIN, dtype=LABEL_DTYPE)
        self._teachers: list[Learner] | None = None

    @property
    def scale(self) -> float:
        """Of the noise, in votes."""
        return self._mechanism.scale

    def event(self, asked: Asked) -> DpEvent:
        """A noisy max for each example that was not answered before."""
        return self._mechanism.event(len(self._new(asked)))

    def answer(self, asked: Asked, noise: Noise) -> HardLabels:
        new = self._new(asked)
        if len(new):
            if self._teachers is None:
                parts = drawn_by_unit(self._num_teachers, asked.private.size, asked.groups, noise)
                self._teachers = trained_on(parts, asked.private, self._num_teachers, self._make)
            counts = votes_of(self._teachers, asked.public[new], self._num_classes)
            self._answers[new] = noisy_max(self._mechanism, counts, noise)
        return self._answers[asked.positions]

    def dump(self) -> bytes:
        return _HEADER.pack(_MAGIC, len(self._answers)) + self._answers.astype("<i2").tobytes()

    def restore(self, state: bytes) -> None:
        """Go on from a dump; teachers are trained again. Raises TrainingError if it is not one of this labeler's."""
        header = _HEADER.pack(_MAGIC, len(self._answers))
        if not state.startswith(header) or len(state) != len(header) + 2 * len(self._answers):
            raise TrainingError("the stored answers are not those of this study's teachers: begin the study again")
        answers = np.frombuffer(state, dtype="<i2", offset=len(header)).astype(LABEL_DTYPE)
        if not ((answers >= ABSTAIN) & (answers < self._num_classes)).all():
            raise TrainingError("the teachers' stored answers are not classes of this study: begin the study again")
        self._answers = answers

    def reset(self) -> None:
        self._answers[:] = ABSTAIN
        self._teachers = None

    def _new(self, asked: Asked) -> NDArray[np.intp]:
        """The examples asked about that have no answer yet, each once."""
        positions = np.unique(asked.positions)
        return np.asarray(positions[self._answers[positions] == ABSTAIN])

    def _make(self, teacher: int) -> Learner:
        return self._make_learner(random_state(self._seed, "teacher", teacher))


@lru_cache(maxsize=64)
def least_scale(noise_kind: str, num_queries: int, partitions: int, epsilon: float, delta: float) -> float:
    """Of noise on the votes of each partition's teachers, which all see the same records. Raises ConfigError.

    Takes seconds, and a simulation has many silos with one plan.
    """
    highest = 100 * num_queries * partitions / epsilon
    return calibrate(
        lambda scale: repeated(ON_COUNTS[noise_kind](scale).event(num_queries), partitions),
        epsilon,
        delta,
        min(0.05, highest),
        highest,
        quick=num_queries * partitions > SLOW_QUERIES,
    )
