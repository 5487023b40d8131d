"""Everything one silo works with: data, its copy of the public set, learner, labeler, and what it keeps between rounds.

Its files never leave the silo.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fedct_flwr.config.learner import AUTO, LearnerSettings
from fedct_flwr.datasets.federated import PublicSet, num_units
from fedct_flwr.labelers.labeler import Labeler, Start, labeler_for
from fedct_flwr.learners.base import Learner, Resumable, Saveable
from fedct_flwr.learners.safeguard import NetworkSafeguard, Safeguard, SoftSafeguard
from fedct_flwr.text.printable import logger

if TYPE_CHECKING:
    from fedct_flwr.config.privacy import PrivacySettings, TransferSettings
    from fedct_flwr.datasets.inspection.finding import Finding
    from fedct_flwr.datasets.schema import Schema
    from fedct_flwr.labelers.students import Transfer
    from fedct_flwr.types import Examples, Groups, SiloName
    from fedct_flwr.wire.content import Terms


def set_back(learner: Learner, progress: bytes | None, kept: Path | None) -> bool:
    """Set a learner back: to its ``progress`` in this run, or to the model ``kept`` of the run resumed.

    Returns whether it is one that trains on, and begins.
    """
    if not isinstance(learner, Resumable):
        return False
    if progress is not None:
        learner.restore(progress)
    elif isinstance(learner, Saveable) and kept and kept.exists():
        learner.load(kept)
    else:
        learner.reset()
        return True
    return False


@dataclass(frozen=True, eq=False)
class Site:
    """One silo. ``terms`` are what it has agreed to; a message with others is refused.

    ``learner`` is the personal model, which stays; ``settings`` describe it.
    """

    silo: "SiloName"
    private: "Examples"
    own_test: "Examples"
    pooled_test: "Examples"
    public: PublicSet
    learner: Learner
    settings: LearnerSettings
    privacy: "PrivacySettings"
    transfer: "TransferSettings"
    schema: "Schema"
    terms: "Terms"
    groups: "Groups | None" = None
    """Which private records belong together: a split of them keeps each group on one side."""
    findings: tuple["Finding", ...] = ()
    """Findings on a real silo's records, without any value of a cell."""
    draw_epsilon: float = 0.0
    """Part of the budget of ``privacy`` that a drawn public set spends."""
    result: Mapping[str, object] = field(default_factory=dict)
    """Facts for the log on a query for the records, see ``result_of``."""

    @cached_property
    def safeguard(self) -> Safeguard | None:
        """Decides the consensus's weight here; None where ``pseudo-weight`` is a number."""
        if not self.settings.guarded or self.schema.outcome.number:
            return None
        network, held_out = isinstance(self.learner, Resumable), self.settings.warm_up_rounds == AUTO
        if network and not held_out:
            self._say_in_full("warm-up-rounds is a number, and no record was held out")
            return None
        kind = NetworkSafeguard if network else Safeguard
        return kind(self.private, len(self.schema.classes), self.settings.seed, self.silo, self.groups)

    @cached_property
    def soft_safeguard(self) -> SoftSafeguard | None:
        """Decides the weight of others' probabilities or values."""
        if not self.settings.guarded:
            return None
        if isinstance(self.learner, Resumable):
            self._say_in_full("a network that learns probabilities trains on from round to round")
            return None
        return SoftSafeguard(self.private, len(self.schema.classes), self.settings.seed, self.silo, self.groups)

    def _say_in_full(self, why: str) -> None:
        logger.info("Silo %s: %s, so pseudo-weight = 'auto' counts what others say in full", self.silo, why)

    @cached_property
    def labeler(self) -> Labeler:
        """The labeler whose labels leave under a protection; made when first asked for. Raises ConfigError."""
        if self.settings.name == AUTO and (choice := self.privacy.chosen.of_auto):
            logger.info("Silo %s: %s", self.silo, choice)
        return self.labeler_on(self.public)

    def labeler_on(self, public: PublicSet) -> Labeler:
        """A new labeler of these public examples. Raises ConfigError."""
        self.privacy.check_unit(grouped=self.groups is not None)
        privacy = self.privacy.after(self.draw_epsilon)
        return labeler_for(Start(privacy, self.settings, self.silo, self.schema, public, self.units))

    @property
    def units(self) -> int:
        """Number of units that a guarantee protects: private records, or patients where a group column names them."""
        # A silo without any answers like one with one.
        return max(1, num_units(self.private.size, self.groups))

    def students(self, votes: int) -> "Transfer":
        """The untrained students whose ``votes`` leave. Raises ConfigError or DataError."""
        from fedct_flwr.labelers.students import transfer_for  # loads the making of learners

        return transfer_for(
            self.transfer,
            self.privacy.after(self.draw_epsilon),
            self.settings,
            self.silo,
            self.schema,
            self.public,
            self.private.X,
            votes,
            num_units=self.units,
        )
