"""A labeler, whose labels or votes leave a silo instead of its own models'. It says what each answer spends.

Nothing is fitted to records before a labeler is asked: what it is made of (``Start``) holds none.
"""

from functools import lru_cache
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedct_flwr import privacy
from fedct_flwr.types import (
    ABSTAIN,
    ConfigError,
    Examples,
    Features,
    Groups,
    HardLabels,
    SiloName,
    TrainingError,
    Votes,
)

if TYPE_CHECKING:
    # Needs the extra privacy, which students of a study without protection do not.
    from dp_accounting import DpEvent

    from fedct_flwr.config.learner import LearnerSettings
    from fedct_flwr.config.privacy import PrivacySettings
    from fedct_flwr.config.silo import SiloConfig
    from fedct_flwr.datasets.federated import PublicSet
    from fedct_flwr.datasets.schema import Schema
    from fedct_flwr.privacy.randomness import Noise

_EXTRAS: Final = {"privacy": ("dp_accounting", "opendp"), "dp-sgd": ("dp_accounting", "opendp", "opacus", "torch")}


class Start(NamedTuple):
    """Arguments of a labeler at the beginning of a study, which all count as public: no record is among them."""

    privacy: "PrivacySettings"
    learner: "LearnerSettings"
    silo: SiloName
    schema: "Schema"
    public: "PublicSet"
    num_units: int
    """Records of the silo, or its patients where a group column names them: what is protected, one by one."""

    @property
    def num_classes(self) -> int:
        """Classes of the study."""
        return len(self.schema.classes)


class Asked(NamedTuple):
    """One round's question to a labeler, and the data for its answer."""

    private: Examples
    public: Features
    """All public examples, ``(num_public, ...)``."""
    targets: HardLabels
    """Consensus labels ``(num_public,)`` or ABSTAIN. They were released before: free to train on."""
    votes: HardLabels
    """Labels of the personal model ``(positions,)``, or ABSTAIN where it could not be trained; ``(0,)`` for a labeler
    that does not read them. Private: their use is paid for."""
    positions: NDArray[np.intp]
    """The public examples that are asked about."""
    groups: Groups | None = None
    """Which private records ``(n,)`` are one patient's: then a patient is the unit. None: each record is one."""


class Labeler(Protocol):
    """Labels public examples for a silo under differential privacy, over all rounds of a study.

    Formal guarantees, of every implementation: all labels that ``answer`` ever returned together, and all that
    ``dump`` says, depend on the private records only through mechanisms whose events ``event`` has returned before.
    So does whether ``answer`` raises: no record may make it fail.
    """

    reads_votes: ClassVar[bool]
    """Whether the labels are made of ``Asked.votes``, for which the personal model has to be trained first."""

    def event(self, asked: Asked) -> "DpEvent":
        """Cost of ``answer`` for this question, per unit; a NoOpDpEvent if nothing. Changes nothing.

        Depends on ``asked`` in numbers and in public things alone, and on how far the labeler has come. Raises
        TrainingError for what could not be answered anyway, if that shows already: then nothing is charged.
        """

    def answer(self, asked: Asked, noise: "Noise") -> Votes:
        """The class of each example asked about, ``(positions,)``, never ABSTAIN; or counts ``(positions, classes)``.

        Raises TrainingError.
        """

    def dump(self) -> bytes:
        """How far the labeler has come, for ``restore``."""

    def restore(self, state: bytes) -> None:
        """Go on from a dump. Must not execute anything that is in it. Raises TrainingError."""

    def reset(self) -> None:
        """Go back to the beginning of the study."""


class KeepsNothing:
    """The part of a ``Labeler`` for which each question stands by itself."""

    def dump(self) -> bytes:
        return b""

    def restore(self, state: bytes) -> None:
        """Go on from nothing. Raises TrainingError for another labeler's state."""
        if state:
            raise TrainingError("the stored state is another labeler's: begin the study again")

    def reset(self) -> None:
        """There is nothing to forget."""


def check_installed(privacy: "PrivacySettings") -> None:
    """Raise ConfigError if the protection needs a package that is not installed, naming the extra."""
    if not privacy.enabled:
        return
    check_extra(privacy.chosen.extra, f"protection = {privacy.protection!r}")


def check_all_installed(config: "SiloConfig") -> None:
    """The same for all that bounds what leaves a real silo, noise in sums too."""
    check_installed(config.privacy)
    if config.adds_noise:
        check_extra("privacy", f"kinds = {[*config.policy.kinds]}")
    if config.policy.sum_epsilon:
        check_extra("privacy", "sum-epsilon")


def check_extra(extra: str, what: str) -> None:
    """Raise ConfigError if a package of an extra, which ``what`` needs, is not installed."""
    missing = [package for package in _EXTRAS[extra] if find_spec(package) is None]
    if missing:
        raise ConfigError(f"{what} needs {', '.join(missing)}: pip install -c constraints.txt -e '.[{extra}]'")


def decides_labeler(privacy: "PrivacySettings", learner: "LearnerSettings") -> dict[str, object]:
    """Settings that change a labeler, as JSON types: not the budget, which may be raised and spent on."""
    return {"protection": privacy.protection, "seed": learner.seed, **privacy.chosen.of_learner(learner)}


def labeler_for(start: Start) -> Labeler:
    """The labeler that the settings describe, at the beginning of a study.

    Raises ConfigError for a missing extra, a learner that the protection cannot use, or a plan
    that the budget does not cover, or that covers no labels; DataError for features that cannot be preprocessed. Takes
    seconds for noise that was not looked for before in this process.

    Formal guarantees:
        What the labeler is depends on the settings, the public set and the number of units, which all count as
        public, and on no record.
    """
    check_installed(start.privacy)
    if not start.privacy.chosen.labeler:
        raise ConfigError(
            f"labels are asked for, which protection = {start.privacy.protection!r} does not cover: choose another "
            "protection"
        )
    made: Labeler = resolve_name(start.privacy.chosen.labeler)(start)
    return made


_LARGEST: Final = 50.0
"""An epsilon per label beyond which no label would ever change."""


def randomized(start: Start) -> "RandomizedLabeler":
    """The personal model's own labels, each randomized: for any learner, and dear. For the labels that are planned."""
    agreed, queries = start.privacy, start.privacy.planned_queries(len(start.public))
    return RandomizedLabeler(start.num_classes, num_queries=queries, epsilon=agreed.epsilon, delta=agreed.delta)


class RandomizedLabeler(KeepsNothing):
    """Answers with ``asked.votes`` through k-ary randomized response; every answer costs, a repeated one again.

    ``num_queries`` labels are planned in the whole study, for ``epsilon`` at ``delta`` in total; one that is asked
    more costs more. Satisfies ``Labeler``, and keeps nothing.

    Formal guarantees:
        Pure: each label is ``mechanism.epsilon``-DP for a record, and for the silo as a whole, whatever either changes
        in the personal model: so it needs to know nothing of the learner. n labels are as n releases of
        ``RandomizedResponse``, and ``num_queries`` of them (epsilon, delta)-DP. The labels come from a model that saw
        all records: what one record changes is not bounded, so the price grows with the number of labels.
    """

    reads_votes: ClassVar[bool] = True

    def __init__(self, num_classes: int, *, num_queries: int, epsilon: float, delta: float) -> None:
        self._num_classes = num_classes
        noise = _least_noise(num_classes, num_queries, epsilon, delta)
        self.mechanism = privacy.RandomizedResponse(num_classes, 1 / noise)

    def event(self, asked: Asked) -> "DpEvent":
        return self.mechanism.event(len(asked.positions))

    def answer(self, asked: Asked, noise: "Noise") -> HardLabels:
        """The votes, some of them changed at random, ``(positions,)``; what is no class becomes any class.

        That is an abstention, or whatever else a learner of one's own says: to fail would tell of the records.
        """
        votes = np.asarray(asked.votes)
        known = (votes >= 0) & (votes < self._num_classes)
        return self.mechanism(np.where(known, votes, ABSTAIN), noise)


@lru_cache(maxsize=64)
def _least_noise(num_classes: int, num_queries: int, epsilon: float, delta: float) -> float:
    """Takes seconds, and a simulation has many silos with one plan."""

    def planned(noise: float) -> "DpEvent":
        return privacy.RandomizedResponse(num_classes, 1 / noise).event(num_queries)

    highest = 100 * num_queries / epsilon
    quick = num_queries > privacy.SLOW_QUERIES
    return privacy.calibrate(planned, epsilon, delta, min(1 / _LARGEST, highest), highest, quick=quick)
