"""What a silo promises about its records, and for how long: ``[privacy]`` in ``silo.toml``."""

from typing import Final, Self

from pydantic import Field, model_validator

from fedct_flwr.config.protections import PROTECTIONS, OwnSettings, Protection, ProtectionName, check_together
from fedct_flwr.config.settings import MAX_INT

_ALWAYS_DECISIVE: Final = ("teachers", "clipping_norm", "noise")
"""Settings of single protections that are in every approval, whatever its protection: they stay, so that it does."""
_IN_THIS_ORDER: Final = ("protection", "epsilon", "delta", "rounds", "queries", *_ALWAYS_DECISIVE)
"""As the log lines of approvals have them; what is newer follows."""


class PrivacySettings(OwnSettings):
    """Whose labels leave in place of the personal model's, and what they may tell about a record in total.

    Epsilon and delta are totals over the whole study, per record of the silo, added or removed. The plan, ``rounds``
    and ``queries``, is what the noise is calibrated for; whatever goes beyond the budget is refused.
    """

    protection: ProtectionName = "none"
    """``none``: the personal model's own labels, without a guarantee. ``dp-sgd``: those of a network trained by noisy
    gradients over the rounds, in steps of its own: not the learner's batch-size, local-steps, learning-rate,
    weight-decay, pseudo-weight and class-weight. ``dp-linear``: of a linear model on features learned from the public
    set, trained once, with a plan of its own too. ``teachers``: a noisy vote of models trained on parts of the records.
    ``randomized-response``: the personal model's, each of them changed at random."""
    epsilon: float = Field(default=1.0, gt=0)
    """For each record, in total over the whole study with all its runs. A smaller one protects more. To raise it needs
    a new approval, and what was spent stays so."""
    delta: float = Field(default=1e-5, ge=0, lt=1)
    """The chance that epsilon does not hold, in total; well below one divided by the number of records."""
    rounds: int = Field(default=10, ge=1, le=MAX_INT)
    """Rounds of the study, all runs together."""
    queries: int = Field(default=0, ge=0, le=MAX_INT)
    """Labels of the study, all runs together; 0: all public examples in each round."""

    @property
    def chosen(self) -> Protection:
        """The protection's entry."""
        return PROTECTIONS[self.protection]

    @property
    def enabled(self) -> bool:
        """Whether anything is promised."""
        return bool(self.chosen.labeler)

    @property
    def decides(self) -> dict[str, object]:
        """What is approved of it, as JSON takes it: what other protections have alone is no part of it."""
        others = OwnSettings.model_fields.keys() - self.chosen.own.model_fields.keys() - {*_ALWAYS_DECISIVE}
        found = self.model_dump(mode="json", exclude=set(others))
        return {**{name: found[name] for name in _IN_THIS_ORDER}, **found}

    def planned_queries(self, num_public: int) -> int:
        """Labels that the plan has."""
        return self.queries or self.rounds * num_public

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        check_together(self.protection, self, self.delta)
        return self
