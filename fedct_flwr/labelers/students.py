"""From settings to the students whose votes a silo sends, and their votes as what a ledger charges for."""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, ClassVar

from fedct_flwr.config import LearnerSettings, PrivacySettings, TransferSettings
from fedct_flwr.config.privacy import OF_STUDENTS, said
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.labelers.labeler import Asked, KeepsNothing
from fedct_flwr.labelers.protect import check_installed
from fedct_flwr.labelers.transfer import Transfer
from fedct_flwr.learners import preprocessing
from fedct_flwr.learners.base import Learner
from fedct_flwr.learners.build import untrained
from fedct_flwr.learners.text import reading_of, transformer_for
from fedct_flwr.seeding import random_state
from fedct_flwr.types import ConfigError, Features, LearnerError, SiloName, VoteCounts

if TYPE_CHECKING:
    # Needs dp_accounting, which a study without protection does not.
    from dp_accounting import DpEvent

    from fedct_flwr.privacy.mechanisms import CountNoise
    from fedct_flwr.privacy.randomness import Noise


def check_votes(settings: TransferSettings, privacy: PrivacySettings, votes: int) -> None:
    """Raise ConfigError if a silo of these settings must not answer a question for ``votes`` on each example."""
    if privacy.protection not in ("none", OF_STUDENTS):
        raise ConfigError(
            f"the coordinator asks for votes of students, which protection = {privacy.protection!r} does not cover: "
            f"set {said([OF_STUDENTS])}, or 'none'"
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
    learner: LearnerSettings,
    silo: SiloName,
    schema: Schema,
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
    if schema.texts and (reading_of(learner) not in ("nothing", "choice") or not schema.without_texts):
        raise LearnerError(
            f"learner {learner.name!r} reads text, and students and their teachers learn from numbers alone: choose "
            "another learner, or another algorithm, such as 'fedct'"
        )
    transformer = transformer_for(learner, schema, public.X, *([] if noisy else [private]))
    classes, few = len(schema.classes), public.X[:2]
    if transformer is not None:
        few = preprocessing.transformed(transformer, few)
    make_learner = partial(_untrained, own, schema.classes, few)
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


def _untrained(learner: LearnerSettings, classes: Sequence[str], examples: Features, seed: int) -> Learner:
    """For features that have gone through preprocessing already."""
    return untrained(learner, seed, classes, examples, None, total_steps=learner.local_steps)


def teachers_noise(
    settings: TransferSettings, privacy: PrivacySettings, num_public: int, partitions: int
) -> "CountNoise":
    """The noise on the votes of each partition's teachers, of which a record is in one. Raises ConfigError."""
    from fedct_flwr.privacy.mechanisms import ON_COUNTS

    queries = settings.lessons_for(privacy.planned_queries(num_public), num_public)
    scale = (
        1 / settings.gamma
        if settings.gamma
        else _least_scale(settings.noise, queries, partitions, privacy.epsilon, privacy.delta)
    )
    return ON_COUNTS[settings.noise](scale)


@lru_cache(maxsize=64)
def _least_scale(noise_kind: str, num_queries: int, partitions: int, epsilon: float, delta: float) -> float:
    """Of noise on the votes of each partition's teachers, which all see the same records. Raises ConfigError.

    Takes seconds, and a simulation has many silos with one plan.
    """
    from fedct_flwr.privacy.accounting import SLOW_QUERIES, calibrate
    from fedct_flwr.privacy.mechanisms import ON_COUNTS, repeated

    highest = 100 * num_queries * partitions / epsilon
    return calibrate(
        lambda scale: repeated(ON_COUNTS[noise_kind](scale).event(num_queries), partitions),
        epsilon,
        delta,
        min(0.05, highest),
        highest,
        quick=num_queries * partitions > SLOW_QUERIES,
    )


class StudentVotes(KeepsNothing):
    """A ``Labeler`` whose answers are counts: the votes of students taught by noisy teachers (FedKT-L2).

    Keeps nothing between questions: each is charged by itself, and the same question is answered from the ledger.

    Formal guarantees:
        Those of ``Transfer`` with a mechanism: teachers' noisy votes are all that students know of the records.
    """

    reads_votes: ClassVar[bool] = False

    def __init__(self, transfer: Transfer) -> None:
        self._transfer = transfer

    def event(self, asked: Asked) -> "DpEvent":
        """The noisy votes of all partitions' teachers on the examples asked about."""
        return self._transfer.event(len(asked.positions))

    def answer(self, asked: Asked, noise: "Noise") -> VoteCounts:
        return self._transfer.votes(asked.private, asked.public, asked.positions, noise, asked.groups)
